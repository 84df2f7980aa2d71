"""Confidence: the regression against a known truth, the size of the event, and the column of a fitted AUR."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import aleator as al
from aleator.aur.confidence import LISTED, NEXT, Confidence, fit_confidence, learn, lists, regression

PLAIN = Confidence(level=-3.0, by_rank=-0.5, by_score=1.0, knots=((0.0, 0.0), (1.0, 1.0)))


@pytest.fixture(scope="module")
def split() -> al.Split:
    data = al.simulate(n_users=400, n_items=150, per_user=80, seed=0).interactions
    return data.split(valid=0.1, test=0.2, seed=0)


@pytest.fixture(scope="module")
def fitted(split: al.Split) -> al.AUR:
    return al.AUR(al.MF(dim=16), device="cpu").fit(split)


def drawn(
    level: float, by_rank: float, by_score: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores, hits and sizes of 4,000 users whose hits follow the formula."""
    draw = torch.Generator().manual_seed(0)
    scores = torch.rand(4000, LISTED, generator=draw, dtype=torch.float64).sort(1, descending=True).values
    n_next = torch.randint(1, 30, (4000,), generator=draw).double()
    rank = torch.arange(1, LISTED + 1, dtype=torch.float64)
    rate = (level + by_rank * rank.log() + by_score * scores).exp()
    hits = torch.rand(scores.shape, generator=draw, dtype=torch.float64) < 1 - (-n_next[:, None] * rate).exp()
    return scores, hits, n_next, torch.ones_like(hits)


def test_the_regression_finds_the_truth_whatever_the_sizes() -> None:
    assert regression(*drawn(-5.0, -0.4, 1.5)) == pytest.approx((-5.0, -0.4, 1.5), abs=0.15)


def test_what_is_learned_from_small_events_holds_for_large_ones() -> None:
    """The truth is no rate of the formula, so the isotonic regression must correct it, and at another size too."""
    draw = torch.Generator().manual_seed(0)
    scores = torch.rand(4000, LISTED, generator=draw, dtype=torch.float64).sort(1, descending=True).values
    rate = 0.002 + 0.1 * (scores > 0.8)

    def hits(n_next: int) -> torch.Tensor:
        return torch.rand(scores.shape, generator=draw, dtype=torch.float64) < 1 - (-n_next * rate).exp()

    found = learn(scores, hits(2), torch.full((4000,), 2.0, dtype=torch.float64))
    assert found is not None
    for n_next in (1, 2, 20):
        chance, taken = found(scores, n_next), hits(n_next).double()
        for part in ((scores > 0.5) & (scores < 0.8), scores > 0.8):
            assert float(chance[part].mean()) == pytest.approx(float(taken[part].mean()), rel=0.1, abs=0.01)


def test_few_hits_are_no_certainty() -> None:
    scores = torch.linspace(5, 0, LISTED, dtype=torch.float64).expand(3, LISTED)
    hits = torch.zeros_like(scores, dtype=torch.bool)
    hits[:, 0] = True
    found = learn(scores, hits, torch.ones(3, dtype=torch.float64))
    assert found is not None
    assert 0 < float(found(scores, 1).max()) < 1


def test_a_slope_of_the_wrong_sign_is_left_out() -> None:
    _, by_rank, by_score = regression(*drawn(-5.0, -0.4, -1.5))
    assert by_score == 0
    assert by_rank <= 0


def test_confidence_is_the_formula_and_rises_with_the_size_of_the_event() -> None:
    scores = torch.tensor([[2.0, 1.0, -torch.inf]], dtype=torch.float64)
    rate = torch.tensor([-3 + 2.0, -3 - 0.5 * torch.tensor(2.0).log() + 1.0], dtype=torch.float64).exp()
    for n_next in (1, NEXT, 40):
        found = PLAIN(scores, n_next)[0]
        torch.testing.assert_close(found[:2], 1 - (-n_next * rate).exp(), rtol=1e-6, atol=1e-6)
        assert found[2].isnan()


def test_there_is_no_confidence_beyond_rank_50() -> None:
    found = PLAIN(torch.zeros(1, LISTED + 2))[0]
    assert bool(found[:LISTED].isfinite().all())
    assert bool(found[LISTED:].isnan().all())


def test_recommended_items_have_a_confidence_that_falls_with_the_rank(fitted: al.AUR) -> None:
    frame = fitted.recommend([0, 1, 2], k=20)
    assert frame["confidence"].is_between(0, 1).all()
    for _, own in frame.group_by("user_id"):
        assert own.sort("rank")["confidence"].is_sorted(descending=True)


def test_there_is_no_confidence_where_it_was_not_learned(fitted: al.AUR) -> None:
    other = 0.5 if fitted.lam_used != 0.5 else 0.7
    assert fitted.recommend([0], k=5, lam=other)["confidence"].is_nan().all()
    assert fitted.recommend([0], k=5, deny=[3])["confidence"].is_nan().all()


def test_it_is_saved(fitted: al.AUR, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    loaded = al.load_model(tmp_path / "model")
    assert loaded.recommend([0], k=5)["confidence"].to_list() == fitted.recommend([0], k=5)["confidence"].to_list()


def test_hits_on_test_are_as_many_as_the_confidence_says(fitted: al.AUR, split: al.Split) -> None:
    held = fitted.hold_out(split.everything, split.test)
    found = lists(fitted.score_block, held)
    assert found is not None
    assert fitted.chance is not None
    confidence = fitted.chance(found.scores, found.n_next[:, None])
    assert float(confidence.nanmean()) == pytest.approx(float(found.hits.double().mean()), rel=0.15)


def test_without_hits_there_is_no_confidence(fitted: al.AUR, split: al.Split) -> None:
    held = fitted.hold_out(split.everything, split.test)
    nothing = fit_confidence(lambda users: torch.full((len(users), split.test.n_items), -torch.inf), held)
    assert nothing is None
