"""What an export holds: the trained items with their vectors, and the vectors of the users part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from aleator.data.arrays import Array
from aleator.ranking.vectors import Vectors, user_vectors
from aleator.recommender import Recommender

_BYTES = 256 << 20  # of the vectors of a part of the users


@dataclass(frozen=True, eq=False)
class Items:
    """The trained items. Row numbers, from 0, stand for them in an index that takes integers alone."""

    columns: dict[str, Array]  # [n] each, by name: item_id, popularity, tail, and title if there are titles
    vectors: NDArray[np.float32]  # [n, dim]

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def dim(self) -> int:
        dim: int = self.vectors.shape[1]
        return dim


class Part(NamedTuple):
    """Some of the users."""

    ids: Array  # [n] external ids
    vectors: NDArray[np.float32]  # [n, dim]


def items_of(model: Recommender, found: Vectors) -> Items:
    """The trained items of a model. `found` holds the vectors of all items."""
    data, rows = model.fitted, np.flatnonzero(found.trained)
    columns = {
        "item_id": plain(found.item_ids[rows]),
        "popularity": data.popularity[rows],
        "tail": model.tail_mask.cpu().numpy()[rows],
    }
    if data.titles is not None:
        columns["title"] = plain(data.titles[rows])
    everything = len(rows) == data.n_items  # no copy then
    return Items(columns, found.item_vectors if everything else found.item_vectors[rows])


def users_of(model: Recommender, dim: int, rank: int | None) -> Iterator[Part]:
    """All users of the training data, in parts of a bounded size."""
    data, size = model.fitted, max(_BYTES // (4 * dim), 1)
    for first in range(0, data.n_users, size):
        index = torch.arange(first, min(first + size, data.n_users))
        blocks = list(user_vectors(model, model.histories.batch(index), rank))
        yield Part(plain(data.users.decode(index.numpy())), np.concatenate(blocks))


def plain(column: Array) -> Array:
    """A column without Python objects, which every library and `np.load` reads: texts are of fixed width."""
    return np.array(column.tolist(), str) if column.dtype.kind in "OT" else column
