"""PMF: probabilistic matrix factorisation, with a Gaussian around a logistic score and Gaussian priors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from aleator.batches import Users, pieces
from aleator.device import budget
from aleator.errors import require
from aleator.kernels.ragged import add_by_item, history_sum, pair_products
from aleator.models.base import Model
from aleator.models.epochs import Epochs, normal
from aleator.models.factors import FactorTable
from aleator.options import Among, Between, Ranges
from aleator.training.stop import Stop


@dataclass(kw_only=True, eq=False, repr=False)
class PMF(Epochs, Model):
    """Probabilistic matrix factorisation (Mnih and Salakhutdinov, 2007): r_ui = sigmoid(<x_u, y_i>), between 0 and 1.

    The label is N(r_ui, `noise_variance`), and the factors are N(0, `user_variance`) and N(0, `item_variance`). The most
    likely factors minimise sum w_ui (r_ui - Y_ui)^2 + noise_variance (|x|^2 / user_variance + |y|^2 / item_variance).
    The weight w is 1 on observed pairs (times their weight) and `mu` on the others.
    """

    dim: int = 128  # dimensions of the factors
    noise_variance: float = 1.0  # variance of the label
    user_variance: float = 3.0  # variance of the prior of the user factors
    item_variance: float = 3.0  # variance of the prior of the item factors
    mu: float = 0.03  # weight of the unobserved pairs in the loss and in the calibration
    lr: float = 1e-2  # learning rate of Adam

    scores_are_products: ClassVar[bool] = False
    weighs_negatives: ClassVar[bool] = True
    steps: ClassVar[int] = 8
    ranges: ClassVar[Ranges] = {
        "dim": Among(32, 64, 128, 256),
        "mu": Between(0.01, 1.0, log=True),
        "user_variance": Between(0.3, 100.0, log=True),
        "item_variance": Between(0.3, 100.0, log=True),
    }
    paper_ranges: ClassVar[Ranges] = {
        "mu": Among(0.01, 0.1, 0.2, 0.4),
        "user_variance": Among(10.0, 100.0, 1000.0),
        "item_variance": Among(10.0, 100.0, 1000.0),
    }
    paper: ClassVar[dict[str, Any]] = {"lr": 1e-4, "batch_size": 32, "max_epochs": 1000}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        require(
            min(self.noise_variance, self.user_variance, self.item_variance) > 0,
            "a variance is not positive",
            "give variances above 0",
        )

    def learn(self, stop: Stop) -> None:
        """Train from a start that gives each item its best constant score, by the first dimension of the factors.

        Small random factors alone would give scores of 1/2. That is far too high for sparse data. The first gradients are
        then large, and Adam's steps stay short for a long time.
        """
        data = self.fitted
        shapes = (data.n_users, self.dim), (data.n_items, self.dim)
        users, items = normal(*shapes, seed=self.seed, device=self.torch_device, spread=0.1)
        count = torch.tensor(data.popularity, device=self.torch_device)
        level = ((count + 0.5) / (self.mu * (data.n_users - count) + 0.5)).log()
        scale = level.abs().mean().sqrt().clamp_min(0.1)
        users[:, 0], items[:, 0] = scale, level / scale
        self.table = FactorTable(users, items)
        self.go_on(stop)

    @property
    def goes_on(self) -> bool:
        return True

    def go_on(self, stop: Stop) -> None:
        parameters = [self.table.users, self.table.items]
        self.log = self.minimise(self.loss, parameters, self.histories, stop, seed=self.seed)

    @torch.no_grad()
    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        """The objective summed over a batch. The prior of the items counts by the batch's share of the users.

        The gradients are computed by hand, for the mean over users. The blocks count all pairs as unobserved, and the
        terms of the observed pairs correct for that.
        """
        table = self.table
        x, y = table.users.index_select(0, users.index), table.items
        of_user = self.noise_variance / self.user_variance
        of_item = self.noise_variance / self.item_variance * len(users) / self.fitted.n_users
        r = pair_products(x, y, users).sigmoid_()
        loss = of_user * x.square().sum() + of_item * y.square().sum()
        loss += (users.weight * (r - 1).square() - self.mu * r.square()).sum()
        slope = (users.weight * (r - 1) - self.mu * r) * r * (1 - r)  # half the slope by <x, y>; so are all below
        dx, dy = of_user * x + history_sum(y, users, slope), of_item * y
        add_by_item(dy, x, users, slope)
        size = max(budget(x.device).pmf_scores // len(y), 1)
        for part, into in zip(pieces(x, size), pieces(dx, size), strict=True):
            r = (part @ y.T).sigmoid_()
            squared = self.mu * r.square()
            loss += squared.sum()
            slopes = squared.mul_(r.neg_().add_(1))  # mu r^2 (1 - r)
            into += slopes @ y
            dy += slopes.T @ part
        mean = 2 / len(users)
        table.users.grad = torch.zeros_like(table.users).index_copy_(0, users.index, dx.mul_(mean))
        table.items.grad = dy.mul_(mean)
        return loss

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        y = self.table.items if items is None else self.table.items[items]
        return (self.table.rows(users, self.fold_in) @ y.T).sigmoid_()

    def raw_pairs(self, users: Users) -> Tensor:
        return pair_products(self.table.rows(users, self.fold_in), self.table.items, users).sigmoid_()
