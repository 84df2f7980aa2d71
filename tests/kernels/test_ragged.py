"""Sums and products over ragged histories: against products with the dense matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from aleator.batches import Histories
from aleator.device import BUDGETS
from aleator.kernels.ragged import add_by_item, history_products, history_sum, pair_products, row_dots

from .weights import CPU, weights


@pytest.mark.parametrize("bags", [1, 3, 1 << 11])
def test_sums_over_histories_and_over_items_are_products_with_the_matrix(
    bags: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGETS, "cpu", replace(BUDGETS["cpu"], added_rows=bags))
    weight = weights(9, 14)
    users = Histories(sp.csr_matrix(weight), CPU).batch(torch.arange(9))
    dense = torch.from_numpy(weight).double()
    table, per_user = (torch.randn(n, 3, dtype=torch.float64) for n in (14, 9))
    torch.testing.assert_close(history_sum(table, users, users.weight), dense @ table)
    into = torch.ones(14, 3, dtype=torch.float64)
    add_by_item(into, per_user, users, users.weight)
    torch.testing.assert_close(into, 1 + dense.T @ per_user)
    torch.testing.assert_close(pair_products(per_user, table, users), (per_user @ table.T)[users.row, users.item])
    torch.testing.assert_close(row_dots(table, table), table.square().sum(1))


def test_nobody_has_sums_and_products_too() -> None:
    users = Histories(sp.csr_matrix((3, 5), dtype=np.float32), CPU).batch(torch.arange(3))
    assert torch.equal(history_sum(torch.ones(5, 2), users, users.weight), torch.zeros(3, 2))
    assert pair_products(torch.ones(3, 2), torch.ones(5, 2), users).shape == (0,)


@pytest.mark.usefixtures("two_threads")
def test_sums_and_products_have_the_same_bits_each_time_and_in_any_batch() -> None:
    draw = torch.Generator().manual_seed(0)
    weight = (np.random.default_rng(0).random((300, 200)) < 0.5).astype(np.float32)
    rows = Histories(sp.csr_matrix(weight), CPU)
    everyone, p, q = (
        rows.batch(torch.arange(300)),
        torch.randn(300, 96, generator=draw),
        torch.randn(200, 96, generator=draw),
    )
    first = pair_products(p, q, everyone)
    assert all(torch.equal(pair_products(p, q, everyone), first) for _ in range(5))
    some = rows.batch(torch.arange(100, 110))
    inside = (everyone.row >= 100) & (everyone.row < 110)
    assert torch.equal(pair_products(p[100:110], q, some), first[inside])


def test_autograd_knows_the_sums_over_histories_and_the_products_of_pairs() -> None:
    users = Histories(sp.csr_matrix(weights(6, 8)), CPU).batch(torch.tensor([4, 0, 2, 3, 3]))
    draw = torch.Generator().manual_seed(0)
    table, p = (torch.randn(n, 3, generator=draw, dtype=torch.float64, requires_grad=True) for n in (8, 5))
    weight = torch.rand(len(users.item), generator=draw, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda t: history_sum(t, users, weight), table)
    assert torch.autograd.gradcheck(lambda a, b: pair_products(a, b, users), (p, table))


def test_products_with_the_own_items_of_a_user_are_entries_of_the_product_of_the_tables() -> None:
    users = Histories(sp.csr_matrix(weights(9, 14)), CPU).batch(torch.arange(9))
    draw = torch.Generator().manual_seed(0)
    z, q = (torch.randn(14, 3, generator=draw, dtype=torch.float64) for _ in range(2))
    items = torch.randint(14, (9, 4), generator=draw)
    wanted = (z @ q.T)[users.item[:, None], items[users.row]]
    torch.testing.assert_close(history_products(z, q, users, items), wanted)
    assert history_products(z, q, users.part(0, 0), items[:0]).shape == (0, 4)
