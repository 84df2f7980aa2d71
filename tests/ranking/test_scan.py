"""The scan in 8 bits gives the very lists of computing all products, whatever the factors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.kernels.ragged import row_products
from aleator.ranking import scan
from aleator.ranking.scan import Scan
from aleator.ranking.top import best

CPU = torch.device("cpu")
pytestmark = pytest.mark.skipif(not scan.available(), reason="this PyTorch multiplies no 8-bit integers here")


def factors(n_users: int, n_items: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """x and y, with norms of y that differ."""
    draw = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(n, 40, generator=draw) for n in (n_users, n_items))
    return 0.2 * x, 0.4 * y * torch.rand(n_items, 1, generator=draw).mul(3).exp()


def histories(n_users: int, n_items: int) -> Users:
    rows = [[(7 * u + 3 * j) % n_items for j in range(u % 5)] for u in range(n_users)]
    return Histories.of_lists([sorted(set(r)) for r in rows], n_items, CPU).batch(torch.arange(n_users))


def check(x: Tensor, y: Tensor, k: int, users: Users | None, candidates: list[Tensor | None]) -> float:
    """Compare with all products. Returns the share of places that hold the very same item."""
    found = Scan(y).top(x, k, users, candidates)
    everyone = histories(len(x), len(y))
    wanted = best(lambda u, items: x @ y.T, everyone, k, len(y), seen=users, candidates=candidates)
    shares = []
    for (values, items), (right, right_items) in zip(found, wanted, strict=True):
        n = right_items.shape[1]  # the plain way gives no columns beyond the candidates
        torch.testing.assert_close(values[:, :n], right, rtol=1e-5, atol=1e-6)
        assert (items[:, n:] == -1).all()
        same = items[:, :n] == right_items
        torch.testing.assert_close(values[:, :n][~same], right[~same], rtol=1e-5, atol=1e-6)  # ties in float32 alone
        shares.append(float(same.float().mean()))
    return min(shares)


@pytest.mark.parametrize("n_items", [3, 64, 130, 2000])
@pytest.mark.parametrize("k", [1, 20, 1999])
@pytest.mark.parametrize("sees", [True, False])
def test_lists_and_products_are_those_of_computing_everything(n_items: int, k: int, sees: bool) -> None:
    x, y = factors(30, n_items)
    users = histories(30, n_items) if sees else None
    tail, nothing = torch.arange(n_items) % 3 == 0, torch.zeros(n_items, dtype=torch.bool)
    assert check(x, y, min(k, n_items), users, [None, tail, nothing]) > 0.99


def test_equal_products_are_listed_by_item() -> None:
    x, y = factors(10, 300)
    y = y[torch.arange(3000) % 300]  # each item ten times
    assert check(x, y, 25, histories(10, 3000), [None, torch.arange(3000) % 2 == 0]) == 1


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_bounds_that_tell_nothing_cost_time_and_no_accuracy(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too many items remain everything is scored, and with the same result."""
    monkeypatch.setattr(scan, "_MANY", share)
    x, y = factors(30, 1000)
    assert check(x, y, 20, histories(30, 1000), [None, torch.arange(1000) % 3 == 0]) > 0.99


def test_items_without_factors_do_not_hide_those_of_negative_products() -> None:
    """Their products are 0 and above all others. Where they are no candidates they must not count."""
    x, y = torch.ones(2, 8), -torch.rand(4000, 8, generator=torch.Generator().manual_seed(0))
    y[1000:] = 0
    ((values, items),) = Scan(y).top(x, 30, None, [torch.arange(4000) < 1000])
    assert (items >= 0).all()
    torch.testing.assert_close(values, (x @ y[:1000].T).topk(30).values)


@given(seed=st.integers(0, 10_000), scale=st.floats(1e-3, 1e3), dim=st.integers(1, 70))
@settings(max_examples=50, deadline=None)
def test_no_product_is_further_off_than_its_bound(seed: int, scale: float, dim: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(5, dim, generator=draw), scale * torch.randn(70, dim, generator=draw) ** 3)
    made = Scan(y)
    product, unit, error = made.rounded(x)
    off = (product * unit[:, :, None]).flatten(1)[:, made.place] - x.double() @ y.double().T
    assert (off.abs() <= error.repeat_interleave(32, 1)[:, made.place]).all()


def test_most_items_are_never_scored_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    scored: list[int] = []

    def counted(p: Tensor, row: Tensor, q: Tensor, item: Tensor) -> Tensor:
        scored.append(len(row))
        return row_products(p, row, q, item)

    monkeypatch.setattr(scan, "row_products", counted)
    x, y = factors(50, 5000)
    Scan(y).top(x, 10, None)
    assert 500 <= sum(scored) < 0.02 * 50 * 5000


def test_factors_of_nothing_but_zeros_have_scores() -> None:
    ((values, items),) = Scan(torch.zeros(90, 4)).top(torch.zeros(3, 4), 5, None)
    assert torch.equal(items, torch.arange(5).expand(3, 5))
    torch.testing.assert_close(values, torch.zeros(3, 5))
