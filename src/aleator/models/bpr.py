"""Matrix factorisation with the pairwise loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.errors import require
from aleator.evaluation.held_out import HeldOut
from aleator.models.calibration import Calibrate
from aleator.models.factors import FactorModel
from aleator.models.gradient import GradientModel
from aleator.search import Among, Between, Ranges
from aleator.training.histories import Users
from aleator.training.kernels import pair_products
from aleator.training.negatives import unobserved


@dataclass(kw_only=True, eq=False, repr=False)
class BPR(FactorModel, GradientModel):
    """Matrix factorisation that ranks: <x_u, y_i> is higher for an observed item than for another (Rendle et al., 2009).

    For each observed pair (u, i) an unobserved item j is drawn anew in every epoch, and the sum of
    -ln sigmoid(<x_u, y_i> - <x_u, y_j>) + l2 (|x_u|^2 + |y_i|^2 + |y_j|^2) over these triples, times the weight of the
    pair, is minimised. Only differences count there, so that r_ui is that product brought onto the label's scale.
    """

    l2: float = 1e-3
    dim: int = 64
    lr: float = 1e-2
    calibrate: Calibrate = "linear"

    steps: ClassVar[int] = 128
    ranges: ClassVar[Ranges] = {
        "dim": Among(64, 128, 256),
        "lr": Between(1e-3, 3e-2, log=True),
        "l2": Between(1e-5, 1e-1, log=True),
    }
    paper_ranges: ClassVar[Ranges] = {"l2": Among(0.0, 1e-4, 1e-3, 1e-2, 1e-1)}
    paper: ClassVar[dict[str, Any]] = {"lr": 1e-4, "batch_size": 32, "max_epochs": 1000}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.l2 >= 0, f"l2 is {self.l2}", "give an l2 of at least 0")

    def learn(self, check: HeldOut | None, epochs: int | None) -> None:
        shapes = ((self.fitted.n_users, self.dim), (self.fitted.n_items, self.dim))
        self.user_factors, self.item_factors = self.normal(*shapes, spread=0.1)
        self.optimise([self.user_factors, self.item_factors], self.loss, check, epochs)

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        x, y = self.user_factors.index_select(0, users.index), self.item_factors
        others = unobserved(users, len(y), generator)
        losses = self.triples(pair_products(x, y, users), pair_products(x, y, others), users, generator)
        return (others.weight * losses).sum() + self.l2 * size_of(x, y, users, others)

    def triples(self, observed: Tensor, other: Tensor, users: Users, generator: torch.Generator) -> Tensor:
        """The loss of each triple of the batch from its two scores, [n]."""
        return F.softplus(other - observed)


def size_of(x: Tensor, y: Tensor, users: Users, *others: Users) -> Tensor:
    """|x_u|^2 + |y_i|^2 + |y_j|^2 for all j of `others`, summed over the pairs of a batch by their weight."""
    weight = others[0].weight.to(x.dtype)
    of_users = weight.new_zeros(len(x)).index_add_(0, users.row, weight)
    of_items = weight.new_zeros(len(y))
    for pairs in (users, *others):
        of_items.index_add_(0, pairs.item, weight)
    return of_users @ x.square().sum(1) + of_items @ y.square().sum(1)
