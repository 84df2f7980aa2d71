"""Lists of the k best items: which items are candidates, for all users or for each user, and the frame of the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Users
from aleator.data.frames import to_frame
from aleator.data.vocabulary import check_ids
from aleator.errors import AleatorError, require
from aleator.progress import each
from aleator.ranking.top import blocks, top_k

if TYPE_CHECKING:
    from aleator.recommender import Recommender

Items = Sequence[Any] | Mapping[Any, Sequence[Any]]  # item ids for all users, or {user: [item ids]}


def dense_items(of: Recommender, items: Any, name: str = "items") -> Tensor:
    """The dense ids of a list of item ids."""
    listed = isinstance(items, Iterable) and not isinstance(items, (str, Mapping))
    require(listed, f"{name} is {items!r}", "give a list of item ids")
    return torch.from_numpy(check_ids(of.fitted.items, list(items), "item")).to(of.torch_device)


@dataclass(frozen=True)
class Candidates:
    """The items that may be listed."""

    mask: Tensor | None  # [n_items] for all users; None for all items
    allow: list[Tensor] | None  # the dense ids that each user may get; None without lists for each user
    deny: list[Tensor] | None  # the dense ids that each user must not get

    @classmethod
    def of(
        cls, model: Recommender, names: list[Any], allow: Items | None, deny: Items | None, untrained: bool
    ) -> Candidates:
        """From what `recommend` was given."""
        mask = torch.from_numpy(model.fitted.popularity > 0).to(model.torch_device)
        if untrained:
            mask = torch.ones_like(mask)
        if allow is not None and not isinstance(allow, Mapping):
            allowed = torch.zeros_like(mask)
            allowed[dense_items(model, allow, "allow")] = True
            mask &= allowed
        if deny is not None and not isinstance(deny, Mapping):
            mask[dense_items(model, deny, "deny")] = False
        return cls(
            None if bool(mask.all()) else mask,
            _each(model, names, allow, "allow") if isinstance(allow, Mapping) else None,
            _each(model, names, deny, "deny") if isinstance(deny, Mapping) else None,
        )

    def hidden(self, first: int, block: Users, filter_seen: bool) -> Users | None:
        """What the users of a block must not get, as their histories. `first` is the place of the first of them."""
        if self.deny is None:
            return block if filter_seen else None
        lists = self.deny[first : first + len(block)]
        size = torch.tensor([len(items) for items in lists], device=block.row.device)
        item = torch.cat([block.item[:0], *lists])
        row = torch.repeat_interleave(torch.arange(len(block), device=block.row.device), size)
        if filter_seen:
            row, item = torch.cat([block.row, row]), torch.cat([block.item, item])
        return Users(block.index, row, item, torch.ones_like(item, dtype=torch.float32), size)

    def allowed(self, first: int, block: Users) -> Tensor | None:
        """The items that each user of a block may get, [B, width], -1 for none. None without lists for each user."""
        if self.allow is None:
            return None
        lists = self.allow[first : first + len(block)]
        padded = block.index.new_full((len(block), max([1, *map(len, lists)])), -1)
        for row, items in enumerate(lists):
            padded[row, : len(items)] = items
        return padded


def _each(model: Recommender, names: list[Any], lists: Mapping[Any, Any], name: str) -> list[Tensor]:
    """The dense ids of each user's own list, ascending. Without a list, `allow` refuses a user."""
    asked = set(names)
    strangers = [user for user in lists if user not in asked]
    if strangers:
        raise AleatorError(f"{name} has a list for {strangers[0]!r}, who is not asked for", "leave that list out")
    if name == "allow":
        without = [user for user in names if user not in lists]
        told = "give a list for each user, or one list for all"
        require(not without, f"allow has no list for {without[0] if without else None!r}", told)
    return [dense_items(model, lists.get(user, []), f"{name} of {user!r}").sort().values for user in names]


def _best_allowed(
    of: Recommender, users: Users, k: int, hidden: Users | None, mask: Tensor | None, items: Tensor
) -> Any:
    """The k best of each user's own items [B, width]: values and dense ids, [B, k] each."""
    barred = (items < 0) | F.pad(items[:, 1:] == items[:, :-1], (1, 0))  # an id that was given twice counts once
    if mask is not None:
        barred |= ~mask[items]
    if hidden is not None:
        n_items, row = of.fitted.n_items, torch.arange(len(users), device=items.device)[:, None]
        barred |= torch.isin(row * n_items + items, hidden.row * n_items + hidden.item)
    values, place = top_k(of.score_listed(users, items).masked_fill(barred, -torch.inf), k)
    return values, items.gather(1, place.clamp_min(0)).masked_fill(place < 0, -1)


def lists(
    of: Recommender,
    users: Any,
    k: int,
    *,
    filter_seen: bool,
    allow: Items | None,
    deny: Items | None,
    untrained: bool,
    memory: int | None,
) -> Any:
    """The k best items of each user, as a frame; see `Recommender.recommend`."""
    data = of.fitted
    whole_number = type(k) is not bool and isinstance(k, (int, np.integer)) and k >= 1
    require(whole_number, f"k is {k!r}", "give a whole number of at least 1")
    require(k <= data.n_items, f"k is {k} but there are {data.n_items} items", f"give a k of at most {data.n_items}")
    whole = of.users(users)
    names = _names(of, users) if isinstance(users, Users) else list(users)
    candidates = Candidates.of(of, names, allow, deny, untrained)
    whole_lists = filter_seen and not untrained and allow is None and deny is None
    size, chunk = blocks(len(whole), data.n_items, of.torch_device, memory)
    columns: dict[str, list[Any]] = {}
    for first in each(
        "recommending", range(0, max(len(whole), 1), size)
    ):  # without users it runs once, so that the columns are there
        block = whole.part(first, min(first + size, len(whole)))
        hidden, allowed = candidates.hidden(first, block, filter_seen), candidates.allowed(first, block)
        with torch.no_grad():
            if allowed is None:
                values, items = of.top(block, k, seen=hidden, candidates=[candidates.mask], chunk=chunk)[0]
            else:
                values, items = _best_allowed(of, block, k, hidden, candidates.mask, allowed)
            parts = {"score": values} | of.beside_score(block, values, whole_lists) | of.explain(block, items)
        place, rank = (items >= 0).nonzero(as_tuple=True)
        rows = {
            "user_id": [names[first + p] for p in place.tolist()],
            "item_id": data.items.decode(items[place, rank].cpu().numpy()).tolist(),
            "rank": (rank + 1).tolist(),
        }
        rows |= {name: value[place, rank].tolist() for name, value in parts.items()}
        for name, values in rows.items():
            columns.setdefault(name, []).extend(values)
    if data.titles is not None:
        columns["title"] = data.titles[data.items.encode(columns["item_id"])].astype(object).tolist()
    return to_frame(columns, data.frame)


def _names(of: Recommender, users: Users) -> list[Any]:
    known = of.fitted.users.decode(users.index.clamp_min(0).cpu().numpy()).tolist()
    return [name if index >= 0 else None for name, index in zip(known, users.index.tolist(), strict=True)]
