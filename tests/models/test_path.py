"""The short path: it finds the peak, is short, and what it chose goes wherever the model goes."""

from __future__ import annotations

from pathlib import Path as File
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator import checkpoint
from aleator.aur.residuals import OutOfSample
from aleator.models import mf
from aleator.models.cache import ModelCache
from aleator.models.path import short_path
from aleator.training.stop import Stop
from tests.folders import as_of_format, manifest_of


@pytest.mark.parametrize("peak", [0.0004, 0.003, 0.02, 0.9])
def test_it_finds_the_best_of_all_values_by_brute_force(peak: float) -> None:
    def judge(value: float) -> float:
        return float(1 / (1 + np.log2(value / peak) ** 2))

    path = short_path(judge, 0.003)
    grid = [0.003 * 2 ** (k / 2) for k in range(-20, 21)]
    best = max(grid, key=judge)
    assert path.best == pytest.approx(best)
    assert path.tried[path.best] == judge(path.best)
    assert len(path.tried) <= 12


def test_of_values_that_are_about_as_good_it_takes_the_largest_and_tries_nothing_finer() -> None:
    found = {0.25: 1.0, 1.0: 1.004, 4.0: 1.003, 16.0: 0.5}
    path = short_path(found.__getitem__, 1.0)
    assert path.tried == {value: found[value] for value in (1.0, 4.0, 0.25)}
    assert path.best == 4.0


@pytest.mark.parametrize("worth", [lambda value: value, lambda value: 0.0, lambda value: float("nan")])
def test_it_ends_whatever_the_judge_says(worth: Any) -> None:
    path = short_path(worth, 1.0)
    assert 1 <= len(path.tried) <= 16
    assert path.best in path.tried


MODELS: dict[str, dict[str, Any]] = {"mf": {"dim": 16}, "ips": {"dim": 16}, "ease": {}}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_takes_what_is_best_on_held_out_pairs_and_keeps_it(name: str, split: al.Split, tmp_path: File) -> None:
    kind: Any = al.models.MODELS[name]
    model = kind(device="cpu", **MODELS[name]).fit(split)
    best = max(row["recall"] for row in model.tried)
    chosen = next(row for row in model.tried if row["l2"] == model.chosen["l2"])
    assert chosen["recall"] >= 0.99 * best
    assert len({row["l2"] for row in model.tried}) == len(model.tried) >= 3
    assert len(model.fitted) == len(split.everything)
    given = kind(device="cpu", l2=model.chosen["l2"], **MODELS[name]).fit(split.everything)
    assert torch.equal(model.score([0, 1]), given.score([0, 1]))
    assert torch.equal(model.score({"new": [1, 2]}), given.score({"new": [1, 2]}))
    model.save(tmp_path / "m")
    loaded = kind.load(tmp_path / "m", device="cpu")
    assert (loaded.chosen, loaded.tried) == (model.chosen, model.tried)
    assert torch.equal(loaded.score({"new": [1, 2]}), model.score({"new": [1, 2]}))


def test_a_given_value_is_not_tried_against_others(split: al.Split) -> None:
    model = al.MF(dim=4, l2=0.01).fit(split)
    assert (model.chosen, model.tried) == ({}, [])
    assert not model.holds_out


def test_without_held_out_pairs_a_fixed_value_holds_or_the_last_choice(split: al.Split) -> None:
    model = al.MF(dim=4, device="cpu")
    model.fit_pairs(split.train)
    assert model.l2_used == mf._START
    model.fit(split)
    chosen = model.chosen
    model.fit_pairs(split.train)
    assert model.chosen == chosen
    assert model.l2_used == chosen["l2"]


def test_each_fit_chooses_anew(split: al.Split) -> None:
    """What an earlier fit chose must not decide where the path of this one goes."""
    model = al.MF(dim=8, device="cpu").fit(split)
    model.chosen = {"l2": 123.0}
    assert model.fit(split).chosen == al.MF(dim=8, device="cpu").fit(split).chosen


def test_cross_fitting_and_leaving_out_use_the_choice(split: al.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    model = al.MF(dim=8, device="cpu").fit(split)
    model.chosen = {"l2": 0.0123}
    used, learn = [], al.MF.learn

    def noted(self: al.MF, stop: Stop) -> None:
        used.append(self.l2_used)
        learn(self, stop)

    monkeypatch.setattr(al.MF, "learn", noted)
    OutOfSample(model, cross_fit=True)
    assert used == [0.0123] * 5
    assert model.chosen == {"l2": 0.0123}


def test_under_aur_the_refit_uses_the_choice(split: al.Split) -> None:
    aur = al.AUR(al.MF(dim=8), estimator=al.FactorEstimator(dim=4, max_epochs=1), lam=0.5, device="cpu").fit(split)
    bare = al.MF(dim=8, device="cpu").fit(split)
    assert aur.model.chosen == bare.chosen
    assert torch.equal(aur.expectation([0, 1]), bare.score([0, 1]))


def test_another_choice_is_another_fit_for_a_cache(split: al.Split) -> None:
    cache, models = ModelCache(), [al.MF(dim=4, device="cpu") for _ in range(3)]
    for model, l2 in zip(models, (0.01, 0.03, 0.01), strict=True):
        model.chosen = {"l2": l2}
        cache.fit_pairs(model, split.train)
    one, two, again = (model.score([0]) for model in models)
    assert cache.saved > 0
    assert torch.equal(one, again)
    assert not torch.equal(one, two)


def test_a_cache_gives_back_what_was_chosen(split: al.Split) -> None:
    cache = ModelCache()
    alone, first, second = (al.MF(dim=4, refit=False, device="cpu").fit(split, cache=c) for c in (None, cache, cache))
    assert cache.saved > 0
    assert alone.chosen == first.chosen == second.chosen != {}
    assert alone.tried == first.tried == second.tried


def as_format_2(folder: File) -> None:
    """Write a manifest as it was before models chose options."""
    manifest = manifest_of(folder)
    of_model = manifest["options"]["model"] if manifest["kind"] == "AUR" else manifest
    learned = manifest["learned"]["model"] if manifest["kind"] == "AUR" else manifest["learned"]
    of_model["options"].pop("frequency", None)
    del learned["chosen"], learned["tried"]
    as_of_format(folder, 2, manifest)


@pytest.mark.parametrize(
    "made",
    [
        lambda: al.MF(dim=4, l2=0.05, frequency=False),
        lambda: al.IPS(dim=4, l2=0.05, frequency=False),
        lambda: al.EASE(l2=30.0),
    ],
)
def test_an_older_folder_scores_as_it_did(made: Any, split: al.Split, tmp_path: File) -> None:
    model = made().fit(split)
    model.save(tmp_path / "m")
    as_format_2(tmp_path / "m")
    assert checkpoint.read_manifest(tmp_path / "m")["format"] == 2
    loaded = al.load_model(tmp_path / "m", device="cpu")
    for who in ([0, 1], {"new": [1, 2, 3]}):
        assert torch.equal(loaded.score(who), model.score(who))
    assert isinstance(loaded, al.Model)
    assert getattr(loaded, "frequency", False) is False
    assert loaded.chosen == {}
