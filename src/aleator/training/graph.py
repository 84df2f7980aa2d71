"""The graph of users and items: sums over neighbours, and the mean over several layers of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.errors import require
from aleator.kernels.ragged import history_sum

_MOST = 64  # layers: long before, all vertices of a component have the same embedding, but for its length


def check_layers(layers: int) -> None:
    """Refuse a number of layers that makes no sense."""
    require(0 <= layers <= _MOST, f"layers is {layers}", f"give 0 to {_MOST} layers")


class Graph:
    """The normalised adjacency P of users and items.

    An observed pair is an edge. Its weight is 1 / sqrt(n_u n_i), for n_u items of the user and n_i users of the item. A
    vertex without edges gets zeros. P is linear and self-adjoint, so gradients go back through P itself.
    """

    def __init__(self, histories: Histories) -> None:
        device, size = histories.device, histories.size
        users = torch.arange(histories.n_users, device=device)
        items = torch.arange(histories.n_items, device=device)
        user = users.repeat_interleave(size)  # [n] the user of each pair
        item, order = histories.item.sort(stable=True)
        count = torch.bincount(item, minlength=histories.n_items)
        self.by_user = Users(users, user, histories.item, histories.weight, size)
        self.by_item = Users(items, item, user[order], histories.weight[order], count)
        self._of_user = (size[user] * count[histories.item]).float().rsqrt()  # [n] weights of the edges, by user
        self._of_item = self._of_user[order]  # [n] the same weights, by item

    def neighbours(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """P times the tables [n_users, dim] and [n_items, dim]: sums over the items of users, and the users of items."""
        found: tuple[Tensor, Tensor] = _Neighbours.apply(users, items, self)  # type: ignore[no-untyped-call]
        return found

    def propagate(self, users: Tensor, items: Tensor, layers: int) -> tuple[Tensor, Tensor]:
        """The mean of the tables and of P applied to them 1 to `layers` times (He et al., 2020)."""
        all_users, all_items = users, items
        for _ in range(layers):
            users, items = self.neighbours(users, items)
            all_users, all_items = all_users + users, all_items + items
        return all_users / (layers + 1), all_items / (layers + 1)

    def _product(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """`neighbours`, without autograd."""
        return history_sum(items, self.by_user, self._of_user), history_sum(users, self.by_item, self._of_item)


class _Neighbours(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        ctx.graph = graph
        return graph._product(users, items)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return *ctx.graph._product(*grads), None
