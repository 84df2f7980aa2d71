"""Fast paths: exact least squares for many users at once."""

from __future__ import annotations

import torch
from torch import Tensor

from aleator.training.histories import Histories, Users

_CELLS = 1 << 26  # numbers that the padded gather and the normal matrices of one batch may hold


def least_squares(factors: Tensor, rows: Histories, mu: float, l2: float) -> Tensor:
    """The x of each row that minimises sum_i w_i (<x, y_i> - Y_i)^2 + l2 |x|^2, [n_rows, dim].

    w_i is the pair's weight on the items of the row (Y = 1) and `mu` on all others (Y = 0); `factors` [n_items, dim]
    holds y. Rows are solved in batches of like length, so that padding stays small.
    """
    dim = factors.shape[1]
    everyone = mu * factors.T @ factors + l2 * torch.eye(dim, dtype=factors.dtype, device=factors.device)
    solved = factors.new_zeros((rows.n_users, dim))
    size, order = rows.size.sort(descending=True)
    lengths = size.tolist()
    first = 0
    while first < len(lengths) and lengths[first] > 0:
        count = max(_CELLS // (dim * (lengths[first] + dim)), 1)
        index = order[first : first + count]
        index = index[rows.size[index] > 0]
        solved[index] = _solve(factors, everyone, rows.batch(index), mu)
        first += count
    return solved


def _solve(factors: Tensor, everyone: Tensor, users: Users, mu: float) -> Tensor:
    """[B, dim] by one batched Cholesky factorisation; `everyone` is what all users have in common, [dim, dim]."""
    longest = int(users.size.max())
    place = torch.arange(len(users.row), device=factors.device) - (users.size.cumsum(0) - users.size)[users.row]
    padded = factors.new_zeros((len(users), longest, factors.shape[1]))
    padded[users.row, place] = factors[users.item]
    weight = factors.new_zeros((len(users), longest))
    weight[users.row, place] = users.weight.to(factors.dtype)
    extra = torch.where(weight > 0, weight - mu, weight)
    normal = everyone + (padded * extra[..., None]).mT @ padded
    target = (padded * weight[..., None]).sum(1)
    root, failed = torch.linalg.cholesky_ex(normal)
    if bool(failed.any()):  # singular, as with more dimensions than items and no l2: the smallest of the minimisers
        smallest: Tensor = torch.linalg.pinv(normal, hermitian=True)
        return (smallest @ target[..., None]).squeeze(-1)
    return torch.cholesky_solve(target[..., None], root).squeeze(-1)
