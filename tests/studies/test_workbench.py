"""The bench: methods are fitted once, models are trained once, and nobody can tell from the figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

import aleator as al
from aleator.recommender import Recipe
from aleator.studies.methods import Method, make
from aleator.studies.workbench import Bench


@pytest.fixture
def tiny(split: al.Split) -> al.Split:
    return replace(split, name="tiny")


@pytest.mark.parametrize("recipe", ["ours", "paper"])
@pytest.mark.parametrize("name", ["MF", "LGCN", "VAE", "MF-BPR", "ExpoMF", "PMF", "UE"])
def test_a_model_that_was_remembered_is_the_one_that_would_be_trained(
    name: str, recipe: Recipe, tiny: al.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"recipe": recipe, "seed": 0, "device": "cpu", "quick": True}
    alone = make(Method(f"{name}-AUR"), tiny, "tiny", **about).fit(tiny)  # type: ignore[arg-type]
    bench = Bench("tiny", tiny, recipe, quick=True)
    bare = bench.fit(Method(name))
    kind, learned = type(bare), []
    original = kind.learn
    monkeypatch.setattr(kind, "learn", lambda self, *rest: (learned.append(self), original(self, *rest)))
    made = bench.fit(Method(f"{name}-AUR"))
    assert isinstance(made, al.AUR)
    assert isinstance(alone, al.AUR)
    assert learned == [] or not bare.stops_early, "the model was trained again"  # type: ignore[attr-defined]
    users = list(range(20))
    assert (made.score(users) == alone.score(users)).all()
    assert made.lam_used == alone.lam_used
    assert (made.model.score(users) == bare.score(users)).all()


def test_other_options_are_another_training(tiny: al.Split) -> None:
    bench = Bench("tiny", tiny, quick=True)
    small, large = (bench.fit(Method("MF", {"model.dim": dim})) for dim in (4, 8))
    assert (small.dim, large.dim) == (4, 8)  # type: ignore[attr-defined]
    assert small.user_factors.shape[1] == 4  # type: ignore[attr-defined]


def test_joint_training_leaves_the_remembered_model_alone(tiny: al.Split) -> None:
    bench = Bench("tiny", tiny, quick=True)
    before = bench.fit(Method("MF")).score([0, 1])
    bench.fit(Method("MF-AUR-J"))
    bench.fit(Method("MF-AUR"))
    again = Bench("tiny", tiny, quick=True).fit(Method("MF")).score([0, 1])
    assert (bench.fit(Method("MF")).score([0, 1]) == before).all()
    assert (again == before).all()


def test_the_seconds_of_a_method_count_its_model(tiny: al.Split) -> None:
    bench = Bench("tiny", tiny, quick=True)
    bench.fit(Method("VAE"))
    assert len(bench._memory.kept) == 2, "a training for the choice of epochs, and one on all pairs"
    for trained in bench._memory.kept.values():
        trained.seconds = 1000.0
    bench.fit(Method("VAE-AUR"))
    assert 2000 < bench.seconds["VAE-AUR"] < 3000
