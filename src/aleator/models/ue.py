"""UE: the architecture of the uncertainty estimator, used as a model of the expectation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.errors import require
from aleator.kernels.ragged import history_sum
from aleator.models.base import Model
from aleator.models.epochs import Epochs, normal
from aleator.models.squares import Negatives, squared_error
from aleator.options import Among, Between, Ranges
from aleator.training.stop import Stop


@dataclass(kw_only=True, eq=False, repr=False)
class UE(Epochs, Model):
    """r_ui = <p_u, q_i>, p_u = sum of z_i over the history / sqrt(size of the history) (Wang et al., 2023).

    This is an ablation of the AUR paper. It has the architecture and the weights of an estimator (`alpha` on observed
    pairs, 1 on the others), but no uncertainty. The loss is the squared error, so r_ui is near 0 for a pair that is not
    expected and higher for one that is. `self_exclude` leaves an observed item out of the history when its own loss is
    computed. Without it, the model learns to repeat the history. The paper does not have it.
    """

    dim: int = 1024  # dimensions of z and q
    alpha: float = 3.0  # weight of the observed pairs in the loss
    mu: float = 1.0  # weight (or share) of the unobserved pairs in the loss
    self_exclude: bool = True  # whether to leave an observed item out of the history in its own loss
    weight_decay: float = 1.0  # weight decay of AdamW
    check_every: int = 1  # epochs between two checks of the validation Recall@20
    negatives: Negatives = "all"  # unobserved pairs in the loss: all, or drawn for each user or each batch

    z: Tensor = field(init=False)  # [n_items, dim] for the items of a history
    q: Tensor = field(init=False)  # [n_items, dim] for candidates

    learned: ClassVar[tuple[str, ...]] = ("z", "q")
    weighs_negatives: ClassVar[bool] = True
    steps: ClassVar[int] = 16
    ranges: ClassVar[Ranges] = {
        "dim": Among(256, 512, 1024, 2048),
        "alpha": Between(1.0, 20.0, log=True),
        "weight_decay": Between(0.01, 10.0, log=True),
        "lr": Between(2e-4, 2e-3, log=True),
        "self_exclude": Among(True, False),
    }
    paper_ranges: ClassVar[Ranges] = {"alpha": Among(1.0, 2.0, 3.0, 4.0, 5.0)}
    paper: ClassVar[dict[str, Any]] = {
        "alpha": 1.0,
        "self_exclude": False,
        "weight_decay": 0.0,
        "lr": 1e-4,
        "batch_size": 32,
        "max_epochs": 1000,
        "check_every": 2,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        require(self.alpha > 0, f"alpha is {self.alpha}", "give an alpha above 0")
        require(self.weight_decay >= 0, f"weight_decay is {self.weight_decay}", "give at least 0")

    def learn(self, stop: Stop) -> None:
        shape = self.fitted.n_items, self.dim
        self.z, self.q = normal(shape, shape, seed=self.seed, device=self.torch_device)
        self.log = self.minimise(
            self.loss, self.parameters(), self.histories, stop, seed=self.seed, weight_decay=self.weight_decay
        )

    def parameters(self) -> list[Tensor]:
        return [self.z, self.q]

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        """The squared error summed over a batch."""
        less = self._own(users) if self.self_exclude else None
        p, q = self.raw_factors(users)
        return squared_error(
            p, q, users, self.mu, negatives=self.negatives, draw=generator, positive=self.alpha, less=less
        )

    def raw_factors(self, users: Users) -> tuple[Tensor, Tensor]:
        return history_sum(self.z, users, self._share(users)), self.q

    def _share(self, users: Users) -> Tensor:
        """[n] the factor of z_i in p_u, for each item i in the history of u."""
        return users.size.clamp_min(1).to(self.z.dtype).rsqrt()[users.row]

    def _own(self, users: Users) -> Tensor:
        """[n] what each item of a history adds to its own score through p."""
        return (self.z * self.q).sum(1).index_select(0, users.item) * self._share(users)

    def out_of_sample_pairs(self, users: Users) -> Tensor | None:
        """The expectation from the rest of the history, as in training. None without `self_exclude`."""
        if not self.self_exclude:
            return None
        scores = self.raw_pairs(users) - self._own(users)
        return scores if self.map is None else self.map(scores)
