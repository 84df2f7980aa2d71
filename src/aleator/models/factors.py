"""Factors of users and items, and the fold-in of newcomers, who are only a history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.kernels.fold_in import linear_map, padded
from aleator.kernels.ragged import history_sum
from aleator.models.calibration import Map


class FactorTable:
    """A factor for each user and item."""

    shapes: ClassVar[Mapping[str, str]] = {"user_factors": "[n_users, width]", "item_factors": "[n_items, width]"}

    def __init__(self, users: Tensor, items: Tensor) -> None:
        self.users = users  # [n_users, dim]
        self.items = items  # [n_items, dim]
        self._newcomers: Tensor | None = None  # [dim + 1, dim] the map of `fold_in`, fitted on first use

    @property
    def dim(self) -> int:
        return self.items.shape[1]

    def rows(self, users: Users, fold_in: Callable[[Users], Tensor]) -> Tensor:
        """[B, dim] the factors of a batch. `fold_in` computes those of newcomers."""
        if not users.some_new:
            return self.users[users.index]
        return torch.where((users.index < 0)[:, None], fold_in(users), self.users[users.index.clamp_min(0)])

    def fold_in(self, users: Users, histories: Histories) -> Tensor:
        """[B, dim] factors of newcomers, by a linear map of the summed item factors of their histories.

        The map is fitted to the factors of the users in `histories`.
        """
        if self._newcomers is None:
            everyone = (histories.host_size > 0).nonzero().squeeze(1)
            self._newcomers = self.newcomer_map(everyone, histories)
        return self.summed(users) @ self._newcomers

    def padded(self, histories: Histories, n_items: int) -> FactorTable:
        """A copy for the users and items of `histories`, which folds in as this one does.

        Rows of new users, and those of all items but the first `n_items`, are 0.
        """
        made = FactorTable(padded(self.users, histories.n_users), padded(self.items[:n_items], histories.n_items))
        made._newcomers = self._newcomers
        return made

    def newcomer_map(self, who: Tensor, histories: Histories) -> Tensor:
        """[dim + 1, dim] the linear map of `fold_in`, fitted on the users `who` (dense ids) by ridge regression."""
        users = histories.batch(who, trained=True)
        return linear_map(self.summed(users), self.users[users.index]).to(self.users)

    def summed(self, users: Users) -> Tensor:
        """[B, dim + 1] the sum of each history's item factors, divided by the root of its size, and a column of 1."""
        scale = users.size.clamp_min(1).to(self.items.dtype).rsqrt()
        summed = history_sum(self.items, users, scale[users.row])
        return torch.cat([summed, summed.new_ones(len(users), 1)], 1)

    def absorb(self, line: Map) -> None:
        """Make a linear map of the scores part of the factors, so that scores stay inner products."""
        level, top = line.y.tolist()
        self._newcomers = None  # it made factors of the old kind
        self.users = torch.cat([self.users * (top - level), level * torch.ones_like(self.users[:, :1])], 1)
        self.items = torch.cat([self.items, torch.ones_like(self.items[:, :1])], 1)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to save, by name."""
        return {"user_factors": self.users, "item_factors": self.items}
