"""Least squares for many users (or items) at once: exactly, or some steps towards it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.device import budget, in_smaller_blocks
from aleator.errors import AleatorError
from aleator.kernels.ragged import history_sum, pair_products

_TRUSTED = 1e-6  # of the trace of a Gram matrix: eigenvalues below it may be rounding errors
_EQUAL = 32  # units in the last place of 1: scores that differ by no more are the same
_MOST_STEPS = 32  # of conjugate gradients, before rows are solved in another way


def weighted_gram(factors: Tensor, mu: float) -> Tensor:
    """mu Y'Y of `factors` [n_items, dim], [dim, dim]: what all unobserved pairs add to the normal equations."""
    return mu * (factors.T @ factors)


@in_smaller_blocks
def least_squares(factors: Tensor, rows: Histories, mu: float, l2: Tensor, gram: Tensor | None = None) -> Tensor:
    """The x of each row that minimises sum_i w_i (<x, y_i> - Y_i)^2 + l2 |x|^2, [n_rows, dim].

    On the items of the row, Y is 1 and w_i is the weight of the pair. On all others, Y is 0 and w_i is `mu`. The rows of
    `factors` [n_items, dim] are y. Each row has its own `l2` [n_rows]. Rows of similar length are solved together, so
    that there is little padding. `gram` is `weighted_gram`, if the caller has it.
    """
    solved = factors.new_zeros((rows.n_users, factors.shape[1]))
    gram = weighted_gram(factors, mu) if gram is None else gram
    for index, users in _problems(rows, factors):
        problem = _Problem(factors, gram, users, mu, l2[index])
        solved[index] = problem.solve(problem.target[..., None]).squeeze(-1)
    return solved


@in_smaller_blocks
def leave_one_out(factors: Tensor, rows: Histories, mu: float, l2: Tensor) -> Tensor:
    """<x, y_i> of each pair of the rows, [n], where x is solved as if that pair were unobserved (weight `mu`, Y = 0).

    The `l2` [n_rows] of its row stays the same. Let A be the normal matrix, r = <x, y>, h = y' A^-1 y, and w the weight
    of the pair. The result is then (r - w h) / (1 - (w - mu) h), by the rank-one update of Sherman and Morrison (1950).
    """
    found = factors.new_zeros(len(rows.item))
    gram = weighted_gram(factors, mu)
    for index, users in _problems(rows, factors):
        problem = _Problem(factors, gram, users, mu, l2[index])
        x = problem.solve(problem.target[..., None])
        h = (problem.padded * problem.solve(problem.padded.mT).mT).sum(-1)
        r = (problem.padded @ x).squeeze(-1)
        left = (r - problem.weight * h) / (1 - problem.extra * h)
        found[rows.indptr[index][users.row] + problem.place] = left[users.row, problem.place]
    return found


def history_terms(factors: Tensor, rows: Histories, mu: float, l2: Tensor, items: Tensor) -> Tensor:
    """The terms of <x, y_i> for the x of `least_squares` and each item i of `items` [n_rows, k], [n, k].

    Let A be the normal matrix of a row. Then x = A^-1 (sum of w_j y_j over the items j of the row), so that <x, y_i> is
    the sum of w_j y_j' A^-1 y_i (Hu, Koren and Volinsky, 2008, section 5).
    """
    found = factors.new_zeros((len(rows.item), items.shape[1]))
    gram = mu * factors.T @ factors
    for index, users in _problems(rows, factors):
        problem = _Problem(factors, gram, users, mu, l2[index])
        terms = problem.weight[..., None] * (problem.padded @ problem.solve(factors[items[index]].mT))
        found[rows.indptr[index][users.row] + problem.place] = terms[users.row, problem.place]
    return found


def approach(
    x: Tensor, factors: Tensor, rows: Users, mu: float, l2: Tensor, steps: int, gram: Tensor | None = None
) -> Tensor:
    """Take `steps` steps of conjugate gradients from `x` [n_rows, dim] towards what `least_squares` finds.

    A step costs two passes over the pairs, and no row needs a matrix of its own (Takacs, Pilaszy and Tikk, 2011). `gram`
    is `weighted_gram`, if the caller has it.
    """
    gram = weighted_gram(factors, mu) if gram is None else gram
    normal = _normal(factors, rows, mu, l2[:, None], gram)
    return conjugate_gradients(normal, history_sum(factors, rows, rows.weight) - normal(x), x, steps)[0]


