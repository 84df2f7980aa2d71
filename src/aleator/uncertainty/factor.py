"""The paper's estimator: two item projections, one for histories and one for candidates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Schedule:
    """How training goes on; `steps` are those of an epoch, where the batch size is "auto"."""

    lr: float
    weight_decay: float
    steps: int
    patience: int
    check_every: int
    tolerance: float


SCHEDULES = {
    "random": Schedule(3e-3, 0.3, 16, 8, 2, 0.0),
    "spectral": Schedule(2e-4, 0.0, 12, 5, 1, 0.01),
    "spectral on a sample": Schedule(2e-4, 0.0, 24, 10, 1, 0.01),  # a step is cheap, learns less, and wanders
}


@dataclass(kw_only=True, eq=False, repr=False)
class FactorEstimator(Estimator):
    """s_ui = <p_u, q_i>, p_u = act(sum of z_i over the history / sqrt(size of the history)) (Wang et al., 2023).

    `self_exclude` leaves an observed item out of the history when its own loss is computed: at recommendation time no
    candidate is part of the history. `history_dropout` drops that share of the history items in training.
    `init="spectral"` starts from the leading singular vectors of the interactions, which takes a tenth of the epochs that
    random projections need (the paper's); `tolerance` then keeps the last epoch that is about as good as the best. "auto"
    does so where `dim` is far below the number of items. Other "auto" options follow from the start (`SCHEDULES`).
    `sampled_items` trains each batch on so many random items, with the observed pairs exact and the rest weighted up:
    an epoch then costs the same whatever the catalogue. "auto" samples where the catalogue is large for the device.
    `precision` is that of the products with all items: "auto" takes bfloat16 where the device is fast at it.
    """

    dim: int = 1024
    activation: Literal["linear", "relu", "tanh", "elu"] = "linear"
    init: float | Literal["auto", "spectral"] = "auto"  # a number: the standard deviation of random projections
    self_exclude: bool = True
    history_dropout: float = 0.0
    weight_decay: float | Literal["auto"] = "auto"
    lr: float | Literal["auto"] = "auto"
    batch_size: int | Literal["auto"] = "auto"  # users
    sampled_items: int | Literal["auto", "all"] = "auto"
    max_epochs: int = 200
    patience: int | Literal["auto"] = "auto"  # checks without a better Recall@20
    check_every: int | Literal["auto"] = "auto"  # epochs
    tolerance: float | Literal["auto"] = "auto"  # as a share of the best Recall@20
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
        given = [self.batch_size, self.sampled_items, self.patience, self.check_every, self.lr, self.max_epochs]
        numbers = [n for n in given if not isinstance(n, str)]
        require(min(numbers) > 0, "a training option is not positive", "give numbers above 0")
        decay = self.weight_decay
        require(decay == "auto" or decay >= 0, f"weight_decay is {decay}", "give a weight_decay of at least 0")

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
        spectral = self.init == "spectral" or (self.init == "auto" and self.dim <= n_items // 4)
        plan = self.schedule(spectral, sample > 0)
        size = histories.batch_size(plan.steps) if self.batch_size == "auto" else self.batch_size
        lr = plan.lr
        if sample and spectral:
            # gradients of a row come seldom and weighted up, which Adam's second moment takes for size: too short steps
            lr *= min(math.sqrt(n_items / sample), 4)
        self._fits(n_items, device, checked=check is not None)
        self.z, self.q = parameters = self._start(histories, expectation, objective, spectral)
        rows = None
        if sample and n_items > 3 * (sample + size * float(histories.host_size.double().mean())):
            rows = RowAdam(parameters, lr=lr, weight_decay=plan.weight_decay)  # few rows are in use in a step
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
            weight_decay=plan.weight_decay,
            patience=plan.patience,
            check_every=plan.check_every,
            tolerance=plan.tolerance,
            precision="float32" if self.precision == "float32" else "tf32",
            seed=self.seed,
            label="uncertainty estimator",
        )
        self.log = trainer.fit(parameters, loss, histories, check, rows)
        self.z.grad = self.q.grad = None

    def schedule(self, spectral: bool, sampled: bool) -> Schedule:
        """What was given, and for the rest what suits the start."""
        plan = SCHEDULES["random" if not spectral else "spectral on a sample" if sampled else "spectral"]
        names = ("lr", "weight_decay", "patience", "check_every", "tolerance")
        return replace(plan, **{name: getattr(self, name) for name in names if getattr(self, name) != "auto"})

    @torch.no_grad()
    def _start(
        self, histories: Histories, expectation: Expectation, objective: Objective, spectral: bool
    ) -> tuple[Tensor, Tensor]:
        """z and q before training."""
        generator = torch.Generator(histories.device).manual_seed(self.seed)
        if spectral:
            return spectral_start(histories, self.dim, expectation, objective, generator)
        shape, spread = (histories.n_items, self.dim), 0.01 if isinstance(self.init, str) else self.init
        z, q = (spread * torch.randn(shape, generator=generator, device=histories.device) for _ in range(2))
        return z, q

    def sample_size(self, n_items: int, device: torch.device) -> int:
        """How many random items a batch is trained on; 0 for all of them."""
        wanted = self.sampled_items
        if wanted == "auto":
            wanted = SAMPLED[device.type] if n_items > 2 * SAMPLED[device.type] else "all"
        return 0 if wanted == "all" or wanted >= n_items else wanted

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
