"""One training step of the factor estimator: loss and gradient of a batch of users, written by hand.

All items are scored in blocks, observed pairs among them. Or the observed pairs are scored one by one and the others on a
random set of items, weighted up: an unbiased estimate, and the step costs the same whatever the catalogue. All terms are
sampled together: exact ones for beta and gamma beside it learn far more slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from aleator.training.histories import Users
from aleator.training.kernels import add_by_item, add_cross, history_sum, pair_products, row_dots
from aleator.uncertainty.base import Expectation
from aleator.uncertainty.fused import Observed, block_loss
from aleator.uncertainty.objective import Objective

Activation = Callable[[Tensor], Tensor]
_PAIRS = 1 << 14  # observed pairs at a time, where each needs a p of its own


@dataclass(frozen=True)
class Tables:
    """z and q, and their gradients, which a step overwrites: all rows, or the rows `used` (sorted item ids)."""

    z: Tensor
    q: Tensor
    dz: Tensor
    dq: Tensor
    used: Tensor | None = None

    def place(self, items: Tensor) -> Tensor:
        """The rows of items."""
        return items if self.used is None else torch.searchsorted(self.used, items)


class Step:
    """A batch, and what it is trained on. `keep` [n] says which items of the histories are summed."""

    def __init__(
        self,
        users: Users,
        keep: Tensor,
        tables: Tables,
        expectation: Expectation,
        objective: Objective,
        *,
        activation: Activation | None = None,
        self_exclude: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.users, self.keep, self.tables = users, keep, tables
        self.expectation, self.objective = expectation, objective
        self.activation, self.self_exclude = activation, self_exclude  # no activation is the identity
        self.dtype = dtype or tables.z.dtype  # of the products with all items

    @torch.no_grad()
    def run(self, n_items: int, items: Tensor | None = None) -> Tensor:
        """The objective summed over the users and all `n_items`, or estimated from the `items` (sorted).

        The gradient of its mean over the users is left in the tables.
        """
        users, tables = self.users, self.tables
        self.here = replace(users, item=tables.place(users.item))
        summed, self.scale = history(tables.z, self.here, self.keep)
        self.hidden = summed.mul_(self.scale[:, None])
        self.p = self.hidden if self.activation is None else self.activation(self.hidden)
        self.dp, self.dhidden = torch.zeros_like(self.p), torch.zeros_like(self.p)
        self.residual = self.expectation.score_pairs(users).to(self.p.dtype) - 1
        tables.dz.zero_()
        own = self.keep * self.scale[users.row]  # the share of z_i in the p of a user who has i in the history
        apart = self.self_exclude and self.activation is not None
        self.less = row_dots(tables.z, tables.q)[self.here.item] * own if self.self_exclude and not apart else None
        self.slopes = torch.empty_like(self.residual)

        if items is None:
            loss = self._all_items(None if apart else self._observed)
        else:
            loss = self._sample(n_items, items)
            if not apart:
                loss += self._one_by_one()
        if apart:
            loss += self._each_without_itself(own)
        self.dhidden += _through(self.activation, self.hidden, self.dp)
        add_by_item(tables.dz, self.dhidden.mul_(self.scale[:, None]), self.here, self.keep)
        if self.less is not None:
            weight = torch.zeros_like(tables.q[:, 0]).index_add_(0, self.here.item, self.slopes * -own)
            add_cross(tables.z, tables.q, weight, tables.dz, self.dq, tables.dq)
        elif self.dq is not tables.dq:
            tables.dq.copy_(self.dq)
        return loss.to(self.p.dtype)

    def _observed(self, s: Tensor, which: Tensor | slice) -> tuple[Tensor, Tensor]:
        """The loss of the observed pairs `which`, whose s is given, and the slope of the mean; it is kept."""
        if self.less is not None:
            s = s - self.less[which]
        weight, residual = self.objective.alpha * self.users.weight[which].to(s.dtype), self.residual[which]
        self.slopes[which] = slope = self.objective.slope(residual, s) * weight / len(self.users)
        return (weight * self.objective.pairs(residual, s)).sum(dtype=torch.float64), slope

    def _all_items(self, observed: Observed | None) -> Tensor:
        def expected(columns: Tensor) -> Tensor:
            return self.expectation.score_block(self.users, columns)

        pairs, mean = (self.users.row, self.users.item), 1 / len(self.users)
        loss, dp, dq = block_loss(self.p, self.tables.q, expected, self.objective, pairs, observed, mean, self.dtype)
        self.dp += dp
        self.dq = dq
        return loss

    def _sample(self, n_items: int, items: Tensor) -> Tensor:
        """The unobserved pairs on `items`, weighted up to the whole catalogue."""

        def expected(columns: Tensor) -> Tensor:
            return self.expectation.score_block(self.users, items[columns])

        up, q, place = n_items / len(items), self.tables.q, self.tables.place(items)
        column = torch.searchsorted(items, self.users.item).clamp_max(len(items) - 1)
        inside = items[column] == self.users.item
        pairs = self.users.row[inside], column[inside]
        scale = up / len(self.users)
        loss, dp, dq = block_loss(self.p, q[place], expected, self.objective, pairs, None, scale, self.dtype)
        self.dp += dp
        self.dq = self.tables.dq.zero_().index_copy_(0, place, dq)
        return up * loss

    def _one_by_one(self) -> Tensor:
        """The observed pairs."""
        q, users = self.tables.q, self.here
        loss, slopes = self._observed(pair_products(self.p, q, users), slice(None))
        self.dp += history_sum(q, users, slopes)
        add_by_item(self.dq, self.p, users, slopes)
        return loss

    def _each_without_itself(self, own: Tensor) -> Tensor:
        """The observed pairs where each has a p of its own, a few at a time."""
        tables, total = self.tables, torch.zeros((), dtype=torch.float64, device=self.p.device)
        for first in range(0, len(own), _PAIRS):
            some = slice(first, first + _PAIRS)
            row, item, part = self.here.row[some], self.here.item[some], own[some, None]
            theirs, rest = tables.q[item], self.hidden[row] - part * tables.z[item]
            assert self.activation is not None
            p = self.activation(rest)
            loss, slope = self._observed((p * theirs).sum(1), some)
            drest = _through(self.activation, rest, slope[:, None] * theirs)
            self.dhidden.index_add_(0, row, drest)
            tables.dz.index_add_(0, item, drest.mul_(-part))
            self.dq.index_add_(0, item, p.mul_(slope[:, None]))
            total += loss
        return total


def history(z: Tensor, users: Users, keep: Tensor) -> tuple[Tensor, Tensor]:
    """The summed z of each history [B, dim], and 1 / sqrt of how many items were summed [B]."""
    count = torch.zeros(len(users), dtype=keep.dtype, device=keep.device).index_add_(0, users.row, keep)
    return history_sum(z, users, keep), count.clamp_min(1).rsqrt()


def _through(activation: Activation | None, x: Tensor, grad: Tensor) -> Tensor:
    """dL/dx where dL/d activation(x) is `grad`."""
    if activation is None:
        return grad
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(activation(x), x, grad)[0]
