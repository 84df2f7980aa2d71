"""Histories: ragged batches of a CSR matrix, row by row as the matrix has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from aleator.batches import Histories, Users, pieces

CPU = torch.device("cpu")


def rows_of(users: Users) -> list[list[int]]:
    return [users.item[users.row == place].tolist() for place in range(len(users))]


@given(st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=6), st.data())
def test_a_batch_has_the_rows_asked_for_in_that_order(lists: list[set[int]], data: st.DataObject) -> None:
    made = Histories.of_lists([sorted(row) for row in lists], 10, CPU)
    index = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8))
    users = made.batch(torch.tensor(index, dtype=torch.int64))
    assert users.index.tolist() == index
    assert rows_of(users) == [sorted(lists[i]) for i in index]
    assert users.size.tolist() == [len(lists[i]) for i in index]
    assert users.row.tolist() == sorted(users.row.tolist())  # those of a user stand side by side
    assert made.size.tolist() == [len(row) for row in lists]


def test_weights_travel_with_their_pairs() -> None:
    dense = np.array([[0, 2.5, 0.5], [0, 0, 0], [4, 0, 0]], np.float32)
    users = Histories(sp.csr_matrix(dense), CPU).batch(torch.tensor([2, 0, 1]))
    assert users.weight.tolist() == [4, 2.5, 0.5]
    assert users.size.tolist() == [1, 2, 0]


def test_histories_without_an_identity_are_marked() -> None:
    users = Histories.of_lists([[1], [0, 2]], 3, CPU).batch(torch.arange(2), known=False)
    assert users.index.tolist() == [-1, -1]
    assert rows_of(users) == [[1], [0, 2]]


def test_the_matrix_is_not_changed_and_not_shared() -> None:
    matrix = sp.csr_matrix(np.eye(3, dtype=np.float32))
    made = Histories(matrix, CPU)
    made.item.zero_()
    made.weight.zero_()
    assert (matrix.toarray() == np.eye(3)).all()


def test_no_lists_make_no_rows() -> None:
    made = Histories.of_lists([], 4, CPU)
    assert (made.n_users, made.n_items) == (0, 4)
    assert len(made.batch(torch.arange(0))) == 0


@given(st.integers(0, 20), st.integers(1, 25))
def test_pieces_are_a_partition(n: int, size: int) -> None:
    cut = pieces(torch.arange(n), size)
    assert torch.cat(cut).tolist() == list(range(n))
    assert all(len(piece) <= size for piece in cut)


def test_a_batch_is_sized_for_the_steps_of_an_epoch() -> None:
    sizes = {n: Histories.of_lists([[0]] * n + [[]] * 7, 2, CPU).batch_size(16) for n in (5, 320, 200_000)}
    assert sizes == {5: 16, 320: 20, 200_000: 8192}


def test_what_follows_from_a_batch_is_computed_once_and_again_when_its_tensors_change() -> None:
    users = Histories.of_lists([[0, 2], [1]], 3, torch.device("cpu")).batch(torch.arange(2))
    table, made = torch.ones(3), []

    def total() -> torch.Tensor:
        made.append(1)
        return torch.zeros(2).index_add_(0, users.row, table[users.item])

    with torch.no_grad():
        assert users.once("total", total, table) is users.once("total", total, table)
        assert len(made) == 1
        table += 1
        assert users.once("total", total, table).tolist() == [4, 2]
        assert users.once("total", total, table.clone()).tolist() == [4, 2]  # of another tensor, it is made anew
        assert len(made) == 3
        again = replace(users, item=users.item.flip(0))
        again.once("total", total, table)
        assert len(made) == 4  # another batch
    users.once("total", total, table)
    assert len(made) == 5  # gradients may be asked for


@given(st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=5), st.booleans())
def test_a_batch_of_one_user_is_a_part_of_a_larger_one(lists: list[set[int]], known: bool) -> None:
    histories = Histories.of_lists([sorted(items) for items in lists], 10, torch.device("cpu"))
    everyone = histories.batch(torch.arange(len(lists)), known=known)
    for user in range(len(lists)):
        alone, part = histories.batch(torch.tensor([user]), known=known), everyone.part(user, user + 1)
        for name in ("index", "row", "item", "weight", "size"):
            one, other = getattr(alone, name), getattr(part, name)
            assert torch.equal(one, other)
            assert one.dtype == other.dtype
        assert alone.some_empty == (not lists[user])
        assert alone.some_new == (not known)


@given(st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=6), st.data())
def test_the_items_of_some_users_are_those_of_their_rows(lists: list[set[int]], data: st.DataObject) -> None:
    users = Histories.of_lists([sorted(row) for row in lists], 10, CPU).batch(torch.arange(len(lists)))
    rows = data.draw(st.permutations(range(len(lists))).map(lambda order: order[: len(order) // 2]))
    row, item = users.of_rows(torch.tensor(rows, dtype=torch.int64))
    assert [item[row == place].tolist() for place in range(len(rows))] == [sorted(lists[i]) for i in rows]
