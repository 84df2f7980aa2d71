"""The workbench: it fits each method once and each model once, and the figures stay the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aleator as al
from aleator.recipe import recipe_of
from aleator.studies.methods import Method, make
from aleator.studies.workbench import Workbench, fits_kept_in
from aleator.training import journal
from aleator.training.watch import Epoch, watching


@pytest.fixture
def tiny(split: al.Split) -> al.Split:
    return replace(split, name="tiny")


@pytest.mark.parametrize("recipe", ["ours", "test", "paper"])
@pytest.mark.parametrize("name", ["MF", "LGCN", "VAE", "MF-BPR", "ExpoMF", "PMF", "UE", "FISM"])
def test_a_cached_model_is_the_one_that_would_be_fitted(
    name: str, recipe: str, tiny: al.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = recipe_of(recipe)
    alone = make(Method(f"{name}-AUR"), tiny, "tiny", recipe=used, seed=0, device="cpu", quick=True).fit(tiny)
    bench = Workbench("tiny", tiny, used, quick=True)
    bare = bench.fit(Method(name))
    kind: Any = type(bare)
    original, learned = kind.learn, []

    def learn(self: Any, *rest: Any, **more: Any) -> None:
        learned.append(self)
        original(self, *rest, **more)

    monkeypatch.setattr(kind, "learn", learn)
    made = bench.fit(Method(f"{name}-AUR"))
    assert isinstance(made, al.AUR)
    assert isinstance(alone, al.AUR)
    assert learned == [] or not bare.stops_early, "the model was fitted again"  # type: ignore[attr-defined]
    users = list(range(20))
    assert (made.score(users) == alone.score(users)).all()
    assert made.lam_used == alone.lam_used
    assert (made.model.score(users) == bare.score(users)).all()


def test_a_fit_that_was_interrupted_goes_on(tiny: al.Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "EVERY", 0.0)
    monkeypatch.setattr(journal, "SHARE", 1e9)
    method, undisturbed, epochs = Method("VAE", {"model.max_epochs": 8, "model.dim": 4, "model.dropout": 0.0}), [0], [0]
    with watching(lambda told: undisturbed.append(told.epoch)):
        whole = Workbench("tiny", tiny).fit(method)

    def stop(told: Epoch) -> None:
        epochs.append(told.epoch)
        if len(epochs) == 5:
            raise KeyboardInterrupt

    with watching(stop):
        with pytest.raises(KeyboardInterrupt), fits_kept_in(tmp_path / "fits"):
            Workbench("tiny", tiny).fit(method)
        with fits_kept_in(tmp_path / "fits"):
            resumed = Workbench("tiny", tiny).fit(method)
    assert len(epochs) <= len(undisturbed) + 1  # at most the epoch after the last save is trained twice
    assert (resumed.score(list(range(20))) == whole.score(list(range(20)))).all()
    assert not (tmp_path / "fits").exists()


def test_other_options_are_another_training(tiny: al.Split) -> None:
    bench = Workbench("tiny", tiny, quick=True)
    for dim in (4, 8):
        model = bench.fit(Method("MF", {"model.dim": dim}))
        assert isinstance(model, al.MF)
        factors = model.factors(model.users([0, 1]))
        assert factors is not None
        assert factors[0].shape == (2, dim)


def test_joint_training_leaves_the_cached_model_alone(tiny: al.Split) -> None:
    bench = Workbench("tiny", tiny, quick=True)
    before = bench.fit(Method("MF")).score([0, 1])
    bench.fit(Method("MF-AUR-J"))
    bench.fit(Method("MF-AUR"))
    again = Workbench("tiny", tiny, quick=True).fit(Method("MF")).score([0, 1])
    assert (bench.fit(Method("MF")).score([0, 1]) == before).all()
    assert (again == before).all()


def test_the_seconds_of_a_method_count_its_model(tiny: al.Split) -> None:
    bench = Workbench("tiny", tiny, quick=True)
    bench.fit(Method("VAE"))
    assert bench.cache.saved == 0
    bench.fit(Method("VAE-AUR"))
    assert 0 < bench.cache.saved < bench.seconds["VAE-AUR"]


def test_a_grafted_model_is_fitted_without_the_pairs_that_lam_is_chosen_on(tiny: al.Split) -> None:
    whole = replace(tiny, train=tiny.everything, valid=tiny.valid.take(np.zeros(len(tiny.valid), bool)))
    bench = Workbench("tiny", whole, quick=True)
    assert len(bench.split_for(Method("MF-AUR")).valid) == 0
    assert len(bench.split_for(Method("implicit-als-AUR")).valid) > 0
    on_test = Workbench("tiny", whole, recipe_of("paper"), quick=True)
    assert on_test.split_for(Method("implicit-als-AUR")) is whole


def test_the_tail_and_the_policy_are_those_of_the_recipe(tiny: al.Split) -> None:
    cut = replace(tiny, paper_tail=al.Tail.count(3))
    ours, paper = (Workbench("tiny", cut, recipe_of(name)).conventions() for name in ("ours", "paper"))
    assert ours["tail"] != paper["tail"]
    assert (ours["recipe"], ours["empty"]) == ("ours", "skip")
    assert (paper["recipe"], paper["empty"]) == ("paper", "zero")


def test_studies_with_and_without_tuned_options_share_a_fit_that_is_the_same(tiny: al.Split) -> None:
    bench, method = Workbench("tiny", tiny, quick=True), Method("MF-AUR")
    assert bench.tuned(method) == {}
    assert bench.fit(method) is bench.untuned.fit(method)
    assert bench.report(method) is bench.untuned.report(method)
