"""The scan in 8 bits gives the very lists of scoring everything, whatever the factors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aleator.batches import Histories, Users
from aleator.kernels.ragged import row_products
from aleator.ranking import scan
from aleator.ranking.blend import blend, uncertainty
from aleator.ranking.scan import Scan, Side
from aleator.ranking.top import best

CPU = torch.device("cpu")
pytestmark = pytest.mark.skipif(not scan.available(), reason="this PyTorch multiplies no 8-bit integers here")


def factors(n_users: int, n_items: int, spread: float, seed: int = 0) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(seed)
    sizes = ((n_users, 8), (n_users, 32), (n_items, 8), (n_items, 32))
    x, p, y, q = (torch.randn(size, generator=draw, dtype=torch.float32) for size in sizes)
    return 0.2 * x, 0.4 * p * spread, 0.2 * y, 0.4 * q * torch.rand(n_items, 1, generator=draw).exp()


def histories(n_users: int, n_items: int) -> Users:
    rows = [[(7 * u + 3 * j) % n_items for j in range(u % 5)] for u in range(n_users)]
    return Histories.of_lists([sorted(set(r)) for r in rows], n_items, CPU).batch(torch.arange(n_users))


def plain(x: torch.Tensor, p: torch.Tensor, y: torch.Tensor, q: torch.Tensor, lam: float) -> torch.Tensor:
    return blend(x @ y.T, uncertainty(p @ q.T, 100.0), lam)


@pytest.mark.parametrize("lam", [0.0, 0.2, 0.9, 1.0])
@pytest.mark.parametrize("n_items", [3, 64, 130, 2000])
@pytest.mark.parametrize("spread", [0.01, 1.0])
def test_lists_and_scores_are_those_of_scoring_everything(lam: float, n_items: int, spread: float) -> None:
    x, p, y, q = factors(30, n_items, spread)
    users, k = histories(30, n_items), min(20, n_items)
    tail = torch.arange(n_items) % 3 == 0
    found = Scan(y, q, 100.0).top((x, p), lam, k, users, [None, tail])
    wanted = best(lambda u, items: plain(x, p, y, q, lam), users, k, n_items, seen=users, candidates=[None, tail])
    for (values, items), (right, right_items) in zip(found, wanted, strict=True):
        n = right_items.shape[1]  # the plain way gives no columns beyond the candidates
        torch.testing.assert_close(values[:, :n], right, rtol=1e-5, atol=1e-6)
        assert (items[:, n:] == -1).all()
        same = items[:, :n] == right_items
        torch.testing.assert_close(values[:, :n][~same], right[~same], rtol=1e-6, atol=1e-7)  # ties in float32 alone
        assert same.float().mean() > 0.99


@given(seed=st.integers(0, 10_000), scale=st.floats(1e-3, 1e3), dim=st.integers(1, 70))
@settings(max_examples=50, deadline=None)
def test_no_product_is_further_off_than_its_bound(seed: int, scale: float, dim: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    p, q = (torch.randn(5, dim, generator=draw), scale * torch.randn(70, dim, generator=draw) ** 3)
    found = Side(q, torch.arange(70)).scan(p)
    exact = p.double() @ q.double().T
    for sign in (1, -1):
        assert (sign * found.bound(sign).flatten(1)[:, :70] >= sign * exact).all()


def test_most_items_are_never_scored_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    scored: list[int] = []

    def counted(p: torch.Tensor, row: torch.Tensor, q: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        scored.append(len(row))
        return row_products(p, row, q, item)

    monkeypatch.setattr(scan, "row_products", counted)
    x, p, y, q = factors(50, 5000, 1.0)
    Scan(y, q, 100.0).top((x, p), 0.3, 10, None)
    assert sum(scored) < 0.05 * 50 * 5000 * 2


def test_factors_of_nothing_but_zeros_have_scores() -> None:
    x, p, y, q = (torch.zeros(n, 4) for n in (3, 3, 90, 90))
    ((values, items),) = Scan(y, q, 100.0).top((x, p), 0.5, 5, None)
    assert torch.equal(items, torch.arange(5).expand(3, 5))
    torch.testing.assert_close(values, torch.full((3, 5), 0.05))
