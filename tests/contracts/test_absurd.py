"""An absurd value of an option works or is refused: for every option, nothing hangs and no other exception comes out.

What an option counts is left out where the work is what a person asked for, and is shown: epochs and iterations.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import aleator as al
from aleator import device as devices
from aleator.models import MODELS
from aleator.options import Configurable
from aleator.uncertainty import ESTIMATORS
from tests.contracts.test_options import BASE, NO_RACE
from tests.forks import in_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it forks")
COUNTS = ("max_epochs", "iterations")
VALUES: dict[Any, tuple[float, ...]] = {int: (-1, 10**12, 2**62), float: (-1.0, 1e-30, 1e30)}
QUICK = {"max_epochs": 1, "patience": 1, "check_every": 1}
ESTIMATOR: dict[str, Any] = {"dim": 4, "max_epochs": 1, "lr": 0.05}
Case = tuple[Any, dict[str, Any], str, Any]


def values(hint: Any) -> Iterator[float]:
    """Absurd values of a type."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        for one in typing.get_args(hint):
            yield from values(one)
    yield from VALUES.get(hint, ())


def cases() -> Iterator[Any]:
    """For each class, its options with absurd values. An option that several classes inherit is tried in one of them."""
    listed: list[tuple[str, Any, dict[str, Any]]] = [("aur", al.AUR, {"lam": 0.5}), ("joint", al.Joint, {})]
    for label, base in BASE.items():
        name = label.partition(" ")[0]
        part: type[Configurable] = MODELS[name] if name in MODELS.classes else ESTIMATORS[name]
        listed.append((label, part, base | {option: QUICK[option] for option in base.keys() & QUICK.keys()}))
    seen: set[tuple[str, str]] = set()
    for label, kind, base in listed:
        hints, found = typing.get_type_hints(kind), list[Case]()
        unused = () if kind is al.Joint else kind(**base).unused()
        for option in dataclasses.fields(kind):
            owner = next(each for each in kind.__mro__ if option.name in vars(each).get("__annotations__", {}))
            place = label if owner is kind else owner.__name__, option.name
            if option.init and option.name not in unused and place not in seen:
                seen.add(place)
                found += [(kind, base, option.name, value) for value in values(hints[option.name])]
        yield pytest.param([case for case in found if case[2] not in COUNTS or case[3] < 0], id=label)


def made(kind: Any, given: dict[str, Any]) -> al.Model | al.AUR:
    """What has these options, and all that it needs."""
    if issubclass(kind, al.Model):
        model: al.Model = kind(**given)
        return model
    if kind is al.Joint:
        estimator, joint = al.FactorEstimator(**ESTIMATOR), al.Joint(**{"max_epochs": 1} | given)
        return al.AUR(al.LightGCN(dim=2, max_epochs=1), estimator=estimator, joint=joint, lam=0.5)
    bare = al.MF(dim=2, l2=0.1)
    if kind is al.AUR:
        return al.AUR(bare, estimator=al.FactorEstimator(**ESTIMATOR), **NO_RACE | given)
    return al.AUR(bare, estimator=kind(**given), lam=0.5, **NO_RACE)


def tried(case: Case, data: al.Interactions) -> str:
    """How a fit with the value ends: "" if it works or is refused."""
    kind, base, option, value = case
    try:
        scores = made(kind, base | {option: value}).fit(data).score([0, 1])
        return "" if bool(torch.as_tensor(scores).isfinite().all()) else "its scores are not finite"
    except al.AleatorError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.fixture(scope="module")
def data() -> al.Interactions:
    small = al.simulate(n_users=16, n_items=12, per_user=30, seed=0).interactions
    al.BPR(dim=2, max_epochs=1).fit(small)  # what PyTorch imports at the first step, all children have
    return small


@pytest.mark.parametrize("of_class", list(cases()))
def test_an_absurd_value_works_or_is_refused(of_class: list[Case], data: al.Interactions) -> None:
    def wrong() -> list[str]:
        ends = [(case, tried(case, data)) for case in of_class]
        return [f"{case[0].__name__}({case[2]}={case[3]}): {end}" for case, end in ends if end]

    child = in_child(wrong)
    assert child.signal == 0, "it hung"
    assert child.result == []


CALLS: dict[str, Callable[[al.EASE, Any], object]] = {
    "evaluate k": lambda model, n: al.evaluate(model, model.fitted.split(valid=0.0, test=0.3), k=n),
    "split seed": lambda model, n: model.fitted.split(valid=0.1, test=0.2, seed=n),
    "carve seed": lambda model, n: model.fitted.split(valid=0.0, test=0.3).carve(seed=n),
    "users": lambda model, n: al.simulate(n_users=n),
    "items": lambda model, n: al.simulate(n_items=n),
    "showings": lambda model, n: al.simulate(per_user=n),
    "tastes": lambda model, n: al.simulate(dim=n),
    "seed": lambda model, n: al.simulate(seed=n),
    "explain": lambda model, n: model.recommend([0], k=1, explain=-abs(n)),
    "joint": lambda model, n: al.Joint(lr=str(n)),  # type: ignore[arg-type]
    "k": lambda model, n: model.recommend([0], k=n),
    "similar k": lambda model, n: model.similar_items([0], k=n),
    "rerank k": lambda model, n: model.rerank(model.recommend([0], k=1).to_pandas()[["user_id", "item_id"]], k=-abs(n)),
    "per_part": lambda model, n: al.recommend_batch(model, {"user_id": [0]}, "nowhere", k=1, per_part=-abs(n)),
}


@pytest.mark.parametrize("value", [-1, 2**62, 10**30])
@pytest.mark.parametrize("call", CALLS)
def test_an_absurd_argument_is_refused(call: str, value: int, data: al.Interactions) -> None:
    if "seed" in call and value == 2**62:
        value = 2**63
    with pytest.raises(al.AleatorError):
        CALLS[call](al.EASE(l2=1.0).fit(data), value)


def test_all_reasons_are_no_more_than_there_are(data: al.Interactions) -> None:
    model = al.EASE(l2=1.0).fit(data)
    some = model.recommend([0], k=1, explain=10**30)
    assert some.equals(model.recommend([0], k=1, explain=data.n_items))
    assert model.explain([0], [1], n=10**30).equals(model.explain([0], [1]))


TABLES = ["bpr", "expomf", "fism", "ips", "lightgcn", "macr", "mf", "mf adam", "multvae", "pmf", "ue", "zerosum"]


@pytest.mark.parametrize("label", TABLES)
def test_tables_that_do_not_fit_in_memory_are_refused(
    label: str, data: al.Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system hands out memory that it does not have, it would kill the process later."""
    monkeypatch.setattr(devices, "free_memory", lambda device: 1000)
    model = MODELS[label.partition(" ")[0]](**BASE[label])
    told = r"a training of tables of \d.* x .* numbers needs [\d.]+ GiB and 0.0 GiB are free on cpu; take a smaller dim"
    with pytest.raises(al.AleatorError, match=told):
        model.fit(data)
