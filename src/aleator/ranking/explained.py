"""The frame of `explain`: what each item of a history adds to a score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from aleator.batches import Users
from aleator.data.arrays import Array, picked
from aleator.data.frames import to_frame
from aleator.ranking.contributions import Contributions, check_count, parts_of, strongest
from aleator.ranking.lists import dense_items, names_of

if TYPE_CHECKING:
    from aleator.recommender import Recommender, Who


def explained(of: Recommender, users: Who, items: Any, n: int | None) -> Any:
    """What history items add to the scores of some pairs, as a frame; see `Recommender.explain`."""
    return to_frame(explained_columns(of, users, items, n), of.fitted.frame)


@torch.no_grad()
def explained_columns(of: Recommender, users: Who, items: Any, n: int | None) -> dict[str, Any]:
    """The columns of `explained`."""
    data, whole = of.fitted, of.users(users)
    check_count(n, "n")
    shown = dense_items(of, items)[None].expand(len(whole), -1)
    found: dict[str, list[Array]] = {}
    for first, some, own in parts_of(whole, shown):
        made = of.contributions(some, own)
        rows = _rows(of, some, own, made, len(some.item) if n is None else min(n, len(some.item)))
        rows["user"] += first
        for name, values in rows.items():
            found.setdefault(name, []).append((values.double() if values.is_floating_point() else values).cpu().numpy())
    table = {name: np.concatenate(values) for name, values in found.items()}
    columns: dict[str, Any] = {"user_id": picked(names_of(of, users, whole), table.pop("user"))}
    dense = {"item": table.pop("item"), "history_item": table.pop("history_item")}
    columns |= {"item_id": data.items.decode(dense["item"]), "history_item": data.items.decode(dense["history_item"])}
    columns |= table
    if data.titles is not None:
        columns |= {"title": picked(data.titles, dense["item"])}
        columns |= {"history_title": picked(data.titles, dense["history_item"])}
    return columns


def _rows(of: Recommender, users: Users, items: Tensor, made: Contributions, n: int) -> dict[str, Tensor]:
    """The rows of `explained` for a batch, as columns: of each pair, the n history items that add most to the score."""
    zeros = made.score.new_zeros(items.shape)
    rest = of.score_listed(users, items) - zeros.index_add(0, users.row, made.score)
    size = zeros.index_add(0, users.row, made.score.abs())
    places = strongest(made.score, users, n)
    user, column, order = (places >= 0).nonzero(as_tuple=True)
    place = places[user, column, order]
    added = made.score[place, column]
    columns = {"user": user, "item": items[user, column], "history_item": users.item[place]}
    columns |= {f"adds_to_{name}": values[place, column] for name, values in made.parts.items()}
    columns |= {"adds_to_score": added, "share": (added / size[user, column]).nan_to_num(0.0)}
    return columns | {"rest": rest[user, column], "exact": torch.full_like(user, made.exact, dtype=torch.bool)}
