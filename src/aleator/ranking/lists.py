"""Lists of the k best items: which items are candidates, for all users or for each user, and the frame of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Histories, Users
from aleator.data.arrays import Array, flat, picked
from aleator.data.attributes import Where, matching
from aleator.data.frames import to_frame
from aleator.data.vocabulary import check_ids
from aleator.device import in_smaller_blocks, one_thread
from aleator.errors import AleatorError, require
from aleator.progress import each
from aleator.ranking.contributions import as_lists, check_count, history_items
from aleator.ranking.top import blocks, top_k

if TYPE_CHECKING:
    from aleator.recommender import Recommender

FEW = 4  # users whose lists are not worth several threads
Items = Sequence[Any] | Mapping[Any, Sequence[Any]]  # item ids for all users, or {user: [item ids]}


def dense_items(of: Recommender, items: Any, name: str = "items") -> Tensor:
    """The dense ids of a list of item ids."""
    listed = isinstance(items, Iterable) and not isinstance(items, (str, Mapping))
    require(listed, f"{name} is {items!r}", "give a list of item ids")
    return torch.from_numpy(check_ids(of.fitted.items, list(items), "item")).to(of.torch_device)


@dataclass(frozen=True)
class Candidates:
    """The items that may be listed. `allow` and `deny` have a row for each user who is asked for."""

    mask: Tensor | None = None  # [n_items] for all users; None for all items
    allow: Histories | None = None  # the items that each user may get, ascending; None without lists for each user
    deny: Histories | None = None  # the items that each user must not get
    whole: bool = True  # whether they are all trained items, so that ranks mean what they mean in an evaluation

    @classmethod
    def of(
        cls,
        model: Recommender,
        names: Callable[[], list[Any]],
        *,
        allow: Items | None = None,
        deny: Items | None = None,
        where: Where | None = None,
        untrained: bool = False,
    ) -> Candidates:
        """From what `recommend` was given. `names` gives the users who are asked for."""
        n_items, device = model.fitted.n_items, model.torch_device
        masks = [] if untrained or model.trained is None else [model.trained]
        for name, items in (("allow", allow), ("deny", deny)):
            if items is not None and not isinstance(items, Mapping):
                named = torch.zeros(n_items, dtype=torch.bool, device=device)
                named[dense_items(model, items, name)] = True
                masks.append(named if name == "allow" else ~named)
        if where is not None:
            masks.append(torch.from_numpy(matching(model.fitted.attributes, where, n_items)).to(device))
        return cls(
            reduce(torch.logical_and, masks) if masks else None,
            _each(model, names(), allow, "allow") if isinstance(allow, Mapping) else None,
            _each(model, names(), deny, "deny") if isinstance(deny, Mapping) else None,
            whole=not untrained and allow is None and deny is None and not where,
        )

    def hidden(self, first: int, block: Users, filter_seen: bool) -> Users | None:
        """What the users of a block must not get, as their histories. `first` is the place of the first of them."""
        if self.deny is None:
            return block if filter_seen else None
        denied = self.deny.batch(torch.arange(first, first + len(block)))
        row, item = denied.row, denied.item
        if filter_seen:
            row, item = torch.cat([block.row, row]), torch.cat([block.item, item])
        return Users(block.index, row, item, torch.ones_like(item, dtype=torch.float32), denied.size)

    def allowed(self, first: int, block: Users) -> Tensor | None:
        """The items that each user of a block may get, [B, width], -1 for none. None without lists for each user."""
        if self.allow is None:
            return None
        own = self.allow.batch(torch.arange(first, first + len(block)))
        padded = own.item.new_full((len(block), max([1, *own.size.tolist()])), -1)
        column = torch.arange(len(own.row), device=own.row.device) - (own.size.cumsum(0) - own.size)[own.row]
        padded[own.row, column] = own.item
        return padded


def _each(model: Recommender, names: list[Any], lists: Mapping[Any, Any], name: str) -> Histories:
    """The dense ids of each user's own list, ascending. Without a list, `allow` refuses a user."""
    asked = set(names)
    strangers = [user for user in lists if user not in asked]
    if strangers:
        raise AleatorError(f"{name} has a list for {strangers[0]!r}, who is not asked for", "leave that list out")
    if name == "allow":
        without = [user for user in names if user not in lists]
        told = "give a list for each user, or one list for all"
        require(not without, f"allow has no list for {without[0] if without else None!r}", told)
    own = [dense_items(model, lists.get(user, []), f"{name} of {user!r}").sort().values.cpu() for user in names]
    return Histories.of_lists(own, model.fitted.n_items, model.torch_device)


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


