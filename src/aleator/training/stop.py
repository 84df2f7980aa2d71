"""Stop: when a training ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Stop:
    """When a training ends: by early stopping on a metric, or after a number of epochs.

    With a `metric`, training checks it, stops once it no longer rises, and restores the best weights. Without one,
    training runs for exactly `epochs`.
    """

    metric: Callable[[], float] | None = None  # higher is better
    epochs: int | None = None  # None means the `max_epochs` of the options
