"""LightGCN: factors that are smoothed over the graph of users and items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.errors import require
from aleator.evaluation.held_out import HeldOut
from aleator.models.factors import FactorModel
from aleator.models.squares import SquaresModel
from aleator.options import Among, Between, Ranges
from aleator.training.graph import Graph


@dataclass(kw_only=True, eq=False, repr=False)
class LightGCN(FactorModel, SquaresModel):
    """r_ui = <x_u, y_i>, each factor the mean of an embedding and of 1 to `layers` steps over the graph of pairs.

    A step gives a vertex the normalised sum of its neighbours (He et al., 2020). Trained by squared error + l2 |e|^2 of
    the embeddings, as the AUR paper does: r_ui is near 0 for a pair that is not expected and near 1 for one that is.
    """

    layers: int = 3
    l2: float = 0.1
    lr: float = 2e-3
    max_epochs: int = 400
    check_every: int = 5

    embeddings: tuple[Tensor, Tensor] = field(init=False)  # of users and items, [n, dim]; not saved, nor is the graph:
    graph: Graph = field(init=False)  # scores are made of the factors

    trains_jointly: ClassVar[bool] = True
    steps: ClassVar[int] = 8
    ranges: ClassVar[Ranges] = {
        "dim": Among(64, 128, 256),
        "layers": Between(1, 4, whole=True),
        "mu": Between(0.01, 0.5, log=True),
        "l2": Between(1e-3, 1.0, log=True),
        "lr": Between(5e-4, 5e-3, log=True),
    }
    paper_ranges: ClassVar[Ranges] = {"mu": Among(0.01, 0.1, 0.2, 0.4), "l2": Among(0.0, 1e-4, 1e-3, 1e-2, 1e-1)}
    paper: ClassVar[dict[str, Any]] = {
        "negatives": "shared",
        "l2": 0.0,
        "lr": 1e-4,
        "batch_size": 32,
        "max_epochs": 1000,
        "check_every": 2,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.layers >= 0, f"layers is {self.layers}", "give at least 0 layers")
        require(self.l2 >= 0, f"l2 is {self.l2}", "give an l2 of at least 0")

    def learn(self, check: HeldOut | None, epochs: int | None) -> None:
        shapes = (self.fitted.n_users, self.dim), (self.fitted.n_items, self.dim)
        users, items = self.normal(*shapes)
        self.embeddings, self.graph = (users, items), Graph(self.histories)
        self.optimise(self.parameters(), self.loss, check, epochs)

    def parameters(self) -> list[Tensor]:
        return list(self.embeddings)

    def publish(self) -> None:
        self.user_factors, self.item_factors = self.graph.propagate(*self.embeddings, self.layers)

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        """The objective summed over a batch; item L2 in proportion."""
        x, y = self.graph.propagate(*self.embeddings, self.layers)
        theirs, items = self.embeddings[0].index_select(0, users.index), self.embeddings[1]
        penalty = theirs.square().sum() + items.square().sum() * (len(users) / self.fitted.n_users)
        return self.squares(x.index_select(0, users.index), y, users, generator) + self.l2 * penalty
