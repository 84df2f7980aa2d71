"""What every uncertainty estimator is: learn the log-variance on top of frozen expectations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.options import Configurable, Ranges
from aleator.training.loop import Log
from aleator.uncertainty.objective import Objective


class Expectation(Protocol):
    """What the estimator needs of a fitted model: r of blocks, and of the pairs it was fitted on."""

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor: ...
    def score_pairs(self, users: Users) -> Tensor: ...


@dataclass(kw_only=True, eq=False, repr=False)
class Estimator(Configurable, ABC):
    """Estimates s_ui from a user's history alone, so that newcomers need no training."""

    device: str = "auto"
    seed: int = 0

    log: Log | None = field(default=None, init=False)

    ranges: ClassVar[Ranges] = {}  # where `aleator tune` searches
    paper_ranges: ClassVar[Ranges] = {}  # and with recipe "paper"

    @abstractmethod
    def train(
        self,
        histories: Histories,
        expectation: Expectation,
        objective: Objective,
        check: Callable[[], float] | None = None,
        epochs: int | None = None,
    ) -> None:
        """Minimise the objective over all pairs; stop early on `check`, or run `epochs` without it."""

    @abstractmethod
    def log_variance(self, users: Users, items: Tensor | None = None) -> Tensor:
        """s, [B, n_items] or [B, len(items)]."""

    @abstractmethod
    def observed(self, users: Users) -> Tensor:
        """s of each item of each history as training sees it, [n]."""

    @abstractmethod
    def sample(self, n_items: int, draw: torch.Generator) -> Tensor | None:
        """Sorted random items to train a batch on; None for all of them."""

    @abstractmethod
    def parameters(self) -> list[Tensor]:
        """What is trained; the log-variances are differentiable in them."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """What was learned."""

    @abstractmethod
    def set_tensors(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `tensors`."""
