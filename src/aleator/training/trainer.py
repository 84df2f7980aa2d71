"""The one training loop: batches of users from CSR on the device, early stopping, best weights restored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from aleator.errors import AleatorError
from aleator.progress import progress
from aleator.training.histories import Histories, Users, pieces

Precision = Literal["auto", "float32", "tf32"]


@dataclass
class Log:
    """What a training did: its best epoch, and a row for each epoch with the loss and, where checked, the metric."""

    best_epoch: int = 0
    rows: list[dict[str, float]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


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
    precision: Precision = "auto"
    seed: int = 0
    label: str = "training"

    def fit(
        self,
        parameters: Sequence[Tensor],
        loss: Callable[[Users, torch.Generator], Tensor],
        histories: Histories,
        check: Callable[[], float] | None = None,
    ) -> Log:
        """Minimise `loss` (a sum over the users of a batch) over all users with a history."""
        generator = torch.Generator(self.device).manual_seed(self.seed)
        order = torch.Generator().manual_seed(self.seed)
        optimizer = torch.optim.AdamW(
            parameters, lr=self.lr, weight_decay=self.weight_decay, fused=self.device.type == "cuda"
        )
        who = (histories.size > 0).nonzero().squeeze(1)
        # even batches: a small last one would step as far as the others on a handful of users
        size = math.ceil(len(who) / max(math.ceil(len(who) / self.batch_size), 1))
        log, best, stale = Log(), -math.inf, 0
        best_weights = [] if check is None else [p.detach().clone() for p in parameters]
        with progress(self.label, self.max_epochs) as shown:
            for epoch in range(1, self.max_epochs + 1):
                total = torch.zeros((), dtype=torch.float64, device=self.device)
                shuffled = who[torch.randperm(len(who), generator=order).to(self.device)]
                for index in pieces(shuffled, size):
                    with _products(self.precision, self.device):
                        value = loss(histories.batch(index), generator) / len(index)
                        optimizer.zero_grad(set_to_none=True)
                        value.backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                    total += value.detach() * len(index)
                row = {"epoch": epoch, "loss": float(total) / max(len(who), 1)}
                if not math.isfinite(row["loss"]):
                    raise AleatorError(
                        f"{self.label} diverged: the loss is {row['loss']} in epoch {epoch}",
                        f"try a learning rate below {self.lr:g}",
                    )
                if check is not None and (epoch % self.check_every == 0 or epoch == self.max_epochs):
                    row["metric"] = check()
                    if row["metric"] > best:
                        best, log.best_epoch, stale = row["metric"], epoch, 0
                        for kept, now in zip(best_weights, parameters, strict=True):
                            kept.copy_(now.detach())
                    else:
                        stale += 1
                log.rows.append(row)
                shown.advance(1, **{k: f"{v:.4f}" for k, v in row.items() if k != "epoch"})
                if stale >= self.patience:
                    break
        if check is None:
            log.best_epoch = self.max_epochs
        else:
            with torch.no_grad():
                for now, kept in zip(parameters, best_weights, strict=True):
                    now.copy_(kept)
        return log


@contextmanager
def _products(precision: Precision, device: torch.device) -> Iterator[None]:
    """Matrix products in the precision asked for; "auto" is TF32 on a GPU and float32 elsewhere."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
