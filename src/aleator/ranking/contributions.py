"""What each item of a history adds to a score: because you liked that.

If a score is a sum over the history, its terms are the contributions, and with a rest that no item accounts for they add
up to the score. Otherwise a contribution is the difference that leaving the item out of the history makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Users, pieces
from aleator.data.arrays import Array, picked
from aleator.errors import require
from aleator.ranking.top import Score

if TYPE_CHECKING:
    from aleator.recommender import Recommender

FROM = "{}_from"  # names the columns of `recommend` that hold lists of history items
_AT_A_TIME = 64  # users whose contributions are computed at a time
_CELLS = 1 << 22  # numbers of a block, at most where a user has less


class Terms(NamedTuple):
    """What each item of a history adds to a part of the score."""

    values: Tensor  # [n, k]: n history items of a batch, each with the k items of its user
    exact: bool  # whether they are the terms of a sum, and not differences that leaving items out makes


@dataclass(frozen=True)
class Contributions:
    """What each item of a history adds to the score, and to the parts that the score is blended of."""

    parts: Mapping[str, Tensor]  # [n, k] by name; NaN where nothing can be said
    score: Tensor  # [n, k]
    exact: bool  # whether those of the score are the terms of a sum


def leave_one_out(score: Score, users: Users, items: Tensor) -> Tensor:
    """How much the scores of each user's own items (dense ids [B, k]) fall without each item of the history, [n, k].

    Users are scored as newcomers: by the history alone.
    """
    found = [items.new_empty((0, items.shape[1]), dtype=torch.float32)]
    for place in range(len(users)):
        size = int(users.size[place])
        user = replace(users.part(place, place + 1), index=torch.full_like(users.index[:1], -1), trained=False)
        for left_out in pieces(torch.arange(size, device=items.device), max(_CELLS // max(size, 1) ** 2, 1)):
            less = score(_without(user, left_out), items[place])
            found.append(score(user, items[place]) - less)
    return torch.cat(found)


def _without(user: Users, left_out: Tensor) -> Users:
    """The history of one user without each of some of its items (places in it), as a newcomer each."""
    n = len(left_out)
    kept = torch.ones((n, len(user.item)), dtype=torch.bool, device=left_out.device)
    kept[torch.arange(n, device=left_out.device), left_out] = False
    row, place = kept.nonzero(as_tuple=True)
    return Users(user.index.expand(n), row, user.item[place], user.weight[place], kept.sum(1))


def strongest(values: Tensor, users: Users, n: int) -> Tensor:
    """The places in the batch of the n history items with the highest values for each item of a user, [B, k, n].

    The highest comes first, and -1 stands for none. NaN is never among them.
    """
    first = users.size.cumsum(0) - users.size
    longest = int(users.size.max()) if len(users) else 0
    padded = values.new_full((len(users), longest, values.shape[1]), -torch.inf)
    padded[users.row, torch.arange(len(users.row), device=first.device) - first[users.row]] = values.nan_to_num(
        -torch.inf
    )
    top = padded.topk(min(n, longest), dim=1)
    places = (top.indices + first[:, None, None]).masked_fill(top.values.isneginf(), -1).mT
    return F.pad(places, (0, n - places.shape[2]), value=-1)


def parts_of(users: Users, items: Tensor) -> Iterator[tuple[int, Users, Tensor]]:
    """Some users at a time, with the place of the first of them, and their own items. Without users it runs once."""
    longest = int(users.size.max()) if len(users) else 0
    size = max(min(_AT_A_TIME, _CELLS // max(longest * items.shape[1], 1)), 1)
    for first in range(0, max(len(users), 1), size):
        last = min(first + size, len(users))
        yield first, users.part(first, last), items[first:last]


def history_items(of: Recommender, users: Users, items: Tensor, n: int) -> dict[str, Tensor]:
    """The n items of each history that add most to each part of the scores of its user's own `items`.

    They are dense ids, [B, k, n] by the name of the column, the one that adds most first. -1 stands for none: an item
    that adds nothing, or less, is no reason.
    """
    found: dict[str, list[Tensor]] = {}
    n = min(n, of.fitted.n_items)
    for _, some, own in parts_of(users, items.clamp_min(0)):
        for name, values in of.contributions(some, own).parts.items():
            place = strongest(values.masked_fill(values <= 0, torch.nan), some, n)
            chosen = torch.cat([some.item, some.item.new_full((1,), -1)])[place]
            found.setdefault(FROM.format(name), []).append(chosen)
    return {name: torch.cat(parts) for name, parts in found.items()}


def as_lists(of: Recommender, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a frame, with dense ids [n_rows, n] as lists of external ids, and of titles if there are any.

    Lists hold ids of any type, in every kind of frame, and may be shorter than n.
    """
    found: dict[str, Any] = {}
    for name, values in columns.items():
        if np.ndim(values) < 2:
            found[name] = values
            continue
        found[name] = _ragged(of.fitted.items.decode(values), values)
        if of.fitted.titles is not None:
            found[f"{name}_titles"] = _ragged(picked(of.fitted.titles, values), values)
    return found


def _ragged(table: Array, dense: Array) -> list[list[Any]]:
    """The rows of a table as lists, without the places where `dense` is -1."""
    sizes = (dense >= 0).sum(1).tolist()
    return [row[:size] for row, size in zip(table.tolist(), sizes, strict=True)]


def check_count(n: Any, name: str) -> None:
    """Refuse a number of history items that is none. None stands for all."""
    whole = n is None or (type(n) is not bool and isinstance(n, (int, np.integer)) and n >= 1)
    require(bool(whole), f"{name} is {n!r}", "give a whole number of at least 1")
