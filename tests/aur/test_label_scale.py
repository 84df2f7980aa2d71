"""The uncertainty on the label's scale: a monotone map within bounds, which tells the squared residual."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

import aleator as al
from aleator.aur.label_scale import LabelScale, fit_label_scale, squared_residuals
from aleator.batches import Histories, Users
from aleator.models.calibration import Map

CPU = torch.device("cpu")
N_USERS, N_ITEMS = 500, 400


class Drawn:
    """Labels that are drawn with known probabilities. The expectation is off, and s is on a scale of its own."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        p = np.exp(rng.uniform(np.log(0.005), np.log(0.4), (N_USERS, N_ITEMS)))
        self.r = 0.8 * p
        self.y = rng.random(p.shape) < p
        held = self.y & (rng.random(p.shape) < 0.2)
        self.fitted, self.held = (Histories(sp.csr_matrix(m.astype(np.float32)), CPU) for m in (self.y & ~held, held))
        self.s = 7 * np.log(p) + 30 + rng.normal(0, 1, p.shape)

    def score(self, users: Users) -> tuple[Tensor, Tensor]:
        rows = users.index.numpy()
        return torch.from_numpy(self.r[rows]).float(), torch.from_numpy(self.s[rows]).float()

    def scale(self) -> LabelScale:
        return fit_label_scale(self.score, self.fitted, self.held, seed=0)


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    return Drawn()


def test_the_variance_is_the_mean_squared_residual_in_bins_of_all_pairs(drawn: Drawn) -> None:
    """Of all pairs together at their natural frequency, within a factor of 2: ten bins of equal counts, and the top."""
    variance = drawn.scale()(torch.from_numpy(drawn.s)).square().numpy().ravel()
    squared = ((drawn.y - drawn.r) ** 2).ravel()
    order = np.argsort(variance, kind="stable")
    bins = [*np.array_split(order, 10), order[-len(order) // 100 :]]
    ratios = [variance[rows].mean() / squared[rows].mean() for rows in bins]
    assert max(ratios) < 2
    assert min(ratios) > 0.5
    assert variance[bins[-2]].mean() > 10 * variance[bins[0]].mean()  # a constant would not do


def test_the_map_rises_and_stays_within_bounds(drawn: Drawn) -> None:
    wide = torch.cat([torch.tensor([-1e6, -1e3]), torch.linspace(-60, 60, 2001), torch.tensor([1e3, 1e6, torch.inf])])
    for dtype in (torch.float32, torch.float64):
        sigma = drawn.scale()(wide.to(dtype))
        assert torch.isfinite(sigma).all()
        assert (sigma.diff() >= 0).all()
        assert float(sigma[0]) >= 0
        assert float(sigma[-1]) <= 0.5
        assert float(sigma[-1]) > float(sigma[0])


def test_residuals_above_what_a_label_can_have_are_cut_off() -> None:
    scale = LabelScale(Map(torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.1, 0.2, 0.9])))
    assert scale(torch.tensor([0.0, 1.0, 2.0, 1e6])).tolist() == pytest.approx([0.1**0.5, 0.2**0.5, 0.5, 0.5])


def test_a_log_variance_that_says_nothing_gives_the_mean_everywhere() -> None:
    drawn = Drawn()
    drawn.s = np.zeros_like(drawn.s)
    sigma = drawn.scale()(torch.tensor([-torch.inf, -1e6, 0.0, 5.0, 1e6, torch.inf]))
    assert len(set(sigma.tolist())) == 1
    assert float(sigma[0]) ** 2 == pytest.approx(float(((drawn.y - drawn.r) ** 2).mean()), rel=0.05)


def test_the_sample_has_all_pairs_at_their_natural_frequency(drawn: Drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Observed pairs weigh as many as there are, also those that were fitted. So do the others, on half of the items."""
    monkeypatch.setattr("aleator.aur.label_scale._ITEMS", N_ITEMS // 2)
    parts = list(squared_residuals(drawn.score, drawn.fitted, drawn.held, seed=0))
    others, observed = parts[::2], parts[1::2]
    assert sum(float(w.sum()) for _, w, _ in observed) == pytest.approx(drawn.y.sum(), rel=1e-5)
    assert sum(float(w.sum()) for _, w, _ in others) == pytest.approx((~drawn.y).sum(), rel=0.01)
    assert min(float(y.min()) for _, _, y in observed) == pytest.approx(float((1 - drawn.r.max()) ** 2), abs=0.05)
    assert max(float(y.max()) for _, _, y in others) <= drawn.r.max() ** 2 + 1e-6


def test_aur_reports_it_and_keeps_it(fitted_aur: al.AUR, tmp_path: Path) -> None:
    users = list(range(80))
    sigma = fitted_aur.uncertainty(users)
    assert fitted_aur.label_scale is not None
    assert float(sigma.max()) <= 0.5
    with torch.no_grad():
        s = fitted_aur.estimator.log_variance(fitted_aur.users(users))
    assert torch.equal(sigma, fitted_aur.label_scale(s))
    fitted_aur.save(tmp_path / "m")
    loaded = al.AUR.load(tmp_path / "m")
    assert loaded.label_scale is not None
    assert torch.equal(loaded.uncertainty(users), sigma)
    assert torch.equal(loaded.label_scale(torch.tensor([-1e6, 1e6])), fitted_aur.label_scale(torch.tensor([-1e6, 1e6])))


def test_items_are_still_ranked_by_the_log_variance(fitted_aur: al.AUR) -> None:
    """The map has flat parts, and a ranking by it would have ties there."""
    with torch.no_grad():
        s = fitted_aur.estimator.log_variance(fitted_aur.users([3]))[0]
    assert torch.equal(fitted_aur.at(0.0).score([3])[0].argsort(), s.argsort())


def test_without_a_scale_of_the_label_it_is_the_papers(small_aur: Callable[..., al.AUR], split: al.Split) -> None:
    paper = small_aur(recipe="paper", model__max_epochs=2).fit(split)
    assert paper.label_scale is None
    with torch.no_grad():
        s = paper.estimator.log_variance(paper.users([0, 1]))
    torch.testing.assert_close(paper.uncertainty([0, 1]), torch.sqrt(torch.exp(s) / paper.objective.k))
