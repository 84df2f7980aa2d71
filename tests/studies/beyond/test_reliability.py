"""Reliability: bins of equal counts, and residuals of pairs that were not trained on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import aleator as al
from aleator.studies.beyond import reliability


def test_bins_have_equal_mass_and_a_tie_counts_in_each_by_its_share() -> None:
    sigma2, mass = np.linspace(0.01, 0.2, 20), np.ones(20)
    found = reliability.bins(sigma2, mass, 2 * sigma2)
    assert found["bin 1"]["predicted"] == pytest.approx(sigma2[:2].mean())
    assert found["bin 10"]["measured"] == pytest.approx(2 * sigma2[-2:].mean())
    assert found["top 1 %"]["predicted"] == pytest.approx(sigma2[-1])
    assert found["all"]["largest_sigma"] == pytest.approx(0.2**0.5)
    one = reliability.bins(np.array([0.1, 0.4]), np.array([95.0, 5.0]), np.array([0.0, 1.0]))
    assert one["bin 9"]["measured"] == 0
    assert one["bin 10"]["measured"] == pytest.approx(0.5)
    assert one["top 1 %"]["measured"] == 1
    assert one["all"]["share_above_half"] == pytest.approx(0.05)


def test_all_pairs_that_were_not_trained_on_count_at_their_natural_frequency(split: al.Split) -> None:
    estimator = al.FactorEstimator(dim=8, max_epochs=2, init="spectral")
    aur = al.AUR(al.MF(dim=4), estimator=estimator, residuals="in-sample", unobserved="model").fit(split)
    sigma2, mass, residual = reliability.pairs(aur, split, 0)
    assert (np.diff(sigma2) > 0).all()
    n_pairs = split.train.n_users * split.train.n_items
    assert mass.sum() == pytest.approx(n_pairs, rel=1e-6), "test pairs stand for all observed pairs"
    with torch.no_grad():
        r, sigma = (part.double() for part in aur.parts(aur.histories.batch(torch.arange(split.train.n_users))))
    label = torch.zeros_like(r)
    label[split.test.user.astype(np.int64), split.test.item.astype(np.int64)] = 1
    weight = torch.where(label == 1, 1 + len(split.everything) / len(split.test), 1.0)
    weight[split.everything.user.astype(np.int64), split.everything.item.astype(np.int64)] = 0
    assert (mass * residual).sum() == pytest.approx(float((weight * (r - label) ** 2).sum()), rel=1e-5)
    assert (mass * sigma2).sum() == pytest.approx(float((weight * sigma**2).sum()), rel=1e-5)
