"""LightGCN: embeddings that are smoothed over the graph of users and items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.errors import require
from aleator.models.base import Model
from aleator.models.epochs import Epochs, normal
from aleator.models.factors import FactorTable
from aleator.models.squares import Negatives, squared_error
from aleator.options import Among, Between, Ranges
from aleator.training.graph import Graph
from aleator.training.stop import Stop


@dataclass(kw_only=True, eq=False, repr=False)
class LightGCN(Epochs, Model):
    """r_ui = <x_u, y_i>, where factors are embeddings that are smoothed over the graph of pairs (He et al., 2020).

    A step over the graph gives each vertex the normalised sum of its neighbours. A factor is the mean of the embedding
    and of the results of 1 to `layers` steps. As in the AUR paper, the loss is the squared error + l2 |e|^2 of the
    embeddings. r_ui is near 0 for a pair that is not expected and near 1 for one that is.
    """

    dim: int = 128  # dimensions of the embeddings
    layers: int = 3  # steps over the graph
    l2: float = 0.1  # weight of the squared norms of the embeddings in the loss
    lr: float = 2e-3  # learning rate of Adam
    max_epochs: int = 400  # largest number of epochs
    check_every: int = 5  # epochs between two checks of the validation Recall@20
    negatives: Negatives = "all"  # unobserved pairs in the loss: all, or drawn for each user or each batch

    embeddings: tuple[Tensor, Tensor] = field(init=False)  # of users and items, [n, dim]; not saved
    graph: Graph = field(init=False)  # not saved: scores need only the factors

    trains_jointly: ClassVar[bool] = True
    weighs_negatives: ClassVar[bool] = True
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
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        require(self.layers >= 0, f"layers is {self.layers}", "give at least 0 layers")
        require(self.l2 >= 0, f"l2 is {self.l2}", "give an l2 of at least 0")

    def learn(self, stop: Stop) -> None:
        shapes = (self.fitted.n_users, self.dim), (self.fitted.n_items, self.dim)
        users, items = normal(*shapes, seed=self.seed, device=self.torch_device)
        self.embeddings, self.graph = (users, items), Graph(self.histories)
        self.log = self.minimise(self.loss, self.parameters(), self.histories, stop, seed=self.seed)

    def parameters(self) -> list[Tensor]:
        return list(self.embeddings)

    def publish(self) -> None:
        self.table = FactorTable(*self.graph.propagate(*self.embeddings, self.layers))

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        """The objective summed over a batch. The penalty of the items counts by the batch's share of the users."""
        x, y = self.graph.propagate(*self.embeddings, self.layers)
        theirs, items = self.embeddings[0].index_select(0, users.index), self.embeddings[1]
        penalty = theirs.square().sum() + items.square().sum() * (len(users) / self.fitted.n_users)
        error = squared_error(
            x.index_select(0, users.index), y, users, self.mu, negatives=self.negatives, draw=generator
        )
        return error + self.l2 * penalty
