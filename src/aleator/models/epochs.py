"""Options of models that Adam trains on batches of users, and their use of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from aleator.batches import Histories
from aleator.device import require_tables
from aleator.errors import require
from aleator.options import Configurable
from aleator.training.draws import normal_rows
from aleator.training.loop import Log, Loop, Loss, trainable
from aleator.training.slices import WHOLE, Shard, Slice
from aleator.training.stop import Stop


@dataclass(kw_only=True, eq=False, repr=False)
class Epochs(Configurable):
    """Training options of models that are trained in epochs, with early stopping."""

    lr: float = 1e-3  # learning rate of Adam
    batch_size: int | Literal["auto"] = "auto"  # users in a batch
    max_epochs: int = 200  # largest number of epochs
    patience: int = 10  # training stops after so many checks without a better Recall@20
    check_every: int = 2  # epochs between two checks of the validation Recall@20

    steps: ClassVar[int] = 64  # about so many steps an epoch, if the batch size is "auto"

    @property
    def stops_early(self) -> bool:
        """Whether the number of epochs is chosen on held-out pairs."""
        return True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            min(self.max_epochs, self.patience, self.check_every) >= 1
            and (self.batch_size == "auto" or self.batch_size >= 1)
            and self.lr > 0,
            "a training option is not positive",
            "give numbers above 0",
        )

    def minimise(
        self,
        loss: Loss,
        parameters: Sequence[Tensor],
        histories: Histories,
        stop: Stop,
        *,
        seed: int,
        weight_decay: float = 0.0,
        shard: Shard = "none",
    ) -> Log:
        """Minimise `loss` in the parameters, in place. It is a sum over the users of a batch."""
        loop = Loop(
            max_epochs=self.max_epochs,
            batch_size=histories.batch_size(self.steps) if self.batch_size == "auto" else self.batch_size,
            lr=self.lr,
            device=histories.device,
            weight_decay=weight_decay,
            patience=self.patience,
            check_every=self.check_every,
            seed=seed,
            shard=shard,
            label=type(self).__name__,
        )
        with trainable(parameters):
            return loop.minimise(loss, parameters, histories, stop)


def normal(
    *shapes: Sequence[int], seed: int, device: torch.device, spread: float = 0.01, own: Slice = WHOLE
) -> list[Tensor]:
    """Random parameters to start from, N(0, spread^2) each. Of item tables, the rows of the slice `own`."""
    require_tables(*((own.rows_of(n), *rest) for n, *rest in shapes), device=device)
    generator = torch.Generator().manual_seed(seed)
    drawn = [spread * normal_rows(shape, generator, own, torch.device("cpu")) for shape in shapes]
    return [table.to(device) for table in drawn]
