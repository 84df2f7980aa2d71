"""Options: named once, checked by name and type, and remembered as given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
import torch

import aleator as al
from aleator.options import Configurable, Registry


@dataclass(kw_only=True, eq=False, repr=False)
class Thing(Configurable):
    size: int = 3
    rate: float = 0.5
    kind: Literal["plain", "fancy"] = "plain"
    limit: float | Literal["auto"] = "auto"
    name: str = "x"
    on: bool = True


def test_a_misspelt_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(al.AleatorError, match=r"unknown option of Thing 'sise'.*did you mean 'size'"):
        Thing(sise=4)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"size": 2.5}, "size"),
        ({"size": "4"}, "size"),
        ({"size": True}, "size"),
        ({"rate": "fast"}, "rate"),
        ({"rate": False}, "rate"),
        ({"kind": "odd"}, "kind"),
        ({"limit": "soon"}, "limit"),
        ({"name": 3}, "name"),
        ({"on": 1}, "on"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_name(options: dict[str, object], named: str) -> None:
    with pytest.raises(al.AleatorError, match=f"option {named} of Thing"):
        Thing(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "wanted"), [({"kind": "odd"}, ["plain", "fancy"]), ({"limit": "soon"}, ["float", "auto"])]
)
def test_the_refusal_says_what_the_option_takes(options: dict[str, object], wanted: list[str]) -> None:
    with pytest.raises(al.AleatorError) as caught:
        Thing(**options)  # type: ignore[arg-type]
    for word in wanted:
        assert word in caught.value.remedy


def test_an_integer_is_a_number_and_the_literal_beside_it_is_taken() -> None:
    assert Thing(rate=1).rate == 1
    assert Thing(limit=2).limit == 2
    assert Thing(limit="auto").limit == "auto"


def test_defaults_fill_only_what_was_not_given() -> None:
    thing = Thing(size=7).with_defaults(size=1, rate=0.9, unheard_of=5)
    assert (thing.size, thing.rate, thing.kind) == (7, 0.9, "plain")


def test_options_and_the_manifest_hold_every_option() -> None:
    thing = Thing(size=7)
    assert set(thing.options()) == {"size", "rate", "kind", "limit", "name", "on"}
    assert Registry("thing", thing=Thing).build(thing.to_manifest()).options() == thing.options()


def test_repr_shows_what_was_given() -> None:
    assert repr(Thing(size=7)) == "Thing(size=7)"


def test_repr_of_an_aur_shows_its_model() -> None:
    assert "MF(dim=8)" in repr(al.AUR(al.MF(dim=8), alpha=2.0))


def test_a_registry_refuses_an_unknown_name_with_the_nearest() -> None:
    things = Registry("thing", thing=Thing)
    assert things["thing"] is Thing
    with pytest.raises(al.AleatorError, match="did you mean 'thing'"):
        things["thng"]
    with pytest.raises(al.AleatorError, match="did you mean 'Thing'"):
        things.by_class("Thingy")


@pytest.mark.parametrize(
    "make",
    [
        lambda: al.MF(dim=0),
        lambda: al.MF(mu=0.0),
        lambda: al.MF(mu=1.5),
        lambda: al.MF(l2=-1.0),
        lambda: al.MF(lr=0.0),
        lambda: al.MF(batch_size=0),
        lambda: al.MF(seed=-1),
        lambda: al.FactorEstimator(dim=0),
        lambda: al.FactorEstimator(history_dropout=1.0),
        lambda: al.FactorEstimator(batch_size=0),
        lambda: al.FactorEstimator(max_epochs=0),
        lambda: al.FactorEstimator(weight_decay=-0.1),
        lambda: al.AUR(al.MF(), alpha=0.0),
        lambda: al.AUR(al.MF(), beta=0.0),
        lambda: al.AUR(al.MF(), gamma=-1.0),
        lambda: al.AUR(al.MF(), floor=-1.0),
        lambda: al.AUR(al.MF(), lam=1.5),
        lambda: al.AUR(al.MF(), lam=float("nan")),
        lambda: al.AUR("MF"),  # type: ignore[arg-type]
        lambda: al.AUR(al.MF(), select="best"),  # type: ignore[arg-type]
        lambda: al.AUR(al.MF(), recipe="papr"),  # type: ignore[arg-type]
    ],
)
def test_a_value_out_of_range_is_refused(make: Callable[[], Configurable]) -> None:
    with pytest.raises(al.AleatorError):
        make()


def test_aur_hands_its_device_and_seed_to_its_parts_unless_they_have_their_own() -> None:
    aur = al.AUR(al.MF(seed=5), seed=3, device="cpu")
    assert (aur.model.seed, aur.estimator.seed) == (5, 3)
    assert (aur.model.device, aur.estimator.device) == ("cpu", "cpu")


def test_recipe_paper_sets_what_was_not_given() -> None:
    aur = al.AUR(al.MF(solver="adam", lr=0.5), recipe="paper")
    assert isinstance(aur.model, al.MF)
    assert isinstance(aur.estimator, al.FactorEstimator)
    assert (aur.model.solver, aur.model.negatives, aur.model.l2, aur.model.lr) == ("adam", "shared", 0.0, 0.5)
    assert (aur.estimator.self_exclude, aur.estimator.weight_decay, aur.estimator.batch_size) == (False, 0.0, 32)
    assert aur.objective.floor == 1e-3
    assert al.AUR(al.MF(), recipe="paper", floor=0.2).objective.floor == 0.2


def test_an_option_without_its_name_is_refused_with_an_example() -> None:
    makers: list[tuple[Callable[..., object], tuple[object, ...], str]] = [
        (Thing, (8,), r"Thing was given 8 without .*; name the option, such as Thing\(size=8\)"),
        (al.MF, (8,), r"such as MF\(dim=8\)"),
        (al.AUR, (al.MF(), 0.5), r"such as AUR\(alpha=0\.5\)"),
    ]
    for make, given, says in makers:
        with pytest.raises(al.AleatorError, match=says):
            make(*given)


def test_params_are_those_of_scikit_learn() -> None:
    aur = al.AUR(al.MF(dim=16), alpha=2.0)
    assert aur.get_params(deep=False).keys() == aur.options().keys() | {"model"}
    assert aur.get_params()["alpha"] == 2.0
    assert aur.get_params()["model__dim"] == 16
    assert aur.get_params()["estimator__dim"] == 1024
    assert "estimator__dim" not in aur.get_params(deep=False)
    assert "lr" not in al.MF().get_params()  # of the other solver
    again = al.AUR(**aur.get_params(deep=False))
    assert again.options() == aur.options()


def test_params_are_what_was_given_also_after_a_fit(split: al.Split) -> None:
    estimator = al.FactorEstimator(dim=4, max_epochs=1)
    aur = al.AUR(contenders=[al.MF(dim=4, l2=0.01), al.MF(dim=2, l2=0.01)], estimator=estimator)
    before = aur.get_params(deep=False)
    after = aur.fit(split).get_params(deep=False)
    assert after.keys() == before.keys()
    assert after["model"] is None
    assert [model.dim for model in after["contenders"]] == [4, 2]
    assert after["lam"] == "auto"


@pytest.mark.parametrize("make", [lambda: al.AUR(al.MF(dim=4), recipe="paper"), lambda: al.AUR(seed=3), al.EASE])
def test_a_clone_of_scikit_learn_is_the_same_object_unfitted(make: Callable[[], al.AUR]) -> None:
    base = pytest.importorskip("sklearn.base", reason="needs the extra tune")
    made = make()
    clone = base.clone(made)
    assert clone is not made
    assert clone.given.keys() == made.given.keys() | ({"model"} if made.given.get("recipe") else set())
    assert clone.get_params().keys() == made.get_params().keys()
    assert {n: v for n, v in clone.get_params().items() if isinstance(v, (int, float, str))} == {
        n: v for n, v in made.get_params().items() if isinstance(v, (int, float, str))
    }


def test_a_clone_of_a_fitted_aur_fits_to_the_same_scores(fitted_aur: al.AUR, split: al.Split) -> None:
    base = pytest.importorskip("sklearn.base", reason="needs the extra tune")
    clone = base.clone(fitted_aur)
    assert clone.data is None
    assert clone.model.data is None
    assert torch.equal(clone.fit(split).score([0, 1]), fitted_aur.score([0, 1]))


def test_a_clone_of_a_graft_keeps_what_was_grafted(split: al.Split) -> None:
    base = pytest.importorskip("sklearn.base", reason="needs the extra tune")
    model = al.graft(lambda users: np.ones((len(users), 50)), check=False)
    assert base.clone(model).source is model.source
