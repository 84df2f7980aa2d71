"""An item-item matrix gives the same scores however it is stored."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.models import similarities
from aleator.models.similarities import Dense, Sparse, dense_of, sparse_of, strongest

CPU = torch.device("cpu")


@pytest.fixture
def table() -> Tensor:
    """9 items; item 4 is like none."""
    draw = torch.Generator().manual_seed(0)
    made = torch.randn(9, 9, generator=draw) * (torch.rand(9, 9, generator=draw) < 0.5)
    made[4], made[:, 4] = 0, 0
    return made.fill_diagonal_(0)


@pytest.fixture
def users() -> Users:
    """Four users, one without a history, and weights."""
    rows = sp.csr_matrix(np.array([[1, 0, 2, 0, 1, 0, 0, 0, 0], [0] * 9, [0] * 8 + [3], [0.5] * 9], np.float32))
    return Histories(rows, CPU).batch(torch.tensor([3, 1, 0, 2]))


def literal(table: Tensor, users: Users) -> Tensor:
    scores = torch.zeros(len(users), len(table), dtype=torch.float64)
    for row, item, weight in zip(users.row.tolist(), users.item.tolist(), users.weight.tolist(), strict=True):
        for i in range(len(table)):
            scores[row, i] += weight * float(table[item, i])
    return scores


def stores(table: Tensor) -> list[Dense | Sparse]:
    return [Dense(table.clone()), Sparse.of(sp.csr_matrix(table.numpy()), CPU)]


def test_a_score_is_the_weighted_sum_over_the_history(table: Tensor, users: Users) -> None:
    expected, items = literal(table, users), torch.tensor([8, 2, 2, 4])
    for store in stores(table):
        torch.testing.assert_close(store.block(users).double(), expected, rtol=0, atol=1e-6)
        torch.testing.assert_close(store.block(users, items).double(), expected[:, items], rtol=0, atol=1e-6)
        pairs = expected[users.row, users.item]
        torch.testing.assert_close(store.pairs(users).double(), pairs, rtol=0, atol=1e-6)
        nobody = users.part(0, 0)
        assert store.block(nobody).shape == (0, 9)
        assert store.pairs(nobody).shape == (0,)


@pytest.mark.parametrize("cells", [1, 40, 1 << 20])
def test_adding_entry_by_entry_in_parts_gives_the_same(
    table: Tensor, users: Users, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a GPU does."""
    monkeypatch.setattr(similarities, "_CELLS", cells)
    sparse = Sparse.of(sp.csr_matrix(table.numpy()), CPU)
    parts = sparse._parts(users)
    assert sum(map(len, parts)) == len(users)
    assert (len(parts) == 1) == (cells > 1000)
    found = torch.cat([sparse.added(part) for part in parts])
    torch.testing.assert_close(found.double(), literal(table, users), rtol=0, atol=1e-6)


def test_stores_are_made_of_blocks_of_rows_of_the_transpose(table: Tensor) -> None:
    edges = list(pairwise([0, 4, 5, 9]))
    dense_blocks = [table.T[a:b].clone() for a, b in edges]
    sparse_blocks = [sp.csr_matrix(block.numpy()) for block in dense_blocks]
    for blocks in (dense_blocks, sparse_blocks):
        assert torch.equal(dense_of(blocks, 9, CPU).table, table)
        assert torch.equal(sparse_of(blocks, CPU).dense().table, table)


@pytest.mark.parametrize("cells", [10, 1 << 20])
def test_the_strongest_are_kept_whatever_their_sign_and_equal_ones_together(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similarities, "_CELLS", cells)
    rows = torch.tensor([[1.0, -5, 2, 0], [3, 3, 3, 1], [0, 0, 0, 7], [0.1, 0.2, 0.2 * (1 + 1e-7), 0.3]])
    expected = torch.tensor([[0, -5.0, 2, 0], [3, 3, 3, 0], [0, 0, 0, 7], [0, 0.2, 0.2, 0.3]])
    torch.testing.assert_close(strongest(rows.clone(), 2), expected)
    sparse = strongest(sp.csr_matrix(rows.numpy()), 2)
    assert isinstance(sparse, sp.csr_matrix)
    torch.testing.assert_close(torch.from_numpy(sparse.toarray()), expected)
    assert sparse.nnz == 9
    assert torch.equal(strongest(rows.clone(), 99), rows)


def test_few_entries_are_saved_alone_and_give_the_same_table(table: Tensor) -> None:
    few = table * (torch.arange(81).view(9, 9) % 10 == 0)
    saved = Dense(few).tensors()
    assert len(saved["value"]) == int(few.count_nonzero()) < 81 / 8
    assert torch.equal(Sparse(**saved).dense().table, few)
    full = table + 1
    assert torch.equal(Dense(full).tensors()["table"], full)


def test_entries_are_those_of_the_table(table: Tensor) -> None:
    rows, columns = torch.tensor([8, 0, 4, 0]), torch.tensor([[1, 1, 8], [0, 4, 3], [2, 2, 2], [7, 6, 5]])
    everywhere = torch.arange(9), torch.arange(9).expand(9, 9)
    for store in stores(table):
        assert torch.equal(store.entries(rows, columns), table[rows[:, None], columns])
        assert torch.equal(store.entries(*everywhere), table)
        assert store.entries(rows[:0], columns[:0]).shape == (0, 3)
    empty = Sparse.of(sp.csr_matrix((3, 3), dtype=np.float32), CPU)
    assert torch.equal(empty.entries(torch.arange(3), torch.zeros(3, 2, dtype=torch.long)), torch.zeros(3, 2))
