"""The one training loop: batches of users, early stopping, and the best weights at the end.

A step needs no round trip between the host and the device. The host knows the sizes of the histories and cuts the
batches by them. The device adds up the loss, and the host reads it once an epoch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.errors import require
from aleator.training.stop import Stop
from aleator.training.watch import stage

Loss = Callable[[Users, torch.Generator], Tensor]
"""The loss of a batch, summed over its users. The generator is for what is drawn at random.

It has an autograd graph. Or it has none, and has written gradients by hand: those of its mean over the users.
"""


class Optimizer(Protocol):
    """An optimiser, as the loop uses it."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""

    def step(self) -> Any:
        """Move the parameters by their gradients."""

    def settle(self) -> None:
        """Apply all updates that were deferred. The loop calls this before parameters are read."""


class AdamW(torch.optim.AdamW):
    """PyTorch's AdamW, which defers no updates."""

    def settle(self) -> None:
        """Do nothing: no updates are deferred."""


@dataclass
class Log:
    """The log of a training."""

    best_epoch: int = 0
    rows: list[dict[str, float]] = field(default_factory=list)  # epoch, loss, and the metric if it was checked
    seconds: list[float] = field(default_factory=list, compare=False)  # time of each epoch without its check; not saved

    def to_dict(self) -> dict[str, Any]:
        return {"best_epoch": self.best_epoch, "rows": self.rows}


def epochs_of(log: Log | None) -> int | None:
    """How many epochs a refit takes, at least one. None for what does not train in epochs."""
    return None if log is None else max(log.best_epoch, 1)


@dataclass(kw_only=True)
class Loop:
    """The options of a training: Adam(W) over batches of users, with early stopping."""

    max_epochs: int
    batch_size: int  # users
    lr: float
    device: torch.device
    weight_decay: float = 0.0
    patience: int = 10  # training stops after so many checks without a better metric
    check_every: int = 1  # epochs between two checks
    tolerance: float = 0.0  # keep the last epoch whose metric is within this share of the best
    exact: bool = False  # whether a GPU multiplies matrices in float32, instead of TF32
    clip: float | None = None  # the largest norm of a gradient
    from_start: bool = False  # whether the parameters before training may be the best, as epoch 0
    seed: int = 0
    label: str = "training"  # the name in progress and messages

    def minimise(
        self,
        loss: Loss,
        parameters: Sequence[Tensor],
        histories: Histories,
        stop: Stop,
        optimizer: Optimizer | None = None,
    ) -> Log:
        """Minimise `loss` in the parameters, in place, over all users with a history. AdamW is the default optimiser.

        `loss` is a sum over the users of a batch, as `Loss` says.
        """
        optimizer = optimizer or AdamW(parameters, lr=self.lr, weight_decay=self.weight_decay, fused=True)
        batches, draws = _Batches(histories, self), torch.Generator(self.device).manual_seed(self.seed)
        best, log, last = _Best(self, parameters, stop), Log(), self.max_epochs if stop.epochs is None else stop.epochs
        with stage(self.label, last) as told:
            for epoch in range(1, last + 1):
                start = time.perf_counter()
                row = {"epoch": epoch, "loss": self._pass(loss, parameters, batches, draws, optimizer)}
                log.seconds.append(time.perf_counter() - start)
                diverged = f"{self.label} diverged: the loss is {row['loss']} in epoch {epoch}"
                require(math.isfinite(row["loss"]), diverged, f"try a learning rate below {self.lr:g}")
                if stop.metric is not None and (epoch % self.check_every == 0 or epoch == last):
                    optimizer.settle()
                    row["metric"] = stop.metric()
                    best.see(epoch, row["metric"])
                log.rows.append(row)
                told.advance(row["loss"], row.get("metric"))
                if best.stale >= self.patience:
                    break
        optimizer.settle()
        log.best_epoch = last if stop.metric is None else best.restore()
        return log

    def _pass(
        self,
        loss: Loss,
        parameters: Sequence[Tensor],
        batches: _Batches,
        draws: torch.Generator,
        optimizer: Optimizer,
    ) -> float:
        """Take a step for each batch. Returns the mean loss over users."""
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for users in batches:
            with products(self.exact, self.device):
                optimizer.zero_grad(set_to_none=True)
                mean = loss(users, draws) / len(users)
                if mean.requires_grad:
                    mean.backward()  # type: ignore[no-untyped-call]
            if self.clip is not None:
                torch.nn.utils.clip_grad_norm_(parameters, self.clip)
            optimizer.step()
            total += mean.detach() * len(users)
        return float(total) / max(len(batches.who), 1)


class _Batches:
    """All users with a history, in random batches of equal size, in another order each time."""

    def __init__(self, histories: Histories, loop: Loop) -> None:
        self.histories, self.order = histories, torch.Generator().manual_seed(loop.seed)
        self.who = (histories.host_size > 0).nonzero().squeeze(1)
        # Batches have equal sizes: a small last batch would take a step as long as the others, from a few users.
        self.size = math.ceil(len(self.who) / max(math.ceil(len(self.who) / loop.batch_size), 1))

    def __iter__(self) -> Iterator[Users]:
        shuffled = self.who[torch.randperm(len(self.who), generator=self.order)]
        return (self.histories.batch(index, trained=True) for index in pieces(shuffled, self.size))


class _Best:
    """The best weights so far, and how many checks ago the metric last rose (`stale`)."""

    def __init__(self, loop: Loop, parameters: Sequence[Tensor], stop: Stop) -> None:
        self.parameters, self.tolerance = parameters, loop.tolerance
        self.epoch, self.metric, self.stale = 0, -math.inf, 0
        self.weights = [] if stop.metric is None else [p.detach().clone() for p in parameters]
        if stop.metric is not None and loop.from_start:
            self.metric = stop.metric()

    def see(self, epoch: int, metric: float) -> None:
        """Keep the weights of this epoch if they are the best, or within the tolerance of the best."""
        better = metric > self.metric
        self.metric = max(self.metric, metric)
        self.stale = 0 if better else self.stale + 1
        if better or (self.tolerance and metric >= (1 - self.tolerance) * self.metric):
            self.epoch = epoch
            for kept, now in zip(self.weights, self.parameters, strict=True):
                kept.copy_(now.detach())

    @torch.no_grad()
    def restore(self) -> int:
        """Write the best weights back into the parameters. Returns their epoch."""
        for now, kept in zip(self.parameters, self.weights, strict=True):
            now.copy_(kept)
        return self.epoch


@contextmanager
def trainable(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Inside, autograd tracks the parameters. Afterwards they are plain tensors without gradients."""
    for parameter in parameters:
        parameter.requires_grad_()
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(False).grad = None


@contextmanager
def products(exact: bool, device: torch.device) -> Iterator[None]:
    """Inside, a GPU multiplies matrices in float32 if `exact`, else in TF32."""
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda":
        torch.set_float32_matmul_precision("highest" if exact else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
