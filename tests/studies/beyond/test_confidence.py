"""The study of the confidence: its scores against literal formulas, and popularity as its control."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.aur.confidence import learn
from aleator.studies.beyond import confidence
from tests.studies.making import record


def test_scores_are_the_literal_ones_and_the_control_is_calibrated() -> None:
    data = al.simulate(n_users=300, n_items=120, per_user=60, seed=2).interactions
    split = data.split(valid=0.1, test=0.2, seed=0)
    aur = al.AUR(al.MF(dim=8), lam=0.5, refit=False, device="cpu").fit(split)
    judged, tested = (confidence.listed_of(aur, split.train, held) for held in (split.valid, split.test))
    control = learn(confidence.popularity_of(judged, aur), judged.hits, judged.n_next, ranked=False)
    assert control is not None
    assert control.by_rank == 0
    for chance, scores in ((aur.chance, tested.scores), (control, confidence.popularity_of(tested, aur))):
        assert chance is not None
        found = confidence.scores_of(chance, scores, tested)
        p = chance(scores, tested.n_next[:, None])
        pairs = list(zip(p.flatten().tolist(), tested.hits.flatten().tolist(), strict=True))
        assert found["brier"] == pytest.approx(sum((a - b) ** 2 for a, b in pairs) / len(pairs), rel=1e-4)
        assert found["ece"] is not None
        assert found["ece"] < 0.05
    predicted = [bin["predicted"] or 0.0 for bin in confidence.bins_of(aur.chance, tested).values()]
    assert predicted == sorted(predicted)


def test_a_refit_afterwards_is_that_of_the_fit() -> None:
    data = al.simulate(n_users=200, n_items=80, per_user=60, seed=2).interactions
    split = data.split(valid=0.1, test=0.2, seed=0)
    estimator = al.FactorEstimator(dim=8, max_epochs=4)
    before, expected = (al.AUR(estimator=estimator, refit=refit, device="cpu").fit(split) for refit in (False, True))
    scores = before.score([0, 1])
    aur = confidence.refitted(before, split.everything)
    assert torch.equal(aur.score([0, 1]), expected.score([0, 1]))
    assert aur.chance == expected.chance
    assert torch.equal(before.score([0, 1]), scores), "the fit without a refit stays as it was"
    assert not torch.equal(before.score([0, 1]), aur.score([0, 1]))


def test_what_says_always_and_what_says_never() -> None:
    y = torch.tensor([1.0, 0.0])
    assert confidence._log_loss(torch.tensor([1.0, 0.0]), y) == pytest.approx(0, abs=1e-5)
    assert confidence._log_loss(torch.tensor([0.0, 1.0]), y) > 10


def test_the_reliability_curve_has_a_point_for_each_bin_of_each_method() -> None:
    def run(method: str, seed: int, taken: float) -> Any:
        bins = {"bin 1": {"predicted": 0.1, "measured": taken}, "bin 2": {"predicted": 0.3, "measured": 0.5}}
        return record(method=method, seed=seed, metrics=bins)

    picture = confidence.picture([run("MF-AUR", 0, 0.1), run("MF-AUR", 1, 0.2), run("AUR", 0, 0.4)])
    (axes,) = picture.figure.axes
    drawn = {str(line.get_label()): np.asarray(line.get_xydata()).tolist() for line in axes.lines}
    assert drawn["MF-AUR"] == [[0.1, pytest.approx(0.15)], [0.3, 0.5]]
    assert drawn["AUR"] == [[0.1, 0.4], [0.3, 0.5]]
    assert all(x == y for x, y in drawn["as predicted"])
