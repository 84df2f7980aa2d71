"""The one training loop: batches of users from CSR on the device, early stopping, best weights restored.

A step makes no round trip to the host: batches are cut on the host by sizes that are known there, the loss is added up on
the device, and it is read once an epoch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.errors import AleatorError
from aleator.progress import progress
from aleator.training.row_adam import RowAdam

Precision = Literal["auto", "float32", "tf32", "bf16"]
Loss = Callable[[Users, torch.Generator], Tensor]  # summed over the users of a batch
Watcher = Callable[[str, int, float], None]  # gets the label of a training, the epoch and the metric
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


class Optimizer(Protocol):
    """What takes the steps: one of PyTorch's, or `RowAdam`."""

    def zero_grad(self, set_to_none: bool = True) -> None: ...
    def step(self) -> Any: ...


@dataclass
class Log:
    """What a training did: its best epoch, and a row for each epoch with the loss and, where checked, the metric."""

    best_epoch: int = 0
    rows: list[dict[str, float]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list, compare=False)  # of each epoch without its check; not saved

    def to_dict(self) -> dict[str, Any]:
        return {"best_epoch": self.best_epoch, "rows": self.rows}


@dataclass
class Trainer:
    """Adam(W) over batches of users. `check` gives the metric to maximise; without it all `max_epochs` are run."""

    max_epochs: int
    batch_size: int
    lr: float
    device: torch.device
    weight_decay: float = 0.0
    patience: int = 10  # checks without a better metric before stopping
    check_every: int = 1  # epochs
    tolerance: float = 0.0  # the last epoch within that share of the best metric is kept, not the very best
    precision: Precision = "auto"
    clip: float | None = None  # the largest norm of a gradient
    from_start: bool = False  # whether where it starts may be the best, as epoch 0
    seed: int = 0
    label: str = "training"

    def fit(
        self,
        parameters: Sequence[Tensor],
        loss: Loss,
        histories: Histories,
        check: Callable[[], float] | None = None,
        optimizer: Optimizer | None = None,
    ) -> Log:
        """Minimise `loss` (a sum over the users of a batch) over all users with a history; by AdamW if not told how.

        A loss without a graph has filled the gradients itself, with those of its mean over the users.
        """
        generator = torch.Generator(self.device).manual_seed(self.seed)
        order = torch.Generator().manual_seed(self.seed)
        optimizer = optimizer or torch.optim.AdamW(parameters, lr=self.lr, weight_decay=self.weight_decay, fused=True)
        who = (histories.host_size > 0).nonzero().squeeze(1)
        # even batches: a small last one would step as far as the others on a handful of users
        size = math.ceil(len(who) / max(math.ceil(len(who) / self.batch_size), 1))
        log, best, stale = Log(), -math.inf, 0
        best_weights = [] if check is None else [p.detach().clone() for p in parameters]
        if check is not None and self.from_start:
            best = check()
        with progress(self.label, self.max_epochs) as shown:
            for epoch in range(1, self.max_epochs + 1):
                start = time.perf_counter()
                total = torch.zeros((), dtype=torch.float64, device=self.device)
                shuffled = who[torch.randperm(len(who), generator=order)]
                for index in pieces(shuffled, size):
                    with products(self.precision, self.device):
                        optimizer.zero_grad(set_to_none=True)
                        value = loss(histories.batch(index, trained=True), generator) / len(index)
                        if value.requires_grad:
                            value.backward()  # type: ignore[no-untyped-call]
                    if self.clip is not None:
                        torch.nn.utils.clip_grad_norm_(parameters, self.clip)
                    optimizer.step()
                    total += value.detach() * len(index)
                row = {"epoch": epoch, "loss": float(total) / max(len(who), 1)}
                log.seconds.append(time.perf_counter() - start)
                if not math.isfinite(row["loss"]):
                    raise AleatorError(
                        f"{self.label} diverged: the loss is {row['loss']} in epoch {epoch}",
                        f"try a learning rate below {self.lr:g}",
                    )
                if check is not None and (epoch % self.check_every == 0 or epoch == self.max_epochs):
                    if isinstance(optimizer, RowAdam):
                        optimizer.settle()
                    row["metric"] = check()
                    if (watcher := _watcher.get()) is not None:
                        watcher(self.label, epoch, row["metric"])
                    better = row["metric"] > best
                    best, stale = max(best, row["metric"]), 0 if better else stale + 1
                    if better or (self.tolerance and row["metric"] >= (1 - self.tolerance) * best):
                        log.best_epoch = epoch
                        for kept, now in zip(best_weights, parameters, strict=True):
                            kept.copy_(now.detach())
                log.rows.append(row)
                shown.advance(1, **{k: f"{v:.4f}" for k, v in row.items() if k != "epoch"})
                if stale >= self.patience:
                    break
        if isinstance(optimizer, RowAdam):
            optimizer.settle()
        if check is None:
            log.best_epoch = self.max_epochs
        else:
            with torch.no_grad():
                for now, kept in zip(parameters, best_weights, strict=True):
                    now.copy_(kept)
        return log


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Within it every training tells `watcher` of each check; what that raises ends the training."""
    before = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(before)


@contextmanager
def products(precision: Precision, device: torch.device) -> Iterator[None]:
    """Matrix products in the precision asked for; "auto" is TF32 on a GPU and float32 elsewhere, "bf16" is autocast."""
    if precision == "bf16":
        with torch.autocast(device.type, torch.bfloat16):
            yield
        return
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
