"""One training step of the factor estimator: from histories to p, and the gradient in z and q by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.kernels.ragged import add_by_item, add_cross, history_sum, row_dots
from aleator.uncertainty.base import Expectation
from aleator.uncertainty.objective import Objective
from aleator.uncertainty.pair_loss import PairLoss

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
        here = replace(users, item=tables.place(users.item))
        summed, scale = history(tables.z, here, self.keep)
        hidden = summed.mul_(scale[:, None])
        p = hidden if self.activation is None else self.activation(hidden)
        tables.dz.zero_()
        own = self.keep * scale[users.row]  # the share of z_i in the p of a user who has i in the history
        apart = self.self_exclude and self.activation is not None
        less = row_dots(tables.z, tables.q)[here.item] * own if self.self_exclude and not apart else None
        part = PairLoss(
            users,
            p,
            tables.q,
            tables.dq,
            self.expectation,
            self.objective,
            place=tables.place,
            dtype=self.dtype,
            less=less,
        )
        loss = part.run(n_items, items, with_observed=not apart)
        dhidden = torch.zeros_like(p)
        if apart:
            loss += self._each_without_itself(part, here, hidden, dhidden, own)
        dhidden += _through(self.activation, hidden, part.dp)
        add_by_item(tables.dz, dhidden.mul_(scale[:, None]), here, self.keep)
        if less is not None:
            weight = torch.zeros_like(tables.q[:, 0]).index_add_(0, here.item, part.slopes * -own)
            add_cross(tables.z, tables.q, weight, tables.dz, part.dq, tables.dq)
        elif part.dq is not tables.dq:
            tables.dq.copy_(part.dq)
        return loss.to(p.dtype)

    def _each_without_itself(self, part: PairLoss, here: Users, hidden: Tensor, dhidden: Tensor, own: Tensor) -> Tensor:
        """The observed pairs where each has a p of its own, a few at a time."""
        tables, total = self.tables, torch.zeros((), dtype=torch.float64, device=hidden.device)
        for first in range(0, len(own), _PAIRS):
            some = slice(first, first + _PAIRS)
            row, item, share = here.row[some], here.item[some], own[some, None]
            theirs, rest = tables.q[item], hidden[row] - share * tables.z[item]
            assert self.activation is not None
            p = self.activation(rest)
            loss, slope = part.observed((p * theirs).sum(1), some)
            drest = _through(self.activation, rest, slope[:, None] * theirs)
            dhidden.index_add_(0, row, drest)
            tables.dz.index_add_(0, item, drest.mul_(-share))
            part.dq.index_add_(0, item, p.mul_(slope[:, None]))
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
