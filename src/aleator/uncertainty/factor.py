"""The paper's estimator: two item projections, one for histories and one for candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.errors import require
from aleator.training.histories import Histories, Users, resolve_device
from aleator.training.trainer import Precision, Trainer
from aleator.uncertainty.base import Estimator, Expectation
from aleator.uncertainty.objective import Objective

_MEMORY = {"cpu": 2 << 30, "cuda": 32 << 30}  # bytes that a batch of "auto" size may take in training
_COPIES = 8  # blocks of users x items alive at once: s, r and what the gradient keeps
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: x,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "elu": F.elu,
}


@dataclass(kw_only=True, eq=False, repr=False)
class FactorEstimator(Estimator):
    """s_ui = <p_u, q_i>, p_u = act(sum of z_i over the history / sqrt(size of the history)) (Wang et al., 2023).

    `self_exclude` leaves an observed item out of the history when its own loss is computed: at recommendation time no
    candidate is part of the history. `history_dropout` drops that share of the history items in training.
    """

    dim: int = 1024
    activation: Literal["linear", "relu", "tanh", "elu"] = "linear"
    init: float = 0.01  # standard deviation of both projections at the start
    self_exclude: bool = True
    history_dropout: float = 0.0
    weight_decay: float = 0.3
    lr: float = 3e-3
    batch_size: int | Literal["auto"] = "auto"  # users; "auto" makes about 16 steps an epoch
    max_epochs: int = 200
    patience: int = 8
    check_every: int = 2
    precision: Precision = "auto"

    paper: ClassVar[dict[str, Any]] = {
        "self_exclude": False,
        "history_dropout": 0.0,
        "weight_decay": 0.0,
        "lr": 1e-4,
        "batch_size": 32,
        "max_epochs": 1000,
        "patience": 10,
    }

    def __post_init__(self) -> None:
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        require(0 <= self.history_dropout < 1, f"history_dropout is {self.history_dropout}", "give a share below 1")
        positive = [self.max_epochs, self.patience, self.check_every, self.lr]
        if self.batch_size != "auto":
            positive.append(self.batch_size)
        require(min(positive) > 0, "a training option is not positive", "give numbers above 0")
        require(self.weight_decay >= 0, f"weight_decay is {self.weight_decay}", "give a weight_decay of at least 0")

    def train(
        self,
        histories: Histories,
        expectation: Expectation,
        objective: Objective,
        check: Callable[[], float] | None = None,
        epochs: int | None = None,
    ) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        device = resolve_device(self.device)
        self.z, self.q = (
            (self.init * torch.randn(histories.n_items, self.dim, generator=generator)).to(device).requires_grad_()
            for _ in range(2)
        )

        def loss(users: Users, draw: torch.Generator) -> Tensor:
            with torch.no_grad():
                r = expectation(users)
            return self.loss(users, r, objective, draw)

        trainer = Trainer(
            max_epochs=epochs or self.max_epochs,
            batch_size=self._batch_size(histories),
            lr=self.lr,
            device=device,
            weight_decay=self.weight_decay,
            patience=self.patience,
            check_every=self.check_every,
            precision=self.precision,
            seed=self.seed,
            label="uncertainty estimator",
        )
        parameters = [self.z, self.q]
        self.log = trainer.fit(parameters, loss, histories, check)
        self.z, self.q = (p.detach() for p in parameters)

    def _batch_size(self, histories: Histories) -> int:
        if self.batch_size != "auto":
            return self.batch_size
        fits = int(_MEMORY[histories.device.type] // (_COPIES * 4 * histories.n_items))
        return max(min(max(int((histories.size > 0).sum()) // 16, 16), 2048, fits), 1)

    def loss(self, users: Users, r: Tensor, objective: Objective, draw: torch.Generator | None = None) -> Tensor:
        """The objective summed over a batch of users and all items; r [B, n_items] is overwritten."""
        keep = self._keep(users, draw)
        summed, scale = self._history(users, keep)
        s = self.act(summed * scale[:, None]) @ self.q.T
        at = (users.row, users.item)
        s_observed = self._without_self(users, keep, summed, scale, s[at]) if self.self_exclude else s[at]
        observed = (objective.alpha * users.weight * objective.pairs(r[at] - 1, s_observed)).sum()
        s[at] = 0  # with r = s = 0 the unobserved loss vanishes there
        r[at] = 0
        return objective.pairs(r, s).sum() + observed

    def _without_self(self, users: Users, keep: Tensor, summed: Tensor, scale: Tensor, s: Tensor) -> Tensor:
        """s of the observed pairs with the item itself taken out of the history, [n].

        By `index_select`, not `x[index]`: the gradient of the latter adds up in any order on more than one thread.
        """
        if self.activation == "linear":
            own = (self.z * self.q).sum(1).index_select(0, users.item)
            return s - own * keep * scale[users.row]
        own, theirs = (x.index_select(0, users.item) for x in (self.z, self.q))
        rest = (summed.index_select(0, users.row) - own * keep[:, None]) * scale[users.row, None]
        return (self.act(rest) * theirs).sum(1)

    def _keep(self, users: Users, draw: torch.Generator | None) -> Tensor:
        if self.history_dropout == 0 or draw is None:
            return torch.ones(len(users.item), dtype=self.z.dtype, device=self.z.device)
        drawn = torch.rand(len(users.item), generator=draw, device=self.z.device)
        return (drawn >= self.history_dropout).to(self.z.dtype)

    def _history(self, users: Users, keep: Tensor) -> tuple[Tensor, Tensor]:
        """The summed z of each history [B, dim] and 1 / sqrt of how many items were summed [B]."""
        offsets = users.size.cumsum(0) - users.size
        summed = F.embedding_bag(users.item, self.z, offsets, mode="sum", per_sample_weights=keep)
        count = torch.zeros(len(users), dtype=keep.dtype, device=keep.device).index_add_(0, users.row, keep)
        return summed, count.clamp_min(1).rsqrt()

    def act(self, x: Tensor) -> Tensor:
        return ACTIVATIONS[self.activation](x)

    def factors(self, users: Users) -> tuple[Tensor, Tensor]:
        """p [B, dim] and q [n_items, dim], whose inner products are the log-variances."""
        summed, scale = self._history(users, self._keep(users, None))
        return self.act(summed * scale[:, None]), self.q

    def log_variance(self, users: Users, items: Tensor | None = None) -> Tensor:
        p, q = self.factors(users)
        return p @ (q if items is None else q[items]).T

    def tensors(self) -> dict[str, Tensor]:
        return {"z": self.z, "q": self.q}

    def set_tensors(self, tensors: dict[str, Tensor]) -> None:
        self.z, self.q = tensors["z"], tensors["q"]
