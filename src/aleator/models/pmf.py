"""Probabilistic matrix factorisation: a Gaussian around a logistic score, and Gaussian priors on the factors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from aleator.errors import require
from aleator.evaluation.held_out import HeldOut
from aleator.models.gradient import GradientModel
from aleator.search import Among, Between, Ranges
from aleator.training.histories import Users, pieces
from aleator.training.kernels import add_by_item, history_sum, pair_products

_CELLS = {"cpu": 1 << 21, "cuda": 1 << 27}  # scores that are held at a time


@dataclass(kw_only=True, eq=False, repr=False)
class PMF(GradientModel):
    dim: int = 128
    noise_variance: float = 1.0
    user_variance: float = 100.0
    item_variance: float = 100.0
    lr: float = 5e-3

    user_factors: Tensor = field(init=False)  # [n_users, dim]
    item_factors: Tensor = field(init=False)  # [n_items, dim]

    learned: ClassVar[tuple[str, ...]] = ("user_factors", "item_factors")
    steps: ClassVar[int] = 8
    spread = 0.1

    def learn(self, check: HeldOut | None, epochs: int | None) -> None:
        shapes = (self.fitted.n_users, self.dim), (self.fitted.n_items, self.dim)
        self.user_factors, self.item_factors = self.normal(*shapes, spread=self.spread)
        self.optimise([self.user_factors, self.item_factors], self.loss, check, epochs)

    @torch.no_grad()
    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        x, y, n = self.user_factors.index_select(0, users.index), self.item_factors, len(users)
        loss, dx, dy = self.squares(x, y, users)
        of_user, of_item = self.noise_variance / self.user_variance, self.noise_variance / self.item_variance * n / self.fitted.n_users
        dx += 2 * of_user * x
        dy += 2 * of_item * y
        self.user_factors.grad = torch.zeros_like(self.user_factors).index_copy_(0, users.index, dx / n)
        self.item_factors.grad = dy / n
        return loss + of_user * x.square().sum() + of_item * y.square().sum()

    def squares(self, x: Tensor, y: Tensor, users: Users):
        r = pair_products(x, y, users).sigmoid_()
        slope = 2 * (users.weight * (r - 1) - self.mu * r) * r * (1 - r)
        loss = (users.weight * (r - 1).square() - self.mu * r.square()).sum()
        dx, dy = history_sum(y, users, slope), torch.zeros_like(y)
        add_by_item(dy, x, users, slope)
        size = max(_CELLS[x.device.type] // len(y), 1)
        for part, into in zip(pieces(x, size), pieces(dx, size), strict=True):
            r = (part @ y.T).sigmoid_()
            squared = r.square()
            loss += self.mu * squared.sum()
            slopes = squared.mul_(1 - r).mul_(2 * self.mu)
            into += slopes @ y
            dy += slopes.T @ part
        return loss, dx, dy

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        y = self.item_factors if items is None else self.item_factors[items]
        return (self.user_factors[users.index] @ y.T).sigmoid_()
