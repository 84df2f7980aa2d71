"""Growth: interactions with new pairs behind them. Users and items that are known keep their dense ids."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aleator.data.arrays import Array
from aleator.data.interactions import Interactions
from aleator.data.splits import attributes_of, titles_of
from aleator.data.vocabulary import kind_of
from aleator.errors import require
from aleator.words import Duplicates


@dataclass(frozen=True)
class Growth:
    """Interactions before and after new pairs came."""

    before: Interactions
    after: Interactions

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of new pairs, users and items."""
        old, new = self.before, self.after
        return {"pairs": len(new) - len(old), "users": new.n_users - old.n_users, "items": new.n_items - old.n_items}


def grow(known: Interactions, new: Interactions, duplicates: Duplicates = "first") -> Growth:
    """The pairs of both. The users and items of `known` keep their dense ids, and new ones follow.

    A pair that is known already stays as it is. With duplicates "sum" its weights are added.

    >>> known, new = Interactions.of([1, 2], ["a", "b"]), Interactions.of([2, 0], ["a", "c"])
    >>> after = grow(known, new).after
    >>> after.users.ids.tolist(), after.user.tolist(), after.item.tolist()
    ([1, 2, 0], [0, 1, 1, 2], [0, 1, 0, 2])
    """
    user_ids, item_ids = _ids_like(known.users.ids, new, "user"), _ids_like(known.items.ids, new, "item")
    users, items = known.users.extended(user_ids), known.items.extended(item_ids)
    item_of = items.encode(item_ids)  # the new dense ids of the items of the new pairs
    moved = replace(
        new,
        user=users.encode(user_ids)[new.user].astype(np.int32),
        item=item_of[new.item].astype(np.int32),
        users=users,
        items=items,
    )
    in_order = known.in_time_order and new.in_time_order
    both = replace(known, users=users, items=items, titles=None, in_time_order=in_order).together(moved)
    attributes = attributes_of([known, new], [np.arange(known.n_items), item_of])
    both = replace(both.merged(duplicates), notes=known.notes, attributes=attributes)
    titles = titles_of([known, new])
    return Growth(known, replace(both, titles=both.with_titles(titles).titles) if titles else both)


def _ids_like(known: Array, new: Interactions, kind: str) -> Array:
    """The new ids in the kind of the known ones. Ids of a text file have no type, and whole numbers can be texts."""
    ids: Array = (new.users if kind == "user" else new.items).ids
    if new.frame is None and (kind_of(known), kind_of(ids)) == ("texts", "integers"):
        return ids.astype(np.dtypes.StringDType())
    require(
        kind_of(known) == kind_of(ids),
        f"the {kind} ids of the new pairs are {kind_of(ids)}, and those that the model knows are {kind_of(known)}",
        "give ids of the same type",
    )
    return ids
