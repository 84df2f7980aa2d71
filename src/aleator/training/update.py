"""Update: what came since a fit, and for how long an update trains on."""

from __future__ import annotations

from dataclasses import dataclass

from aleator.data.growth import Growth
from aleator.training.loop import Log


@dataclass(frozen=True)
class Update:
    """New pairs that come to a fitted recommender.

    Attributes:
        growth: All pairs that it knows, and with the new ones.
        since: The numbers of pairs, users and items that earlier updates brought since the fit.
        epochs: The epochs to train on for, if somebody gave them.
    """

    growth: Growth
    since: dict[str, int]
    epochs: int | None = None

    @property
    def until(self) -> dict[str, int]:
        """The numbers of pairs, users and items since the fit, with this update."""
        return {name: n + self.since.get(name, 0) for name, n in self.growth.counts.items()}

    @property
    def n_users(self) -> int:
        """The number of users of the fit. They come first."""
        return self.growth.before.n_users - self.since.get("users", 0)

    @property
    def n_items(self) -> int:
        """The number of items of the fit. They come first."""
        return self.growth.before.n_items - self.since.get("items", 0)

    def due(self, log: Log | None) -> int:
        """For how many epochs to train on what has this log of its fit.

        These are the epochs of the fit times the share of new pairs. So a hundred small updates train for as long as a
        large one, and none of them trains for too long.
        """
        if self.epochs is not None:
            return self.epochs
        best, pairs = 0 if log is None else log.best_epoch, len(self.growth.before) - self.since.get("pairs", 0)
        return best * self.until["pairs"] // pairs - best * self.since.get("pairs", 0) // pairs