@in_smaller_blocks
def refine(x: Tensor, factors: Tensor, rows: Histories, mu: float, l2: Tensor) -> Tensor:
    """What `least_squares` finds, by conjugate gradients from a near `x` [n_rows, dim].

    Scores are the same to `_EQUAL` units in the last place. A step reduces the error of all rows to about a third, so
    this is quicker than a matrix for each row. Rows that do not get there in a few steps are solved by `least_squares`.
    """
    found, near, at_once = torch.zeros_like(x), _Near(factors, mu, l2), budget(x.device)
    if len(l2) and bool(l2.min() < near.least):
        return least_squares(factors, rows, mu, l2, near.gram)
    enough, left = near.small(_EQUAL * torch.finfo(x.dtype).eps), []
    rows_at_once = at_once.product_numbers // x.shape[1]
    for index, users in _alike(rows, lambda longest: min(rows_at_once, at_once.listed_pairs // longest)):
        found[index], error = near.approach(x[index], users, l2[index], enough)
        left.append(index[~(error <= enough)])
    rest = torch.cat([rows.size.new_zeros(0), *left])
    if len(rest):
        again = Histories.of_users(rows.batch(rest), rows.n_items)
        found[rest] = least_squares(factors, again, mu, l2[rest], near.gram)
    return found


class _Near:
    """Steps of conjugate gradients for rows that share `factors`, with a preconditioner that they share too.

    It is the inverse of M = mu Y'Y + the smallest l2: the normal matrix of a row without pairs. The pairs of a row change
    few directions of it. So a few steps get far, whatever the lengths of the factors. An l2 below `least` counts as that.
    """

    def __init__(self, factors: Tensor, mu: float, l2: Tensor) -> None:
        self.factors, self.mu, self.gram = factors, mu, weighted_gram(factors, mu)
        wide = self.gram.double()
        self.least = (_TRUSTED * wide.trace()).clamp_min(torch.finfo(self.gram.dtype).tiny).to(self.gram.dtype)
        shift = torch.maximum(l2.min(), self.least).double()
        root, _ = torch.linalg.cholesky_ex(wide + torch.diag(shift.expand(len(wide))))
        self.inverse = torch.cholesky_inverse(root).to(self.gram.dtype)

    def small(self, error: float) -> float:
        """r' M^-1 r of a row's residual r up to which none of its scores is off by more than `error`.

        Let A be its normal matrix. The scores of its factors are off by <y_i, A^-1 r> at most. Its square is at most
        y_i' A^-1 y_i times r' A^-1 r, and A is at least M and at least mu y_i y_i'.
        """
        return self.mu * error**2

    def approach(self, x: Tensor, rows: Users, l2: Tensor, enough: float) -> tuple[Tensor, Tensor]:
        """Rows nearer to their solutions, and r' M^-1 r before the last step, [n_rows]. The steps end at `enough`."""
        l2 = torch.maximum(l2, self.least)[:, None]  # with less, rounding errors could run away
        normal = _normal(self.factors, rows, self.mu, l2, self.gram)
        residual = history_sum(self.factors, rows, rows.weight.to(x.dtype)) - normal(x)
        return conjugate_gradients(normal, residual, x, _MOST_STEPS, self.inverse, enough)


def conjugate_gradients(
    normal: Callable[[Tensor], Tensor],
    residual: Tensor,
    x: Tensor,
    steps: int,
    inverse: Tensor | None = None,
    enough: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Take `steps` steps from each row of `x` [B, dim] towards the solution of `normal`(x) = a target.

    `residual` is the target - `normal`(x), and is overwritten. `inverse` [dim, dim] preconditions: it is near the inverse
    of `normal`. With `enough`, the steps end once r' `inverse` r of the residual r of every row is at most that. Returns
    the rows, and r' `inverse` r of each before the last step.
    """
    x, tiny = x.clone(), torch.finfo(x.dtype).tiny  # no division by 0 once a row is solved
    direction = residual.clone() if inverse is None else residual @ inverse
    size = (residual * direction).sum(1, keepdim=True)
    for left in range(steps - 1, -1, -1):
        if enough is not None and bool((size <= enough).all()):
            break
        ahead = normal(direction)
        step = size / (direction * ahead).sum(1, keepdim=True).clamp_min(tiny)
        x.addcmul_(direction, step)
        if left:
            residual.addcmul_(ahead, step, value=-1)
            turned = residual if inverse is None else residual @ inverse
            before, size = size, (residual * turned).sum(1, keepdim=True)
            direction.mul_(size / before.clamp_min(tiny)).add_(turned)
    return x, size[:, 0]


def _normal(factors: Tensor, rows: Users, mu: float, l2: Tensor, gram: Tensor) -> Callable[[Tensor], Tensor]:
    """The normal matrix of each row, times its v [n_rows, dim]."""
    extra = _extra(rows.weight.to(factors.dtype), mu)

    def times(v: Tensor) -> Tensor:
        products = pair_products(v, factors, rows).mul_(extra)
        return (v @ gram).addcmul_(v, l2).add_(history_sum(factors, rows, products))

    return times


def _extra(weight: Tensor, mu: float) -> Tensor:
    """The weight beyond the `mu` that every pair has. A weight of 0 is no pair."""
    return torch.where(weight > 0, weight - mu, weight)


def _alike(rows: Histories, most: Callable[[int], int]) -> Iterator[tuple[Tensor, Users]]:
    """Batches of nonempty rows of similar length: their indices, and their histories.

    `most` tells how many rows a batch has at most, from the length of its longest one.
    """
    size, order = rows.size.sort(descending=True)
    lengths = size.tolist()
    first = 0
    while first < len(lengths) and lengths[first] > 0:
        count = max(most(lengths[first]), 1)
        index = order[first : first + count]
        index = index[rows.size[index] > 0]
        yield index, rows.batch(index)
        first += count


def _problems(rows: Histories, factors: Tensor) -> Iterator[tuple[Tensor, Users]]:
    """`_alike`, in batches whose normal equations fit into the memory that they are given."""
    dim, numbers = factors.shape[1], budget(factors.device).least_squares_numbers
    return _alike(rows, lambda longest: numbers // (dim * (longest + dim)))


class _Problem:
    """The normal equations of a batch of rows, padded to the longest row, and their Cholesky factors."""

    def __init__(self, factors: Tensor, gram: Tensor, users: Users, mu: float, l2: Tensor) -> None:
        longest = int(users.size.max())
        first = users.size.cumsum(0) - users.size  # [B] where each row starts
        self.place = torch.arange(len(users.row), device=factors.device) - first[users.row]  # [n] place in the row
        self.padded = factors.new_zeros((len(users), longest, factors.shape[1]))  # [B, longest, dim]
        self.padded[users.row, self.place] = factors[users.item]
        self.weight = factors.new_zeros((len(users), longest))
        self.weight[users.row, self.place] = users.weight.to(factors.dtype)
        self.extra = _extra(self.weight, mu)
        self.normal = gram.repeat(len(users), 1, 1)  # [B, dim, dim]
        self.normal.diagonal(dim1=1, dim2=2).add_(l2[:, None])
        self.normal += (self.padded * self.extra[..., None]).mT @ self.padded
        self.target = (self.padded * self.weight[..., None]).sum(1)  # [B, dim]
        self.root, failed = torch.linalg.cholesky_ex(self.normal)
        self.singular = bool(failed.any())

    def solve(self, right: Tensor) -> Tensor:
        """A^-1 `right`, [B, dim, n].

        A is singular if, for example, there are more dimensions than items. The pseudoinverse then gives the smallest
        minimiser.
        """
        if self.singular:
            try:
                smallest: Tensor = torch.linalg.pinv(self.normal, hermitian=True)
            except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
                told = "the least squares have numbers that are not finite, or differ too much in size"
                raise AleatorError(told, "take milder options, or weights nearer to 1") from None
            return smallest @ right
        return torch.cholesky_solve(right, self.root)
