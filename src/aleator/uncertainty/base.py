"""What every uncertainty estimator is: it learns the log-variance of labels on top of frozen expectations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.options import Configurable
from aleator.training.loop import Log
from aleator.training.stop import Stop
from aleator.uncertainty.objective import Objective


class Expectation(Protocol):
    """What the estimator needs of a fitted model: r of blocks, and of the pairs that the model was fitted on."""

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor: ...
    def score_pairs(self, users: Users) -> Tensor: ...


@dataclass(kw_only=True, eq=False, repr=False)
class Estimator(Configurable, ABC):
    """Estimates s_ui, the log-variance of a label, from a user's history alone. Newcomers need no training."""

    device: str = "auto"
    seed: int = 0

    log: Log | None = field(default=None, init=False)

    @abstractmethod
    def learn(self, histories: Histories, expectation: Expectation, objective: Objective, stop: Stop) -> None:
        """Minimise the objective over all pairs, until `stop` says so."""

    @abstractmethod
    def log_variance(self, users: Users, items: Tensor | None = None) -> Tensor:
        """s, [B, n_items] or [B, len(items)]."""

    def factors(self, users: Users) -> tuple[Tensor, Tensor] | None:
        """p [B, dim] and q [n_items, dim] whose inner products are the log-variances; None where there are none."""
        return None

    @abstractmethod
    def observed(self, users: Users) -> Tensor:
        """s of each item of each history as training sees it, [n]."""

    @abstractmethod
    def sample(self, n_items: int, draw: torch.Generator) -> Tensor | None:
        """Sorted random items to train a batch on; None for all of them."""

    @abstractmethod
    def parameters(self) -> list[Tensor]:
        """What gradients train. The log-variances are differentiable in it."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """What was learned, by the names that it is saved under."""

    @abstractmethod
    def set_tensors(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `tensors`."""
