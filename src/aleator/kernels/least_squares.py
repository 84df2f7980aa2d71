"""Exact least squares for many users at once."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.device import budget


def least_squares(factors: Tensor, rows: Histories, mu: float, l2: float) -> Tensor:
    """The x of each row that minimises sum_i w_i (<x, y_i> - Y_i)^2 + l2 |x|^2, [n_rows, dim].

    w_i is the pair's weight on the items of the row (Y = 1) and `mu` on all others (Y = 0); `factors` [n_items, dim]
    holds y. Rows are solved in batches of like length, so that padding stays small.
    """
    solved = factors.new_zeros((rows.n_users, factors.shape[1]))
    everyone = _everyone(factors, mu, l2)
    for index, users in _alike(rows, factors):
        problem = _Problem(factors, everyone, users, mu)
        solved[index] = problem.solve(problem.target[..., None]).squeeze(-1)
    return solved


def leave_one_out(factors: Tensor, rows: Histories, mu: float, l2: float) -> Tensor:
    """<x, y_i> of each pair of the rows, [n], where x is solved with that pair unobserved (weight `mu`, Y = 0).

    With normal matrix A, r = <x, y>, h = y' A^-1 y and weight w this is (r - w h) / (1 - (w - mu) h), by the rank-one
    update of Sherman and Morrison (1950).
    """
    found = factors.new_zeros(len(rows.item))
    everyone = _everyone(factors, mu, l2)
    for index, users in _alike(rows, factors):
        problem = _Problem(factors, everyone, users, mu)
        x = problem.solve(problem.target[..., None])
        h = (problem.padded * problem.solve(problem.padded.mT).mT).sum(-1)
        r = (problem.padded @ x).squeeze(-1)
        left = (r - problem.weight * h) / (1 - problem.extra * h)
        found[rows.indptr[index][users.row] + problem.place] = left[users.row, problem.place]
    return found


def _everyone(factors: Tensor, mu: float, l2: float) -> Tensor:
    """What the normal matrices of all rows have in common, [dim, dim]."""
    gram = mu * factors.T @ factors
    gram.diagonal().add_(l2)
    return gram


def _alike(rows: Histories, factors: Tensor) -> Iterator[tuple[Tensor, Users]]:
    """Batches of rows of like length: their numbers, and their histories."""
    dim = factors.shape[1]
    size, order = rows.size.sort(descending=True)
    lengths = size.tolist()
    first = 0
    while first < len(lengths) and lengths[first] > 0:
        count = max(budget(factors.device).least_squares_numbers // (dim * (lengths[first] + dim)), 1)
        index = order[first : first + count]
        index = index[rows.size[index] > 0]
        yield index, rows.batch(index)
        first += count


class _Problem:
    """The normal equations of a batch of rows, padded to the longest, and one Cholesky factorisation of them."""

    def __init__(self, factors: Tensor, everyone: Tensor, users: Users, mu: float) -> None:
        longest = int(users.size.max())
        self.place = (
            torch.arange(len(users.row), device=factors.device) - (users.size.cumsum(0) - users.size)[users.row]
        )
        self.padded = factors.new_zeros((len(users), longest, factors.shape[1]))  # [B, longest, dim]
        self.padded[users.row, self.place] = factors[users.item]
        self.weight = factors.new_zeros((len(users), longest))
        self.weight[users.row, self.place] = users.weight.to(factors.dtype)
        self.extra = torch.where(self.weight > 0, self.weight - mu, self.weight)
        self.normal = everyone + (self.padded * self.extra[..., None]).mT @ self.padded
        self.target = (self.padded * self.weight[..., None]).sum(1)  # [B, dim]
        self.root, failed = torch.linalg.cholesky_ex(self.normal)
        self.singular = bool(failed.any())

    def solve(self, right: Tensor) -> Tensor:
        """A^-1 `right`, [B, dim, n]; the smallest minimiser where A is singular, as with more dimensions than items."""
        if self.singular:
            smallest: Tensor = torch.linalg.pinv(self.normal, hermitian=True)
            return smallest @ right
        return torch.cholesky_solve(right, self.root)
