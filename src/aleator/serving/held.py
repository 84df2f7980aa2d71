"""Held: the test part of a split in the ids of a model, to mark what a user took later."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aleator.data.arrays import Array
from aleator.data.interactions import Interactions


class Held:
    """The test pairs whose user and item the model knows."""

    def __init__(self, test: Interactions, fitted: Interactions) -> None:
        user = fitted.users.encode(test.users.decode(np.arange(test.n_users)))[test.user]
        item = fitted.items.encode(test.items.decode(np.arange(test.n_items)))[test.item]
        known = (user >= 0) & (item >= 0)
        self.n_items = fitted.n_items
        self.keys = np.unique(user[known] * self.n_items + item[known])

    def among(self, users: Array, items: Array) -> list[bool | None]:
        """Whether each user took the item later. None for a newcomer, whose dense id is -1."""
        wanted = users.astype(np.int64) * self.n_items + items
        place = np.searchsorted(self.keys, wanted)
        found = place < len(self.keys)
        found[found] = self.keys[place[found]] == wanted[found]
        return [None if user < 0 else hit for user, hit in zip(users.tolist(), found.tolist(), strict=True)]

    def of(self, user: int) -> NDArray[np.int64]:
        """The items that a user took later, as dense ids."""
        first, last = np.searchsorted(self.keys, [user * self.n_items, (user + 1) * self.n_items])
        return np.asarray(self.keys[first:last] % self.n_items, np.int64)
