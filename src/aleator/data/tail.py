"""Tail: a rule that says which items are long-tail items. It never separates items of equal popularity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aleator.errors import AleatorError, require


@dataclass(frozen=True)
class Tail:
    """A rule that divides the items into tail and head by their popularity.

    The popularity of an item is its number of training interactions (train and validation together). Make a rule with
    `Tail.mass(0.5)`, `Tail.count(56)` or `Tail.items(0.85)`. The default everywhere is `Tail.mass(0.5)`.

    Attributes:
        rule: "mass", "count" or "items".
        value: The share or the count that belongs to the rule.

    Example:
        >>> popularity = np.array([1, 1, 2, 4, 8])
        >>> Tail.mass(0.5).cut(popularity)
        4
        >>> Tail.mass(0.5).mask(popularity).tolist()
        [True, True, True, True, False]
        >>> print(Tail.count(2).describe(popularity))
        popularity <= 2: 60.00 % of the items, 25.0 % of the interactions
    """

    rule: Literal["mass", "count", "items"]
    value: float

    @classmethod
    def mass(cls, share: float) -> Tail:
        """The least popular items that together have at most `share` of the interactions.

        Items are taken by whole popularity levels.

        Args:
            share: Share of the interactions, between 0 and 1.
        """
        require(0 < share < 1, f"the tail's mass is {share}", "give a share between 0 and 1")
        return cls("mass", share)

    @classmethod
    def count(cls, most: int) -> Tail:
        """The items with at most `most` interactions.

        Args:
            most: A whole number of at least 0.
        """
        whole = most >= 0 and float(most).is_integer()
        require(whole, f"the tail's count is {most}", "give a whole number of at least 0")
        return cls("count", int(most))

    @classmethod
    def items(cls, share: float) -> Tail:
        """The least popular items that are at most `share` of all items.

        Items are taken by whole popularity levels.

        Args:
            share: Share of the items, between 0 and 1.
        """
        require(0 < share < 1, f"the tail's share of the items is {share}", "give a share between 0 and 1")
        return cls("items", share)

    @classmethod
    def parse(cls, text: str) -> Tail:
        """The rule that a text names, as on the command line.

        Args:
            text: Such as "mass:0.5", "count:56" or "items:0.85".
        """
        rule, _, value = text.partition(":")
        makers: dict[str, Any] = {"mass": cls.mass, "count": cls.count, "items": cls.items}
        try:
            made: Tail = makers[rule](float(value))
        except (KeyError, ValueError):
            raise AleatorError(f"'{text}' is not a tail", "write mass:0.5, count:56 or items:0.85") from None
        return made

    def cut(self, popularity: NDArray[Any]) -> int:
        """The highest popularity that still belongs to the tail, or -1 if the tail is empty.

        Args:
            popularity: Number of interactions of each item, [n_items].
        """
        if self.rule == "count":
            return int(self.value)
        levels, items = np.unique(popularity, return_counts=True)
        held = np.cumsum(levels * items if self.rule == "mass" else items)
        most = self.value * held[-1] * (1 + 1e-12)  # rounding: 0.29 * 100 is less than 29
        within = levels[held <= most]
        return int(within[-1]) if len(within) else -1

    def mask(self, popularity: NDArray[Any]) -> NDArray[np.bool_]:
        """Which items are tail items, a mask [n_items].

        Args:
            popularity: Number of interactions of each item, [n_items].
        """
        return popularity <= self.cut(popularity)

    def describe(self, popularity: NDArray[Any]) -> str:
        """What the rule means for these items, as a text for people.

        Args:
            popularity: Number of interactions of each item, [n_items].
        """
        tail = self.mask(popularity)
        if not tail.any():
            return "no item: the least popular items already hold too much"
        share = popularity[tail].sum() / max(popularity.sum(), 1)
        text = f"popularity <= {self.cut(popularity)}: {tail.mean():.2%} of the items, {share:.1%} of the interactions"
        return text.replace("%", " %")

    def __str__(self) -> str:
        return f"{self.rule}:{self.value}"


DEFAULT_TAIL = Tail.mass(0.5)
