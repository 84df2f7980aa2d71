"""Models that are trained by Adam over batches of users: their options, and the way through the one training loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from aleator.errors import require
from aleator.evaluation.held_out import HeldOut
from aleator.models.base import Model
from aleator.training.loop import Loss, Trainer


@dataclass(kw_only=True, eq=False, repr=False)
class GradientModel(Model):
    """A model with a loss. `batch_size` counts users; "auto" makes about `steps` steps an epoch."""

    lr: float = 1e-3
    batch_size: int | Literal["auto"] = "auto"
    max_epochs: int = 200
    patience: int = 10  # checks without a better Recall@20
    check_every: int = 2  # epochs

    steps: ClassVar[int] = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            min(self.max_epochs, self.patience, self.check_every) >= 1
            and (self.batch_size == "auto" or self.batch_size >= 1)
            and self.lr > 0,
            "a training option is not positive",
            "give numbers above 0",
        )

    @property
    def stops_early(self) -> bool:
        return True

    def normal(self, *shapes: Sequence[int], spread: float = 0.01) -> list[Tensor]:
        """Parameters to start from, N(0, spread^2) each, drawn by the seed."""
        generator = torch.Generator().manual_seed(self.seed)
        drawn = [spread * torch.randn(tuple(shape), generator=generator) for shape in shapes]
        return [table.to(self.torch_device) for table in drawn]

    def optimise(
        self,
        parameters: Sequence[Tensor],
        loss: Loss,
        check: HeldOut | None,
        epochs: int | None,
        weight_decay: float = 0.0,
    ) -> None:
        """Minimise `loss` (summed over the users of a batch), stopping as `learn` says; then publish."""
        for parameter in parameters:
            parameter.requires_grad_()
        trainer = Trainer(
            max_epochs=epochs or self.max_epochs,
            batch_size=self.histories.batch_size(self.steps) if self.batch_size == "auto" else self.batch_size,
            lr=self.lr,
            device=self.torch_device,
            weight_decay=weight_decay,
            patience=self.patience,
            check_every=self.check_every,
            seed=self.seed,
            label=type(self).__name__,
        )
        self.log = trainer.fit(parameters, loss, self.histories, self.checker(check))
        for parameter in parameters:
            parameter.requires_grad_(False).grad = None
        with torch.no_grad():
            self.publish()
