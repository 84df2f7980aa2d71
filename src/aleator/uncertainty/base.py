"""The base of uncertainty estimators. They learn the log-variance of labels on top of a frozen model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.device import require_memory
from aleator.errors import AleatorError
from aleator.options import Configurable
from aleator.ranking.contributions import Terms, leave_one_out
from aleator.training.loop import Log
from aleator.training.slices import Slice
from aleator.training.stop import Stop
from aleator.uncertainty.objective import Objective


class Expectation(Protocol):
    """What the estimator needs of a fitted model: the expectation r of blocks and of observed pairs."""

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor: ...  # [B, n_items] or [B, len(items)]
    def score_pairs(self, users: Users) -> Tensor: ...  # [n], one for each history item


@dataclass(kw_only=True, eq=False, repr=False)
class Estimator(Configurable, ABC):
    """An estimator of s_ui, the log-variance of a label.

    It sees a user only by the history, so newcomers need no training. The uncertainty is sigma = sqrt(exp(s) / K).
    """

    device: str = "auto"  # where to compute; by default that of the AUR
    seed: int = 0  # seed of all random draws; by default that of the AUR

    log: Log | None = field(default=None, init=False)  # of the training, after `learn`

    learned: ClassVar[Mapping[str, str]] = {}  # names and shapes of the tensors that are trained and saved

    def numbers(self, n_items: int) -> int:
        """How many numbers it learns for a catalogue of that size, 0 if that is unknown. `require_memory` asks."""
        return 0

    def bytes_needed(self, n_items: int, device: torch.device, *, checked: bool) -> float:
        """Bytes that training takes for a catalogue of that size. `checked` if the best weights are kept too."""
        copies = 5 + checked  # weights, two moments, gradients, bfloat16 and its products; with checks the best weights
        return 4 * copies * self.numbers(n_items)

    def require_memory(self, n_items: int, device: torch.device, *, checked: bool) -> None:
        """Refuse an estimator that does not fit in memory."""
        needed = self.bytes_needed(n_items, device, checked=checked)
        require_memory(int(needed), device, f"{self!r} for {n_items:,} items")

    @abstractmethod
    def learn(self, histories: Histories, expectation: Expectation, objective: Objective, stop: Stop) -> None:
        """Minimise the objective over all pairs. `stop` says when training ends."""

    def expand(self, n_items: int, before: Histories, after: Histories) -> None:
        """Make what scores need of the items behind the first `n_items`, which are those of the fit, without training.

        `before` are the histories that it knew.
        """
        raise AleatorError(f"a {type(self).__name__} cannot be updated", "fit again")

    def go_on(self, histories: Histories, expectation: Expectation, objective: Objective, stop: Stop) -> None:
        """Minimise the objective from what was learned on. It writes into tensors that `expand` made."""

    @abstractmethod
    def log_variance(self, users: Users, items: Tensor | None = None) -> Tensor:
        """The log-variances s of a batch, [B, n_items] or [B, len(items)]."""

    def factors(self, users: Users) -> tuple[Tensor, Tensor] | None:
        """p [B, dim] and q [n_items, dim], whose inner products are the log-variances. None if there are none."""
        return None

    def terms(self, users: Users, items: Tensor) -> Terms:
        """What each item of a history adds to the log-variances of its user's own items (dense ids [B, k])."""
        return Terms(leave_one_out(self.log_variance, users, items), exact=False)

    @abstractmethod
    def observed(self, users: Users) -> Tensor:
        """s of each item of each history, as training computes it, [n]."""

    @abstractmethod
    def sample(self, n_items: int, draw: torch.Generator) -> Tensor | None:
        """Sorted random items to train a batch on, or None for all items."""

    def parameters(self) -> list[Tensor]:
        """What gradients train. The log-variances are differentiable in it."""
        return list(self.tensors().values())

    def tensors(self) -> dict[str, Tensor]:
        """What was learned, by the names that it is saved under."""
        return {name: getattr(self, name) for name in self.learned}

    def set_tensors(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `tensors`."""
        for name in self.learned:
            setattr(self, name, tensors[name])

    def take_rows(self, n_items: int, tensors: Mapping[str, Tensor]) -> int:
        """The rows of item tables in `tensors`: all items, unless tables that are shared out come from a journal."""
        return n_items

    @property
    def slices(self) -> Mapping[str, Slice]:
        """The tensors that are shared out over several processes, by name."""
        return {}

    def forget(self) -> None:
        """Free the memory of what was learned."""
        for name in self.learned:
            delattr(self, name)
