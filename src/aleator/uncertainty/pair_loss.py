"""The objective of a batch of users in p and q, where s = <p_u, q_i>: its loss and gradient, written by hand.

All items are scored in blocks, observed pairs among them. Or the observed pairs are scored one by one and the others on a
random set of items, weighted up: an unbiased estimate, and the step costs the same whatever the catalogue. All terms are
sampled together: exact ones for beta and gamma beside it learn far more slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.kernels.ragged import add_by_item, history_sum, pair_products
from aleator.uncertainty.base import Expectation
from aleator.uncertainty.fused import Observed, block_loss
from aleator.uncertainty.objective import Objective


class PairLoss:
    """A batch, its p [B, dim], and q with a gradient `dq` that is overwritten; `place` gives the rows of items in them.

    `run` leaves in `dp` and `dq` the gradient of the mean over the users, and in `slopes` [n] that in s of the observed
    pairs. `less` [n], where given, is taken from the s of those.
    """

    def __init__(
        self,
        users: Users,
        p: Tensor,
        q: Tensor,
        dq: Tensor,
        expectation: Expectation,
        objective: Objective,
        *,
        place: Callable[[Tensor], Tensor] = lambda items: items,
        dtype: torch.dtype | None = None,
        less: Tensor | None = None,
    ) -> None:
        self.users, self.p, self.q, self.place, self.less = users, p, q, place, less
        self.expectation, self.objective = expectation, objective
        self.dtype = dtype or p.dtype  # of the products with all items
        self.dp, self.dq = torch.zeros_like(p), dq
        self.residual = expectation.score_pairs(users).to(p.dtype) - 1
        self.slopes = torch.empty_like(self.residual)

    @torch.no_grad()
    def run(self, n_items: int, items: Tensor | None = None, *, with_observed: bool = True) -> Tensor:
        """The objective summed over the users and all `n_items`, or estimated from the `items` (sorted)."""
        if items is None:
            return self._all_items(self.observed if with_observed else None)
        loss = self._sample(n_items, items)
        if with_observed:
            loss += self._one_by_one()
        return loss

    def observed(self, s: Tensor, which: Tensor | slice) -> tuple[Tensor, Tensor]:
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
        loss, dp, self.dq = block_loss(self.p, self.q, expected, self.objective, pairs, observed, mean, self.dtype)
        self.dp += dp
        return loss

    def _sample(self, n_items: int, items: Tensor) -> Tensor:
        """The unobserved pairs on `items`, weighted up to the whole catalogue."""

        def expected(columns: Tensor) -> Tensor:
            return self.expectation.score_block(self.users, items[columns])

        up, place = n_items / len(items), self.place(items)
        column = torch.searchsorted(items, self.users.item).clamp_max(len(items) - 1)
        inside = items[column] == self.users.item
        pairs = self.users.row[inside], column[inside]
        scale = up / len(self.users)
        loss, dp, dq = block_loss(self.p, self.q[place], expected, self.objective, pairs, None, scale, self.dtype)
        self.dp += dp
        self.dq.zero_().index_copy_(0, place, dq)
        return up * loss

    def _one_by_one(self) -> Tensor:
        """The observed pairs."""
        users = replace(self.users, item=self.place(self.users.item))
        loss, slopes = self.observed(pair_products(self.p, self.q, users), slice(None))
        self.dp += history_sum(self.q, users, slopes)
        add_by_item(self.dq, self.p, users, slopes)
        return loss
