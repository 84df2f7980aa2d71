"""The blend: the linear one against its formula, what spreads leave out, and that nothing overflows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from aleator.ranking.blend import Spreads, blend, spreads, uncertainty


def some(n_users: int = 7, n_items: int = 30, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """r, s and a mask of the pairs that count. One user has a single pair that counts, and one has none."""
    draw = torch.Generator().manual_seed(seed)
    r = torch.rand(n_users, n_items, generator=draw)
    s = 3 * torch.randn(n_users, n_items, generator=draw) - 4
    counted = torch.rand(n_users, n_items, generator=draw) < 0.8
    counted[2], counted[5] = False, False
    counted[2, 4] = True
    return r, s, counted


def within_user(part: Tensor, counted: Tensor) -> float:
    """The root of the mean within-user variance over the pairs that count, by numpy in float64."""
    rows = [row[mask] for row, mask in zip(part.double().numpy(), counted.numpy(), strict=True)]
    return math.sqrt(np.mean([np.var(row) for row in rows if len(row) > 1]))


def test_a_spread_is_the_root_mean_within_user_variance() -> None:
    r, s, counted = some()
    found = spreads([(r, s, counted)])
    assert found.r == pytest.approx(within_user(r, counted), rel=1e-6)
    assert found.s == pytest.approx(within_user(s, counted), rel=1e-6)


def test_batches_of_users_give_what_all_of_them_give() -> None:
    r, s, counted = some()
    whole, apart = (
        spreads((r[rows], s[rows], counted[rows]) for rows in which)
        for which in ([slice(None)], [slice(0, 3), slice(3, 7)])
    )
    assert (apart.r, apart.s) == pytest.approx((whole.r, whole.s), rel=1e-12)


def test_the_levels_of_users_do_not_count() -> None:
    r, s, counted = some()
    level = 100 * torch.rand(len(r), 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found, moved = spreads([(r, s, counted)]), spreads([(r.double() + level, s.double() - level, counted)])
    assert (moved.r, moved.s) == pytest.approx((found.r, found.s), rel=1e-9)


def test_what_does_not_count_does_not_count() -> None:
    r, s, counted = some()
    found = spreads([(r, s, counted)])
    wild = spreads([(torch.where(counted, r, 1e3), torch.where(counted, s, -1e3), counted)])
    assert (wild.r, wild.s) == pytest.approx((found.r, found.s), rel=1e-9)


@pytest.mark.parametrize("lam", [0.0, 0.3, 0.5, 1.0])
def test_the_linear_blend_is_the_formula(lam: float) -> None:
    r, s, counted = some()
    c_r, c_s = within_user(r, counted), within_user(s, counted)
    literal = lam * r.double() / c_r + (1 - lam) * s.double() / c_s
    found = blend(*spreads([(r, s, counted)]).scaled(r, s), lam)
    torch.testing.assert_close(found.double(), literal, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lam", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_huge_log_variances_do_not_overflow_and_rank_as_in_float64(lam: float) -> None:
    r, _, counted = some(n_items=200)
    s = 1e4 * torch.randn(r.shape, generator=torch.Generator().manual_seed(2)).clamp(-1, 1)
    literal = lam * r.double() / within_user(r, counted) + (1 - lam) * s.double() / within_user(s, counted)
    found = blend(*spreads([(r, s, counted)]).scaled(r, s), lam)
    assert torch.isfinite(found).all()
    assert float((found.double() - literal).abs().max()) < 1e-5
    ranked = literal.gather(1, found.argsort(1, descending=True))
    assert float(ranked.diff(dim=1).max()) < 2e-5  # descending, but for ties in float32


def test_the_sigma_blend_would_overflow_there() -> None:
    """Which is why it is not the default."""
    assert torch.isinf(uncertainty(torch.tensor([1e4]), 100.0)).all()


@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_the_sigma_blend_is_the_papers(lam: float) -> None:
    r, s, _ = some()
    k = 100.0
    literal = lam * r.double() + (1 - lam) * torch.sqrt(torch.exp(s.double()) / k)
    torch.testing.assert_close(blend(r, uncertainty(s, k), lam).double(), literal, rtol=1e-5, atol=1e-6)


def test_at_lam_1_an_infinite_uncertainty_does_not_spoil_the_expectation() -> None:
    assert blend(torch.tensor([0.3]), torch.tensor([torch.inf]), 1.0).tolist() == pytest.approx([0.3])


class TestFlat:
    """A part that does not rank."""

    @pytest.mark.parametrize("level", [0.0, 0.1, -12.3456])
    def test_it_is_left_out_and_a_note_says_so(self, level: float) -> None:
        r, s, counted = some()
        flat = torch.full_like(s, level)
        for found, name in (
            (spreads([(r, flat, counted)]), "uncertainty"),
            (spreads([(flat, s, counted)]), "expectation"),
        ):
            assert (found.s if name == "uncertainty" else found.r) == 0
            assert found.notes() == [f"the {name} does not rank the items of any user: it is not blended"]
        one, other = spreads([(r, flat, counted)]).scaled(r, flat)
        assert torch.equal(other, torch.zeros_like(other))
        assert torch.equal(blend(one, other, 0.4).argsort(1), one.argsort(1))

    def test_different_levels_of_users_are_flat_too(self) -> None:
        r, s, counted = some()
        levels = torch.linspace(-7, 9, len(s))[:, None].expand_as(s).contiguous()
        assert spreads([(r, levels, counted)]).s == 0

    def test_a_small_spread_is_no_zero(self) -> None:
        r, s, counted = some()
        assert spreads([(1e-9 * r, s, counted)]).r == pytest.approx(1e-9 * within_user(r, counted), rel=1e-5)

    def test_a_log_variance_that_hardly_differs_is_noise(self) -> None:
        r, s, counted = some()
        found = spreads([(1e-5 * r, 1e-5 * s, counted)])
        assert found.r > 0
        assert found.s == 0

    def test_two_parts_that_rank_have_no_note(self) -> None:
        assert spreads([some()]).notes() == []

    def test_nothing_to_measure_leaves_both_out(self) -> None:
        found = spreads([])
        assert found == Spreads(0.0, 0.0)
        assert found.shares == (0.0, 0.0)
