"""BPR: matrix factorisation with a pairwise loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Users
from aleator.errors import require
from aleator.kernels.ragged import pair_products
from aleator.models.base import Model
from aleator.models.calibration import Calibrate
from aleator.models.epochs import Epochs, normal
from aleator.models.factors import FactorTable
from aleator.options import Among, Between, Ranges
from aleator.training.negatives import unobserved
from aleator.training.stop import Stop


@dataclass(kw_only=True, eq=False, repr=False)
class BPR(Epochs, Model):
    """Matrix factorisation that ranks: <x_u, y_i> is higher for an observed item than for another (Rendle et al., 2009).

    Every epoch draws `draws` new negatives j for each observed pair (u, i). The loss of a pair is the mean over them of
    -ln sigmoid(<x_u, y_i> - <x_u, y_j>) + l2 (|x_u|^2 + |y_i|^2 + |y_j|^2). The sum over pairs is weighted by their
    weights. This loss sees only differences of scores, so r_ui is the inner product calibrated to the label's scale.
    """

    draws: int = 8  # negatives for each observed pair; more of them are slower and less noisy
    l2: float = 3e-3  # weight of the squared norms of the factors in the loss
    dim: int = 64  # dimensions of the factors
    lr: float = 5e-3  # learning rate of Adam
    max_epochs: int = 400  # largest number of epochs
    check_every: int = 5  # epochs between two checks of the validation Recall@20
    calibrate: Calibrate = "linear"  # map of raw scores onto the label's scale

    steps: ClassVar[int] = 32
    ranges: ClassVar[Ranges] = {
        "dim": Among(64, 128, 256),
        "lr": Between(5e-4, 2e-2, log=True),
        "l2": Between(1e-4, 1e-1, log=True),
    }
    paper_ranges: ClassVar[Ranges] = {"l2": Among(0.0, 1e-4, 1e-3, 1e-2, 1e-1)}
    paper: ClassVar[dict[str, Any]] = {"draws": 1, "dim": 128, "lr": 1e-4, "batch_size": 32, "max_epochs": 1000}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        require(self.draws >= 1, f"draws is {self.draws}", "give at least 1")
        require(self.l2 >= 0, f"l2 is {self.l2}", "give an l2 of at least 0")

    def learn(self, stop: Stop) -> None:
        shapes = (self.fitted.n_users, self.dim), (self.fitted.n_items, self.dim)
        self.table = FactorTable(*normal(*shapes, seed=self.seed, device=self.torch_device))
        parameters = [self.table.users, self.table.items]
        self.log = self.minimise(self.loss, parameters, self.histories, stop, seed=self.seed)

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        x, y = self.table.users.index_select(0, users.index), self.table.items
        others = unobserved(users, len(y), self.draws, generator)
        observed, other = pair_products(x, y, users), pair_products(x, y, others)
        losses = self.triples(observed[:, None], other.view(-1, self.draws), users, generator)
        return (others.weight * losses.flatten()).sum() + self.l2 * squared_norms(x, y, users, others)

    def triples(self, observed: Tensor, other: Tensor, users: Users, generator: torch.Generator) -> Tensor:
        """The loss of each triple, [n, draws], from the scores of observed pairs [n, 1] and of negatives [n, draws]."""
        return F.softplus(other - observed)


def squared_norms(x: Tensor, y: Tensor, users: Users, others: Users) -> Tensor:
    """|x_u|^2 + |y_i|^2 + |y_j|^2 summed over the triples of a batch, times their weights."""
    weight = others.weight.to(x.dtype)
    of_users = weight.new_zeros(len(x)).index_add_(0, others.row, weight)
    of_items = weight.new_zeros(len(y)).index_add_(0, others.item, weight)
    of_items.index_add_(0, users.item, weight.view(len(users.item), -1).sum(1))
    return of_users @ x.square().sum(1) + of_items @ y.square().sum(1)
