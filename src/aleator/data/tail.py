"""Tail: which items are long-tail, as a rule over popularity that never splits items of equal popularity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aleator.errors import AleatorError, require


@dataclass(frozen=True)
class Tail:
    """A rule: `Tail.mass(0.5)`, `Tail.count(56)`, `Tail.items(0.85)`.

    >>> popularity = np.array([1, 1, 2, 4, 8])
    >>> Tail.mass(0.5).cut(popularity), Tail.mass(0.5).mask(popularity).tolist()
    (4, [True, True, True, True, False])
    >>> print(Tail.count(2).describe(popularity))
    popularity <= 2: 60.00 % of the items, 25.0 % of the interactions
    """

    rule: Literal["mass", "count", "items"]
    value: float

    @classmethod
    def mass(cls, share: float) -> Tail:
        """The least popular items, by whole popularity levels, that hold at most `share` of the interactions."""
        require(0 < share < 1, f"the tail's mass is {share}", "give a share between 0 and 1")
        return cls("mass", share)

    @classmethod
    def count(cls, most: int) -> Tail:
        """The items with at most `most` interactions."""
        whole = most >= 0 and float(most).is_integer()
        require(whole, f"the tail's count is {most}", "give a whole number of at least 0")
        return cls("count", int(most))

    @classmethod
    def items(cls, share: float) -> Tail:
        """The least popular items, by whole popularity levels, that are at most `share` of the items."""
        require(0 < share < 1, f"the tail's share of the items is {share}", "give a share between 0 and 1")
        return cls("items", share)

    @classmethod
    def parse(cls, text: str) -> Tail:
        """From "mass:0.5", "count:56" or "items:0.85", as the command line takes it."""
        rule, _, value = text.partition(":")
        makers: dict[str, Any] = {"mass": cls.mass, "count": cls.count, "items": cls.items}
        try:
            made: Tail = makers[rule](float(value))
        except (KeyError, ValueError):
            raise AleatorError(f"'{text}' is not a tail", "write mass:0.5, count:56 or items:0.85") from None
        return made

    def cut(self, popularity: NDArray[Any]) -> int:
        """The highest popularity that is still tail; -1 where no level fits."""
        if self.rule == "count":
            return int(self.value)
        levels, items = np.unique(popularity, return_counts=True)
        held = np.cumsum(levels * items if self.rule == "mass" else items)
        within = levels[held <= self.value * held[-1] * (1 + 1e-12)]  # 0.29 * 100 is less than 29
        return int(within[-1]) if len(within) else -1

    def mask(self, popularity: NDArray[Any]) -> NDArray[np.bool_]:
        """[n_items] true for tail items."""
        return popularity <= self.cut(popularity)

    def describe(self, popularity: NDArray[Any]) -> str:
        """What the rule means on these counts, for people."""
        tail = self.mask(popularity)
        if not tail.any():
            return "no item: the least popular level holds more already"
        share = popularity[tail].sum() / max(popularity.sum(), 1)
        return (
            f"popularity <= {self.cut(popularity)}: {tail.mean():.2%} of the items, {share:.1%} of the interactions"
        ).replace("%", " %")

    def __str__(self) -> str:
        return f"{self.rule}:{self.value}"


DEFAULT_TAIL = Tail.mass(0.5)
