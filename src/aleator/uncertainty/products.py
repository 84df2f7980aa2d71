"""Estimators whose log-variance is an inner product: their training options, and their use of the training loop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.device import budget, fast_bfloat16
from aleator.errors import require
from aleator.options import Between, Ranges
from aleator.training.loop import Log, Loop, Loss, Optimizer
from aleator.training.slices import WHOLE, Slice
from aleator.training.stop import Stop
from aleator.uncertainty.base import Estimator

LABEL = "uncertainty estimator"
Precision = Literal["auto", "float32", "tf32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The values of options that are "auto"."""

    lr: float
    weight_decay: float
    steps: int  # steps of an epoch, if the batch size is "auto"
    patience: int
    check_every: int
    tolerance: float


@dataclass(kw_only=True, eq=False, repr=False)
class ProductEstimator(Estimator):
    """An estimator whose log-variance is an inner product, s_ui = <p_u, q_i>.

    An option that is "auto" takes its value from the schedule of the estimator. `sampled_items` trains each batch on a
    random sample of the items. Observed pairs stay exact, and the others are weighted up. The cost of an epoch then does
    not grow with the catalogue. "auto" samples if the catalogue is large for the device.
    """

    weight_decay: float | Literal["auto"] = "auto"  # weight decay of AdamW
    lr: float | Literal["auto"] = "auto"  # learning rate of AdamW
    batch_size: int | Literal["auto"] = "auto"  # users in a batch
    sampled_items: int | Literal["auto", "all"] = "auto"  # random items that each batch is trained on
    max_epochs: int = 200  # largest number of epochs
    patience: int | Literal["auto"] = "auto"  # training stops after so many checks without a better Recall@20
    check_every: int | Literal["auto"] = "auto"  # epochs between two checks of the validation Recall@20
    tolerance: float | Literal["auto"] = "auto"  # keep the last epoch within this share of the best Recall@20
    precision: Precision = "auto"  # of products with all items; "auto" is bfloat16 if the device is fast at it

    paper: ClassVar[dict[str, Any]] = {
        "weight_decay": 0.0,
        "lr": 1e-4,
        "batch_size": 32,
        "sampled_items": "all",
        "max_epochs": 1000,
        "patience": 10,
        "check_every": 2,
        "tolerance": 0.0,
    }
    ranges: ClassVar[Ranges] = {"lr": Between(5e-5, 5e-3, log=True), "weight_decay": Between(0.0, 0.5)}

    @property
    def spills(self) -> bool:
        """Whether the best weights so far wait on disk."""
        return False

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [self.batch_size, self.sampled_items, self.patience, self.check_every, self.lr, self.max_epochs]
        numbers = [n for n in given if not isinstance(n, str)]
        require(min(numbers) > 0, "a training option is not positive", "give numbers above 0")
        decay = self.weight_decay
        require(decay == "auto" or decay >= 0, f"weight_decay is {decay}", "give a weight_decay of at least 0")

    q: Tensor = field(init=False)  # [n_items, width] of candidates

    own: Slice = field(default=WHOLE, init=False)  # the items whose rows this process has

    @abstractmethod
    def user_factors(self, users: Users) -> Tensor:
        """p [B, width], whose inner products with q are the log-variances."""

    def factors(self, users: Users) -> tuple[Tensor, Tensor] | None:
        return (self.user_factors(users), self.q) if self.own.whole else None

    def log_variance(self, users: Users, items: Tensor | None = None) -> Tensor:
        return self.own.products(self.user_factors(users), self.q, items)

    def observed(self, users: Users) -> Tensor:
        return self.own.pair_products(self.user_factors(users), self.q, users)

    @property
    def slices(self) -> Mapping[str, Slice]:
        return {} if self.own.whole else dict.fromkeys(self.learned, self.own)

    def resolved(self, plan: Schedule) -> Schedule:
        """`plan` with the options that are not "auto" in place of its values."""
        names = ("lr", "weight_decay", "patience", "check_every", "tolerance")
        return replace(plan, **{name: getattr(self, name) for name in names if getattr(self, name) != "auto"})

    def users_at_a_time(self, histories: Histories, plan: Schedule) -> int:
        """The number of users of a batch."""
        return histories.batch_size(plan.steps) if self.batch_size == "auto" else self.batch_size

    def sample_size(self, n_items: int, device: torch.device) -> int:
        """The number of random items that a batch is trained on, or 0 for all items."""
        wanted = self.sampled_items
        if wanted == "auto":
            enough = budget(device).sampled_items
            wanted = enough if n_items > 2 * enough else "all"
        return 0 if wanted == "all" or wanted >= n_items else wanted

    def sample(self, n_items: int, draw: torch.Generator) -> Tensor | None:
        """Sorted random items to train a batch on, or None for all items.

        They are drawn with replacement, and repeats are dropped. All sets of one size are equally likely.
        """
        size = self.sample_size(n_items, draw.device)
        if not size:
            return None
        found: Tensor = torch.unique(torch.randint(n_items, (size,), generator=draw, device=draw.device))
        return found

    def minimise(
        self,
        loss: Loss,
        parameters: Sequence[Tensor],
        histories: Histories,
        stop: Stop,
        plan: Schedule,
        optimizer: Optimizer | None = None,
    ) -> Log:
        """Minimise `loss` in the parameters, in place, with the training options of `plan`."""
        loop = Loop(
            max_epochs=self.max_epochs,
            batch_size=self.users_at_a_time(histories, plan),
            lr=plan.lr,
            device=histories.device,
            weight_decay=plan.weight_decay,
            patience=plan.patience,
            check_every=plan.check_every,
            tolerance=plan.tolerance,
            exact=self.precision == "float32",
            spill=self.spills,
            shard="none" if self.own.whole else "items",
            seed=self.seed,
            label=LABEL,
        )
        log = loop.minimise(loss, parameters, histories, stop, optimizer)
        for parameter in parameters:
            parameter.grad = None
        return log

    def product_dtype(self, p: Tensor) -> torch.dtype:
        """The dtype of products with all items."""
        fast = p.dtype == torch.float32 and (p.is_cuda or fast_bfloat16())
        return torch.bfloat16 if self.precision == "bf16" or (self.precision == "auto" and fast) else p.dtype
