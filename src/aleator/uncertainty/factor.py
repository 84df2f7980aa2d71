"""The paper's estimator: two item projections, one for histories and one for candidates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.errors import require
from aleator.training import memory
from aleator.training.histories import Histories, Users, resolve_device
from aleator.training.row_adam import RowAdam
from aleator.training.trainer import Precision, Trainer
from aleator.uncertainty.base import Estimator, Expectation
from aleator.uncertainty.factor_step import Step, Tables, history
from aleator.uncertainty.objective import Objective
from aleator.uncertainty.spectral import spectral_start

SAMPLED = {"cpu": 2048, "cuda": 1 << 17}  # items of a sample; catalogues of up to twice that are taken whole
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
    `init="spectral"` starts from the leading singular vectors of the interactions, which takes a tenth of the epochs that
    random projections need (the paper's); `tolerance` then keeps the last epoch that is about as good as the best.
    `sampled_items` trains each batch on so many random items, with the observed pairs exact and the rest weighted up:
    an epoch then costs the same whatever the catalogue. "auto" samples where the catalogue is large for the device.
    `precision` is that of the products with all items: "auto" takes bfloat16 where the device is fast at it.
    """

    dim: int = 1024
    activation: Literal["linear", "relu", "tanh", "elu"] = "linear"
    init: float | Literal["spectral"] = "spectral"  # or the standard deviation of random projections
    self_exclude: bool = True
    history_dropout: float = 0.0
    weight_decay: float = 0.0
    lr: float = 2e-4
    batch_size: int | Literal["auto"] = "auto"  # users; "auto" makes about 12 steps an epoch, 24 on a sample
    sampled_items: int | Literal["auto", "all"] = "auto"
    max_epochs: int = 100
    patience: int | Literal["auto"] = "auto"  # checks without a better one; "auto" is 5, and 10 on a sample
    check_every: int = 1
    tolerance: float = 0.01  # as a share of the best Recall@20
    precision: Precision = "auto"

    paper: ClassVar[dict[str, Any]] = {
        "init": 0.01,
        "self_exclude": False,
        "history_dropout": 0.0,
        "weight_decay": 0.0,
        "lr": 1e-4,
        "batch_size": 32,
        "sampled_items": "all",
        "max_epochs": 1000,
        "patience": 10,
        "check_every": 2,
        "tolerance": 0.0,
    }

    def __post_init__(self) -> None:
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        require(0 <= self.history_dropout < 1, f"history_dropout is {self.history_dropout}", "give a share below 1")
        given = [n for n in (self.batch_size, self.sampled_items, self.patience) if isinstance(n, int)]
        positive = [self.max_epochs, self.check_every, self.lr, *given]
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
        device, n_items = resolve_device(self.device), histories.n_items
        sample = self.sample_size(n_items, device)
        size = self._batch_size(histories, sampled=sample > 0)
        # a row's gradients come seldom and weighted up, which Adam's second moment takes for size: steps are too short
        lr = self.lr * min(math.sqrt(n_items / sample), 4) if sample else self.lr
        self._fits(n_items, device, checked=check is not None)
        self.z, self.q = parameters = self._start(histories, expectation, objective)
        rows = None
        if sample and n_items > 8 * (sample + size * float(histories.host_size.double().mean())):
            rows = RowAdam(parameters, lr=lr, weight_decay=self.weight_decay)  # few rows are in use in a step
        gradients = [] if rows else [torch.empty_like(p) for p in parameters]

        def loss(users: Users, draw: torch.Generator) -> Tensor:
            items = None
            if sample:  # drawn with repeats, each taken once: all sets of that size are equally likely
                items = _distinct(torch.randint(n_items, (sample,), generator=draw, device=device))
            if rows is not None and items is not None:
                used = _distinct(torch.cat([users.item, items]))
                z, q, dz, dq = rows.rows(used)
                tables = Tables(z, q, dz, dq, used)
            else:
                tables = Tables(*parameters, *gradients)
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.grad = gradient
            return self.step(users, expectation, objective, tables, draw).run(n_items, items)

        trainer = Trainer(
            max_epochs=epochs or self.max_epochs,
            batch_size=size,
            lr=lr,
            device=device,
            weight_decay=self.weight_decay,
            patience=self.patience if self.patience != "auto" else 10 if sample else 5,
            check_every=self.check_every,
            tolerance=self.tolerance,
            precision="float32" if self.precision == "float32" else "tf32",
            seed=self.seed,
            label="uncertainty estimator",
        )
        self.log = trainer.fit(parameters, loss, histories, check, rows)
        self.z.grad = self.q.grad = None

    @torch.no_grad()
    def _start(self, histories: Histories, expectation: Expectation, objective: Objective) -> tuple[Tensor, Tensor]:
        """z and q before training."""
        generator = torch.Generator(histories.device).manual_seed(self.seed)
        if self.init == "spectral":
            return spectral_start(histories, self.dim, expectation, objective, generator)
        shape = (histories.n_items, self.dim)
        z, q = (self.init * torch.randn(shape, generator=generator, device=histories.device) for _ in range(2))
        return z, q

    def sample_size(self, n_items: int, device: torch.device) -> int:
        """How many random items a batch is trained on; 0 for all of them."""
        wanted = self.sampled_items
        if wanted == "auto":
            wanted = SAMPLED[device.type] if n_items > 2 * SAMPLED[device.type] else "all"
        return 0 if wanted == "all" or wanted >= n_items else wanted

    def _batch_size(self, histories: Histories, sampled: bool) -> int:
        if self.batch_size != "auto":
            return self.batch_size
        return histories.batch_size(24 if sampled else 12)  # a step on a sample is cheap, and learns less

    def _fits(self, n_items: int, device: torch.device, checked: bool) -> None:
        """Refuse what does not fit before anything is computed."""
        copies = 5 + checked  # weights, two moments, gradients, bfloat16 and its products; the best weights
        needed = 2 * copies * 4 * n_items * self.dim
        memory.require_free(needed, device, f"an estimator of {n_items} items and dim {self.dim}")

    def step(
        self,
        users: Users,
        expectation: Expectation,
        objective: Objective,
        tables: Tables,
        draw: torch.Generator | None = None,
    ) -> Step:
        """One training step on a batch of users."""
        return Step(
            users,
            self._keep(users, draw),
            tables,
            expectation,
            objective,
            activation=None if self.activation == "linear" else ACTIVATIONS[self.activation],
            self_exclude=self.self_exclude,
            dtype=self._low(tables.z),
        )

    def _keep(self, users: Users, draw: torch.Generator | None) -> Tensor:
        if self.history_dropout == 0 or draw is None:
            return torch.ones(len(users.item), dtype=self.z.dtype, device=self.z.device)
        drawn = torch.rand(len(users.item), generator=draw, device=self.z.device)
        return (drawn >= self.history_dropout).to(self.z.dtype)

    def _low(self, p: Tensor) -> torch.dtype:
        """The type of the products with the items."""
        fast = p.dtype == torch.float32 and (p.is_cuda or memory.fast_bfloat16())
        return torch.bfloat16 if self.precision == "bf16" or (self.precision == "auto" and fast) else p.dtype

    def factors(self, users: Users) -> tuple[Tensor, Tensor]:
        """p [B, dim] and q [n_items, dim], whose inner products are the log-variances."""
        summed, scale = history(self.z, users, self._keep(users, None))
        return ACTIVATIONS[self.activation](summed * scale[:, None]), self.q

    def log_variance(self, users: Users, items: Tensor | None = None) -> Tensor:
        p, q = self.factors(users)
        return p @ (q if items is None else q[items]).T

    def tensors(self) -> dict[str, Tensor]:
        return {"z": self.z, "q": self.q}

    def set_tensors(self, tensors: dict[str, Tensor]) -> None:
        self.z, self.q = tensors["z"], tensors["q"]


def _distinct(index: Tensor) -> Tensor:
    found: Tensor = torch.unique(index)
    return found
