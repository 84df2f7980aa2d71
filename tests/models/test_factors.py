"""FactorTable: the factors of a batch, those of newcomers by a linear map, and a map of the scores inside the factors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.models.calibration import Map
from aleator.models.factors import FactorTable

CPU = torch.device("cpu")
N_USERS, N_ITEMS, DIM = 40, 12, 3


@pytest.fixture
def histories() -> Histories:
    """User 5 has no history."""
    taken = np.random.default_rng(0).random((N_USERS, N_ITEMS)) < 0.4
    taken[5] = False
    return Histories(sp.csr_matrix(taken.astype(np.float32)), CPU)


@pytest.fixture
def table() -> FactorTable:
    draw = torch.Generator().manual_seed(0)
    users, items = (torch.randn(n, DIM, generator=draw, dtype=torch.float64) for n in (N_USERS, N_ITEMS))
    return FactorTable(users, items)


def literal_sum(table: FactorTable, users: Users, place: int) -> Tensor:
    items = users.item[users.row == place]
    total = table.items[items].sum(0) / max(len(items), 1) ** 0.5
    return torch.cat([total, torch.ones(1, dtype=torch.float64)])


def test_summed_is_the_sum_over_the_root_of_the_size_and_a_one(table: FactorTable, histories: Histories) -> None:
    users = histories.batch(torch.tensor([3, 5, 0]))
    expected = torch.stack([literal_sum(table, users, place) for place in range(3)])
    torch.testing.assert_close(table.summed(users), expected)


def test_the_map_of_newcomers_is_ridge_regression(table: FactorTable, histories: Histories) -> None:
    who = torch.tensor([0, 1, 2, 3, 4, 6, 7, 8])
    users = histories.batch(who)
    made = torch.stack([literal_sum(table, users, place) for place in range(len(who))])
    penalty = 1e-6 * (made.T @ made).diagonal().mean() + 1e-12
    design = torch.cat([made, penalty.sqrt() * torch.eye(DIM + 1, dtype=torch.float64)])
    labels = torch.cat([table.users[who], torch.zeros(DIM + 1, DIM, dtype=torch.float64)])
    expected = torch.linalg.lstsq(design, labels).solution
    torch.testing.assert_close(table.newcomer_map(who, histories), expected, rtol=1e-6, atol=1e-8)


def make_linear(table: FactorTable, histories: Histories) -> Tensor:
    """Make the factors of the users linear in their histories, by the map that is returned."""
    everyone = histories.batch(torch.arange(N_USERS))
    linear = torch.randn(DIM + 1, DIM, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    table.users = table.summed(everyone) @ linear
    return linear


def test_newcomers_get_the_factors_that_a_user_of_their_history_would_have(
    table: FactorTable, histories: Histories
) -> None:
    linear = make_linear(table, histories)
    new = Histories.of_lists([[1, 4], [0]], N_ITEMS, CPU).batch(torch.arange(2), known=False)
    torch.testing.assert_close(table.fold_in(new, histories), table.summed(new) @ linear, rtol=1e-3, atol=1e-4)


def test_users_without_a_history_do_not_move_the_map(table: FactorTable, histories: Histories) -> None:
    new = Histories.of_lists([[1, 4]], N_ITEMS, CPU).batch(torch.arange(1), known=False)
    before = table.fold_in(new, histories)
    other = FactorTable(table.users.clone(), table.items)
    other.users[5] = 1e6
    torch.testing.assert_close(other.fold_in(new, histories), before)


def test_rows_are_those_of_known_users_and_folded_in_for_newcomers(table: FactorTable, histories: Histories) -> None:
    known = histories.batch(torch.tensor([3, 7]))
    assert torch.equal(table.rows(known, lambda users: pytest.fail("nobody is new")), table.users[[3, 7]])
    mixed = Users(torch.tensor([3, -1]), known.row, known.item, known.weight, known.size)
    rows = table.rows(mixed, lambda users: torch.full((len(users), DIM), 9.0, dtype=torch.float64))
    assert torch.equal(rows, torch.stack([table.users[3], torch.full((DIM,), 9.0, dtype=torch.float64)]))


def test_a_line_that_is_absorbed_maps_the_scores(table: FactorTable) -> None:
    line = Map(torch.tensor([0.0, 1.0]), torch.tensor([0.1, 0.7]))
    expected = line(table.users @ table.items.T)
    table.absorb(line)
    assert table.dim == DIM + 1
    torch.testing.assert_close(table.users @ table.items.T, expected)


def test_an_absorbed_line_maps_the_scores_of_newcomers_too(table: FactorTable, histories: Histories) -> None:
    make_linear(table, histories)
    new = Histories.of_lists([[1, 4], [0]], N_ITEMS, CPU).batch(torch.arange(2), known=False)
    line = Map(torch.tensor([0.0, 1.0]), torch.tensor([0.1, 0.7]))
    raw = FactorTable(table.users, table.items).fold_in(new, histories) @ table.items.T
    table.absorb(line)
    torch.testing.assert_close(table.fold_in(new, histories) @ table.items.T, line(raw), rtol=1e-3, atol=1e-3)


def test_what_is_saved_makes_the_table_again(table: FactorTable) -> None:
    saved = table.tensors()
    again = FactorTable(saved["user_factors"], saved["item_factors"])
    assert torch.equal(again.users, table.users)
    assert torch.equal(again.items, table.items)


def test_a_line_that_is_absorbed_later_reaches_the_map_of_newcomers(table: FactorTable, histories: Histories) -> None:
    users = histories.batch(torch.arange(2))
    table.fold_in(users, histories)
    table.absorb(Map(torch.tensor([0.0, 1.0]), torch.tensor([0.1, 0.6])))
    assert table.fold_in(users, histories).shape == (2, table.dim)
