"""Fold-in: rows for users or items that were not trained on, by a linear map that is fitted to those that were."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.kernels.ragged import add_by_item

_AT_A_TIME = 8192  # users


def linear_map(made: Tensor, known: Tensor) -> Tensor:
    """[dim, d] the map of `made` [n, dim] onto `known` [n, d], by ridge regression."""
    made, known = made.double(), known.double()
    gram = made.T @ made
    gram.diagonal().add_(1e-6 * gram.diagonal().mean() + 1e-12)
    solved: Tensor = torch.linalg.solve(gram, made.T @ known)
    return solved


def padded(table: Tensor, n: int) -> Tensor:
    """A copy of `table` with rows of 0 below, [n, dim]."""
    return torch.cat([table, table.new_zeros((n - len(table), *table.shape[1:]))])


@torch.no_grad()
def with_new_items(table: Tensor, vectors: Callable[[Users], Tensor], before: Histories, after: Histories) -> Tensor:
    """A copy of `table` [n, d], the rows of the first n items, with a row for each item behind them, [n_items after, d].

    A row is a linear map of the sum of the vectors of the users who took the item, divided by the root of their number.
    The map is fitted to the first n items in the histories of before. `vectors` gives the vectors of a batch, [B, dim].
    """
    n = len(table)
    if after.n_items == n:
        return table.clone()
    known = before.popularity[:n] > 0
    to_rows = linear_map(_summed(vectors, before)[:n][known], table[known])
    return torch.cat([table, (_summed(vectors, after)[n:].double() @ to_rows).to(table)])


def _summed(vectors: Callable[[Users], Tensor], histories: Histories) -> Tensor:
    """[n_items, dim + 1] the sum of the vectors of each item's users over the root of their number, and a column of 1."""
    parts = pieces(torch.arange(histories.n_users), _AT_A_TIME)
    into = None
    for users in map(histories.batch, parts):
        theirs = vectors(users)
        into = theirs.new_zeros((histories.n_items, theirs.shape[1])) if into is None else into
        add_by_item(into, theirs, users, torch.ones_like(users.weight))
    assert into is not None, "there are users"
    into *= histories.popularity.clamp_min(1).rsqrt()[:, None]
    return torch.cat([into, into.new_ones(len(into), 1)], 1)
