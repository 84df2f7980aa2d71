"""Rerank: sort the candidates of a frame by a recommender's own scores."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from aleator.data.arrays import Array
from aleator.data.frames import opened, with_columns
from aleator.data.vocabulary import check_ids
from aleator.errors import require
from aleator.ranking.top import blocks

if TYPE_CHECKING:
    from aleator.recommender import Recommender

Missing = Literal["error", "drop"]


def rerank(by: Recommender, candidates: Any, k: int | None, missing: Missing) -> Any:
    """The rows of the frame `candidates` sorted by the scores of `by`; see `Recommender.rerank`."""
    require(
        k is None or (isinstance(k, (int, np.integer)) and type(k) is not bool and k >= 1),
        f"k is {k!r}",
        "give a whole number of at least 1",
    )
    require(missing in ("error", "drop"), f"missing is {missing!r}", "give 'error' or 'drop'")
    frame = opened(candidates, "user_id", "item_id")
    user, item = (
        vocabulary.encode(ids) if missing == "drop" else check_ids(vocabulary, ids, kind)
        for vocabulary, ids, kind in (
            (by.fitted.users, frame["user_id"].to_list(), "user"),
            (by.fitted.items, frame["item_id"].to_list(), "item"),
        )
    )
    rows = np.flatnonzero((user >= 0) & (item >= 0))
    if len(rows) < len(user):
        told = f"{len(user) - len(rows)} of {len(user)} candidates have an unknown user or item and were left out"
        warnings.warn(told, stacklevel=3)

    # the rows of a user side by side, users in the order in which they came
    _, first_row, group = np.unique(user[rows], return_index=True, return_inverse=True)
    rows = rows[np.argsort(first_row[group], kind="stable")]
    user, item = user[rows], item[rows]
    is_first = np.diff(user, prepend=-1) != 0
    start = np.flatnonzero(is_first)  # [n_users] the first row of each user
    place = np.cumsum(is_first) - 1  # [n] which user each row belongs to, counted from 0

    columns = _columns(by, user[start], place, item)
    order = np.lexsort((item, -columns["score"], place))  # by user, then by score, then by item
    rank = np.arange(len(order)) - start[place] + 1  # sorting keeps each user's rows in the same range
    kept = slice(None) if k is None else rank <= k
    columns = {"rank": rank[kept]} | {name: values[order][kept] for name, values in columns.items()}
    return with_columns(frame, rows[order][kept], columns)


@torch.no_grad()
def _columns(by: Recommender, users: Array, place: Array, item: Array) -> dict[str, Array]:
    """The score and the columns of `beside_item` for each pair (users[place], item), [n] each. `place` ascends."""
    found: dict[str, list[Array]] = {}
    size, _ = blocks(len(users), by.fitted.n_items, by.torch_device)
    for first in range(0, max(len(users), 1), size):  # without users it runs once, so that the columns are there
        batch = by.histories.batch(torch.from_numpy(users[first : first + size]))
        rows = slice(*np.searchsorted(place, [first, first + size]))
        # the candidates of each user as a row of a matrix, padded with -1
        row = place[rows] - first
        column = np.arange(len(row)) - np.searchsorted(row, row)
        padded = np.full((len(batch), int(column.max(initial=-1)) + 1), -1)
        padded[row, column] = item[rows]
        items = torch.from_numpy(padded).to(by.torch_device)
        parts = {"score": by.score_listed(batch, items)} | by.beside_item(batch, items)
        for name, values in parts.items():
            found.setdefault(name, []).append(values.cpu().numpy()[row, column])
    return {name: np.concatenate(values) for name, values in found.items()}
