"""Match the users and items of a model that was fitted elsewhere with those of the data, by their ids."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator.data.arrays import flat
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError, require


@dataclass(frozen=True)
class Counts:
    """How many ids the model and the data have in common."""

    both: int
    only_data: int
    only_model: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)

    def notes(self, kind: str, fate: str) -> list[str]:
        """Notes about ids that only one side has. `fate` says what happens to those that only the data has."""
        told = []
        if self.only_data:
            told.append(f"graft: {self.only_data} of {self.both + self.only_data} {kind}s of the data {fate}")
        if self.only_model:
            told.append(f"graft: {self.only_model} of the model's {kind}s are not in the data and are left out")
        return told


def reconcile(kind: str, ids: Any, n: int, vocabulary: Vocabulary) -> tuple[NDArray[np.int64], Counts]:
    """The model's row of each user or item (`kind`) of the data, -1 for none, and the counts of matches.

    `ids` are the external ids of the model's `n` rows, in their order. Without them, the model and the data must have as
    many rows, in the same order.

    >>> reconcile("item", ["c", "b", "x"], 3, Vocabulary(np.array(["a", "b", "c"])))
    (array([-1,  1,  0]), Counts(both=2, only_data=1, only_model=1))
    """
    give = f"give {kind}s=, the {kind} ids of its rows in their order"
    if ids is None:
        size = len(vocabulary)
        require(n == size, f"the model has {n} {kind}s and the data has {size}", give)
        return np.arange(n), Counts(n, 0, 0)
    ids = flat(ids)
    require(len(ids) == n, f"there are {len(ids)} {kind} ids for the {n} {kind}s of the model", give)
    there = vocabulary.encode(ids)
    rows = np.flatnonzero(there >= 0)
    if not len(rows):
        mine, theirs = ids[:1].tolist(), vocabulary.decode([0]).tolist()
        raise AleatorError(
            f"the model and the data have no {kind} in common: the model has ids such as {mine}, and the data {theirs}",
            give,
        )
    place = np.full(len(vocabulary), -1)
    place[there[rows]] = rows
    twice = ids[rows[place[there[rows]] != rows]].tolist()
    require(not twice, f"{kind} {twice[:1]} is twice among the ids of the model", "give each id once")
    return place, Counts(len(rows), len(vocabulary) - len(rows), n - len(rows))
