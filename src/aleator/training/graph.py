"""The graph of users and items: what a vertex gets from its neighbours, and the mean over several such layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.kernels.ragged import history_sum


class Graph:
    """P: a pair of n_u items of the user and n_i users of the item is an edge of weight 1 / sqrt(n_u n_i).

    Who has no pairs gets zeros. P is linear and self-adjoint, so that gradients go back through P itself.
    """

    def __init__(self, histories: Histories) -> None:
        rows, n_items = histories, histories.n_items
        user = torch.arange(rows.n_users, device=rows.device).repeat_interleave(rows.size)
        item, order = rows.item.sort(stable=True)
        count = torch.bincount(item, minlength=n_items)
        self.by_user = Users(torch.arange(rows.n_users, device=rows.device), user, rows.item, rows.weight, rows.size)
        self.by_item = Users(torch.arange(n_items, device=rows.device), item, user[order], rows.weight[order], count)
        self._of_user = (rows.size[user] * count[rows.item]).float().rsqrt()  # [n] the weight of each pair
        self._of_item = self._of_user[order]

    def neighbours(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """P of tables [n_users, dim] and [n_items, dim]: what users get from their items, and items from their users."""
        found: tuple[Tensor, Tensor] = _Neighbours.apply(users, items, self)  # type: ignore[no-untyped-call]
        return found

    def propagate(self, users: Tensor, items: Tensor, layers: int) -> tuple[Tensor, Tensor]:
        """The mean of the tables and of what 1 to `layers` applications of P make of them (He et al., 2020)."""
        all_users, all_items = users, items
        for _ in range(layers):
            users, items = self.neighbours(users, items)
            all_users, all_items = all_users + users, all_items + items
        return all_users / (layers + 1), all_items / (layers + 1)

    def _product(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        return history_sum(items, self.by_user, self._of_user), history_sum(users, self.by_item, self._of_item)


class _Neighbours(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        ctx.graph = graph
        return graph._product(users, items)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return *ctx.graph._product(*grads), None
