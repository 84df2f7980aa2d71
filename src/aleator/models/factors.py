"""Models with factors for users and items, whose score most often is their inner product."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.data.interactions import Interactions
from aleator.errors import require
from aleator.evaluation.held_out import HeldOut
from aleator.kernels.ragged import history_sum, pair_products
from aleator.models.base import Model


class ProductModel(Model):
    """r_ui = <x_u, y_i>, whatever x and y are made of."""

    @abstractmethod
    def factors(self, users: Users) -> tuple[Tensor, Tensor]:
        """[B, dim] and [n_items, dim] whose inner products are the raw scores; the items' is one and the same tensor."""

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        x, y = self.factors(users)
        return x @ (y if items is None else y[items]).T

    def raw_pairs(self, users: Users) -> Tensor:
        return pair_products(*self.factors(users), users)


@dataclass(kw_only=True, eq=False, repr=False)
class TableModel(Model):
    """A table of factors for users and one for items. Newcomers get an x from their history, by `fold_in`."""

    dim: int = 128

    user_factors: Tensor = field(init=False)  # [n_users, dim]
    item_factors: Tensor = field(init=False)  # [n_items, dim]

    learned: ClassVar[tuple[str, ...]] = ("user_factors", "item_factors")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")

    def fold_in(self, users: Users) -> Tensor:
        """[B, dim] factors of whoever is only a history: what a linear map makes of the sum of its item factors.

        The map is the one that fits the factors of the training users best (ridge regression, made once).
        """
        kept: tuple[Tensor, Tensor] | None = getattr(self, "_fold", None)
        if kept is None or kept[0] is not self.user_factors:
            everyone = (self.histories.host_size > 0).nonzero().squeeze(1)
            kept = self._fold = (self.user_factors, self.fold_map(everyone))
        return self._summed(users) @ kept[1]

    def fold_map(self, who: Tensor) -> Tensor:
        """[dim + 1, dim] the map, fitted on the users `who` (dense ids)."""
        users = self.histories.batch(who, trained=True)
        made, known = self._summed(users).double(), self.user_factors[users.index].double()
        gram = made.T @ made
        gram.diagonal().add_(1e-6 * gram.diagonal().mean() + 1e-12)
        solved: Tensor = torch.linalg.solve(gram, made.T @ known)
        return solved.to(self.user_factors)

    def _summed(self, users: Users) -> Tensor:
        """[B, dim + 1] item factors summed over each history / sqrt(its size), and a one."""
        scale = users.size.clamp_min(1).to(self.item_factors.dtype).rsqrt()
        summed = history_sum(self.item_factors, users, scale[users.row])
        return torch.cat([summed, summed.new_ones(len(users), 1)], 1)

    def factors_of(self, users: Users) -> Tensor:
        """[B, dim] factors of users, newcomers or not."""
        new = users.index < 0
        if users.trained or not bool(new.any()):
            return self.user_factors[users.index]
        return torch.where(new[:, None], self.fold_in(users), self.user_factors[users.index.clamp_min(0)])


@dataclass(kw_only=True, eq=False, repr=False)
class FactorModel(TableModel, ProductModel):
    """r_ui = <x_u, y_i> with factors for each user and item."""

    @property
    def calibrated(self) -> bool:
        """Whether a map onto the label's scale is part of the factors, which then no longer minimise the loss."""
        return self.item_factors.shape[1] != self.dim

    def factors(self, users: Users) -> tuple[Tensor, Tensor]:
        return self.factors_of(users), self.item_factors

    def train(self, data: Interactions, check: HeldOut | None = None, epochs: int | None = None) -> None:
        super().train(data, check, epochs)
        if self.map is not None and self.calibrate == "linear":  # into the factors: products stay products
            level, top = self.map.y.tolist()
            ones = torch.ones_like
            self.user_factors = torch.cat(
                [self.user_factors * (top - level), level * ones(self.user_factors[:, :1])], 1
            )
            self.item_factors = torch.cat([self.item_factors, ones(self.item_factors[:, :1])], 1)
            self.map = None