@dataclass(frozen=True)
class Ranked:
    """The lists of several users, a row for each listed item: user by user, from the best item on."""

    place: Array  # [n] place of the user among those who were asked for
    item: Array  # [n] dense ids
    columns: dict[str, Array]  # rank, score and what stands beside it, [n] each; lists of dense ids are [n, explain]


@in_smaller_blocks
def ranked(
    of: Recommender,
    users: Users,
    k: int,
    candidates: Candidates,
    *,
    filter_seen: bool = True,
    explain: int | None = None,
    memory: int | None = None,
) -> Ranked:
    """The k best candidates of each user, in blocks of users that fit into `memory` bytes.

    `explain` is the number of history items in each of the columns of `history_items`.
    """
    with one_thread() if len(users) <= FEW else nullcontext():
        return _ranked(of, users, k, candidates, filter_seen, explain, memory)


def _ranked(
    of: Recommender,
    users: Users,
    k: int,
    candidates: Candidates,
    filter_seen: bool,
    explain: int | None,
    memory: int | None,
) -> Ranked:
    size, chunk = blocks(len(users), of.fitted.n_items, of.torch_device, memory)
    found: dict[str, list[Array]] = {}
    # without users it runs once, so that the columns are there
    for first in each("recommending", range(0, max(len(users), 1), size)):
        block = users if size >= len(users) else users.part(first, min(first + size, len(users)))
        hidden, allowed = candidates.hidden(first, block, filter_seen), candidates.allowed(first, block)
        with torch.no_grad():
            if allowed is None:
                values, items = of.top(block, k, seen=hidden, candidates=[candidates.mask], chunk=chunk)[0]
            else:
                values, items = _best_allowed(of, block, k, hidden, candidates.mask, allowed)
            whole = filter_seen and candidates.whole
            parts = {"score": values} | of.beside_score(block, values, whole) | of.beside_item(block, items)
            parts |= {} if explain is None else history_items(of, block, items, explain)
        place = torch.arange(first, first + len(block), device=items.device)[:, None].expand_as(items)
        rank = torch.arange(1, items.shape[1] + 1, device=items.device).expand_as(items)
        rows, listed = {"place": place, "item": items, "rank": rank} | parts, items >= 0
        every = bool(listed.all())
        for name, value in rows.items():
            made = (value if every else value[listed]).cpu().numpy()
            made = made.reshape(-1, *value.shape[2:])
            found.setdefault(name, []).append(made.astype(np.float64) if made.dtype.kind == "f" else made)
    columns = {name: values[0] if len(values) == 1 else np.concatenate(values) for name, values in found.items()}
    return Ranked(columns.pop("place"), columns.pop("item"), columns)


def lists(
    of: Recommender,
    users: Any,
    k: int,
    *,
    filter_seen: bool,
    allow: Items | None,
    deny: Items | None,
    where: Where | None,
    untrained: bool,
    explain: int | None,
    memory: int | None,
) -> Any:
    """The k best items of each user, as a frame; see `Recommender.recommend`."""
    data = of.fitted
    check_k(k, data.n_items)
    check_count(explain, "explain")
    whole = of.users(users)
    names = names_of(of, users, whole)
    candidates = Candidates.of(of, names.tolist, allow=allow, deny=deny, where=where, untrained=untrained)
    found = ranked(of, whole, k, candidates, filter_seen=filter_seen, explain=explain, memory=memory)
    columns = {"user_id": picked(names, found.place), "item_id": data.items.decode(found.item)}
    columns |= as_lists(of, found.columns)
    if data.titles is not None:
        columns["title"] = picked(data.titles, found.item)
    return to_frame(columns, data.frame)


def check_k(k: Any, n_items: int) -> None:
    """Refuse a k that is no number of items."""
    whole_number = type(k) is not bool and isinstance(k, (int, np.integer)) and k >= 1
    require(bool(whole_number), f"k is {k!r}", "give a whole number of at least 1")
    require(k <= n_items, f"k is {k} but there are {n_items} items", f"give a k of at most {n_items}")


def names_of(of: Recommender, asked: Any, users: Users) -> Array:
    """The ids of the users who were asked for, [B], or the names of newcomers. None for a newcomer without a name."""
    if isinstance(asked, Mapping):
        return flat(list(asked))
    index = users.index.cpu().numpy()
    names = of.fitted.users.decode(index.clip(0))
    if (index < 0).any():
        names = names.astype(object)
        names[index < 0] = None
    return names
