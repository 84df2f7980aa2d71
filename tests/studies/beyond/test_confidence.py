"""The study of the confidence: its scores against literal formulas, and popularity as its control."""

from __future__ import annotations

import pytest
import torch

import aleator as al
from aleator.aur.confidence import lists
from aleator.recipe import RECIPES
from aleator.studies.beyond import confidence

SPLIT = al.simulate(n_users=300, n_items=120, per_user=60, seed=2).interactions.split(valid=0.1, test=0.2, seed=0)


def test_scores_are_the_literal_ones_and_popularity_is_calibrated() -> None:
    model, chance = confidence.calibrated_popularity(SPLIT, RECIPES["ours"], 0, "cpu")
    assert model.fitted.fingerprint == SPLIT.everything.fingerprint
    assert chance is not None
    held = model.hold_out(SPLIT.everything, SPLIT.test)
    found = confidence.judged(chance, model.score_block, held, "popularity")
    scores, hits, n_next = (torch.cat(part) for part in zip(*lists(model.score_block, held), strict=True))
    p = chance(scores, n_next[:, None])
    brier = [(a - b) ** 2 for a, b in zip(p.flatten().tolist(), hits.flatten().tolist(), strict=True)]
    assert found["popularity"]["brier"] == pytest.approx(sum(brier) / len(brier), rel=1e-5)
    assert found["popularity"]["ece"] is not None
    assert found["popularity"]["ece"] < 0.05
    predicted = [found[f"bin {n}"]["predicted"] for n in range(1, confidence.BINS + 1)]
    assert predicted == sorted(predicted, key=lambda value: value or 0.0)


def test_what_says_always_and_what_says_never() -> None:
    y = torch.tensor([1.0, 0.0])
    assert confidence._log_loss(torch.tensor([1.0, 0.0]), y) == pytest.approx(0, abs=1e-5)
    assert confidence._log_loss(torch.tensor([0.0, 1.0]), y) > 10
