"""Stop: when a training ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Stop:
    """When a training ends: by early stopping on a metric, or after a number of epochs.

    With a `metric` (higher is better), training checks it as it goes on, stops once it no longer rises, and restores
    the best weights. Without one, training runs for exactly `epochs`.
    """

    metric: Callable[[], float] | None = None
    epochs: int | None = None  # None: as many as the options allow
