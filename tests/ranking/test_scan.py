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


def check(x: Tensor, y: Tensor, k: int, users: Users | None, candidates: list[Tensor | None]) -> None:
    """Compare values and items with all products, to the last bit. They must not depend on who else is asked for."""
    row = torch.arange(len(x)).repeat_interleave(len(y))
    products = row_products(x, row, y, torch.arange(len(y)).repeat(len(x))).view(len(x), len(y))
    torch.testing.assert_close(
        products, x @ y.T, rtol=1e-4, atol=1e-4 * float(x.norm(dim=1).max() * y.norm(dim=1).max())
    )
    everyone, made = histories(len(x), len(y)), Scan(y)
    wanted = best(lambda u, items: products.clone(), everyone, k, len(y), seen=users, candidates=candidates)
    alone = None if users is None else users.part(0, 1)
    for found, n in (
        (made.top(x, k, users, candidates), len(x)),
        (made.top(x[:1], k, alone, candidates), 1),
    ):
        for (values, items), (right, right_items) in zip(found, wanted, strict=True):
            width = right_items.shape[1]  # the plain way gives no columns beyond the candidates
            assert torch.equal(items[:, :width], right_items[:n])
            assert torch.equal(values[:, :width], right[:n])
            assert (items[:, width:] == -1).all()


@pytest.mark.parametrize("n_items", [3, 64, 130, 2000])
@pytest.mark.parametrize("k", [1, 20, 1999])
@pytest.mark.parametrize("sees", [True, False])
def test_lists_and_products_are_those_of_computing_everything(n_items: int, k: int, sees: bool) -> None:
    x, y = factors(30, n_items)
    users = histories(30, n_items) if sees else None
    tail, nothing = torch.arange(n_items) % 3 == 0, torch.zeros(n_items, dtype=torch.bool)
    check(x, y, min(k, n_items), users, [None, tail, nothing])


def test_equal_products_are_listed_by_item() -> None:
    x, y = factors(10, 300)
    y = y[torch.arange(3000) % 300]  # each item ten times
    check(x, y, 25, histories(10, 3000), [None, torch.arange(3000) % 2 == 0])


def adversary(kind: str, n_users: int, n_items: int, dim: int, seed: int) -> tuple[Tensor, Tensor]:
    """Factors that are meant to mislead bounds, or to make ties."""
    draw = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(n, dim, generator=draw) for n in (n_users, n_items))
    some = torch.rand(n_items, generator=draw) < 0.3
    if kind == "equal":
        y = y[:1].expand(n_items, dim).clone()
    elif kind == "huge dimension":
        y[:, 0] *= 1e6
    elif kind == "duplicates":
        y = y[torch.randint(max(n_items // 20, 1), (n_items,), generator=draw)]
    elif kind == "zeros of both signs":
        x, y = x.sign(), torch.where(some[:, None], 0.0, -0.0).expand(n_items, dim).clone()
        y[: n_items // 50] = 1
    elif kind == "last bit":
        x, y = torch.zeros_like(x), torch.ones_like(y)
        x[:, 0] = 1
        y[some, 0] = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))
    elif kind == "many sizes":
        y *= 10.0 ** torch.randint(-6, 7, (n_items, 1), generator=draw)
        x *= 10.0 ** torch.randint(-6, 7, (n_users, 1), generator=draw)
    elif kind == "few values":
        x, y = (torch.randint(-1, 2, part.shape, generator=draw).float() for part in (x, y))
    return x, y


KINDS = (
    "random",
    "equal",
    "huge dimension",
    "duplicates",
    "zeros of both signs",
    "last bit",
    "many sizes",
    "few values",
)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10_000), n_items=st.integers(1, 3000), dim=st.integers(1, 200), k=st.integers(1, 60))
@settings(max_examples=15, deadline=None)
def test_no_factors_mislead_it(kind: str, seed: int, n_items: int, dim: int, k: int) -> None:
    x, y = adversary(kind, 4, n_items, dim, seed)
    some = torch.rand(n_items, generator=torch.Generator().manual_seed(seed)) < 0.5
    check(x, y, min(k, n_items), histories(4, n_items), [None, some])


@pytest.mark.parametrize("kind", ["random", "duplicates", "last bit"])
def test_nor_in_a_large_catalogue(kind: str) -> None:
    x, y = adversary(kind, 3, 20_000, 60, seed=1)
    check(x, y, 50, histories(3, 20_000), [None, torch.arange(20_000) % 3 > 0])


def test_a_mask_can_change_between_calls() -> None:
    x, y = factors(5, 2000)
    made, mask = Scan(y), torch.arange(2000) < 1000
    assert int(made.top(x, 10, None, [mask])[0][1].max()) < 1000
    mask.logical_not_()
    assert int(made.top(x, 10, None, [mask])[0][1].min()) >= 1000
    assert int(made.top(x, 2000, None)[0][1].min()) == 0  # the masks of earlier calls are gone


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_bounds_that_tell_nothing_cost_time_and_no_accuracy(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too many items remain everything is scored, and with the same result."""
    monkeypatch.setattr(scan, "_MANY", share)
    monkeypatch.setattr(scan, "_ALONE", 0.0)
    x, y = factors(30, 1000)
    check(x, y, 20, histories(30, 1000), [None, torch.arange(1000) % 3 == 0])


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
    assert (off.abs() <= error.repeat_interleave(made.block, 1)[:, made.place]).all()


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
