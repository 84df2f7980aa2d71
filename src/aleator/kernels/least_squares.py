"""Exact least squares for many users (or items) at once."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.device import budget


def least_squares(factors: Tensor, rows: Histories, mu: float, l2: float) -> Tensor:
    """The x of each row that minimises sum_i w_i (<x, y_i> - Y_i)^2 + l2 |x|^2, [n_rows, dim].

    On the items of the row, Y is 1 and w_i is the weight of the pair. On all others, Y is 0 and w_i is `mu`. The rows of
    `factors` [n_items, dim] are y. Rows of similar length are solved together, so that there is little padding.
    """
    solved = factors.new_zeros((rows.n_users, factors.shape[1]))
    everyone = _everyone(factors, mu, l2)
    for index, users in _alike(rows, factors):
        problem = _Problem(factors, everyone, users, mu)
        solved[index] = problem.solve(problem.target[..., None]).squeeze(-1)
    return solved


def leave_one_out(factors: Tensor, rows: Histories, mu: float, l2: float) -> Tensor:
    """<x, y_i> of each pair of the rows, [n], where x is solved as if that pair were unobserved (weight `mu`, Y = 0).

    Let A be the normal matrix, r = <x, y>, h = y' A^-1 y, and w the weight of the pair. The result is then
    (r - w h) / (1 - (w - mu) h), by the rank-one update of Sherman and Morrison (1950).
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
    """The part that the normal matrices of all rows share: mu Y'Y + l2 I, [dim, dim]."""
    gram = mu * factors.T @ factors
    gram.diagonal().add_(l2)
    return gram


def _alike(rows: Histories, factors: Tensor) -> Iterator[tuple[Tensor, Users]]:
    """Batches of nonempty rows of similar length: their indices, and their histories."""
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
    """The normal equations of a batch of rows, padded to the longest row, and their Cholesky factors."""

    def __init__(self, factors: Tensor, everyone: Tensor, users: Users, mu: float) -> None:
        longest = int(users.size.max())
        first = users.size.cumsum(0) - users.size  # [B] where each row starts
        self.place = torch.arange(len(users.row), device=factors.device) - first[users.row]  # [n] place in the row
        self.padded = factors.new_zeros((len(users), longest, factors.shape[1]))  # [B, longest, dim]
        self.padded[users.row, self.place] = factors[users.item]
        self.weight = factors.new_zeros((len(users), longest))
        self.weight[users.row, self.place] = users.weight.to(factors.dtype)
        self.extra = torch.where(self.weight > 0, self.weight - mu, self.weight)  # beyond the `mu` in `everyone`
        self.normal = everyone + (self.padded * self.extra[..., None]).mT @ self.padded  # [B, dim, dim]
        self.target = (self.padded * self.weight[..., None]).sum(1)  # [B, dim]
        self.root, failed = torch.linalg.cholesky_ex(self.normal)
        self.singular = bool(failed.any())

    def solve(self, right: Tensor) -> Tensor:
        """A^-1 `right`, [B, dim, n].

        A is singular if, for example, there are more dimensions than items. The pseudoinverse then gives the smallest
        minimiser.
        """
        if self.singular:
            smallest: Tensor = torch.linalg.pinv(self.normal, hermitian=True)
            return smallest @ right
        return torch.cholesky_solve(right, self.root)
