"""Allowed and denied items of a batch: one list for all users, or a list for each."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from aleator.batch.users import alike, column_of, encoded, require_whole
from aleator.batches import Histories
from aleator.data.arrays import Array, flat
from aleator.data.columns import IDS
from aleator.data.files import format_of, require_file
from aleator.data.reading import Reading
from aleator.data.tables import TABLES, read_table
from aleator.data.text import WITHOUT_HEADER
from aleator.data.vocabulary import Vocabulary, check_ids
from aleator.errors import require

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Listed:
    """A list of items for all users, or a list for each."""

    users: Vocabulary | None  # who has a list of their own; None for one list for all
    items: sp.csr_matrix  # [n_users + 1, n_items]; the last row is nobody's, or the list for all

    def of(self, ids: Any, device: torch.device) -> Histories:
        """The lists of some users, a row for each. Users without one have an empty row."""
        assert self.users is not None
        return Histories(self.items[self.users.encode(ids)], device)  # -1 is the last row

    def for_recommend(self, asked: Sequence[Any], items: Vocabulary) -> list[Any] | dict[Any, list[Any]]:
        """The same as `recommend` takes it for the users `asked`."""
        rows = [0] if self.users is None else self.users.encode(asked).tolist()
        own: list[list[Any]] = [items.decode(self.items[row].indices).tolist() for row in rows]
        return own[0] if self.users is None else dict(zip(asked, own, strict=True))

    @property
    def fingerprint(self) -> str:
        """A hash of who has which items."""
        digest = hashlib.sha256(repr(None if self.users is None else self.users.ids.tolist()).encode())
        for part in (self.items.indptr, self.items.indices):
            digest.update(np.ascontiguousarray(part, np.int64).data)
        return digest.hexdigest()[:16]


def listed(given: Any, name: str, users: Vocabulary, items: Vocabulary) -> tuple[Listed, list[str]]:
    """The items of an allow or deny list, and notes.

    Args:
        given: Item ids, {user: [item ids]}, or a file (csv, tsv, parquet) with a column of items. With a column of users
            too, each user of it has a list of their own. Items of a file that the model does not know are left out.
        name: "allow" or "deny".
        users: The users of the model.
        items: The items of the model.
    """
    if not isinstance(given, (str, os.PathLike)):
        return _of_ids(given, name, items), []
    table, user, item = _read(Path(given))
    require(len(table) > 0 or name == "deny", f"'{given}' has no rows", "give at least one item that may be listed")
    dense = encoded(table[item], items)
    known = dense >= 0
    nothing = len(table) > 0 and not known.any()
    example = items.decode([0]).tolist()[0]
    require(not nothing, f"no item of '{given}' is known to the model", f"its items are such as {example!r}")
    left = len(known) - int(known.sum())
    notes = [f"{name}: {left} of {len(known)} rows are of items that the model does not know"] if left else []
    if user is None:
        return _made(None, dense[known], len(items)), notes
    if len(table) and not (encoded(table[user], users) >= 0).any():
        notes.append(f"{name}: no user of '{given}' is known to the model")
    owners = alike(table[user], users)
    kept = known & owners.is_not_null().to_numpy()
    return _made(owners.gather(np.flatnonzero(kept)).to_numpy(), dense[kept], len(items)), notes


def _of_ids(given: Any, name: str, items: Vocabulary) -> Listed:
    """From item ids for all users, or {user: [item ids]}. Unknown ids are an error."""
    lists = given if isinstance(given, Mapping) else {None: given}
    for user, own in lists.items():
        whose = name if user is None else f"{name} of {user!r}"
        require(np.iterable(own) and not isinstance(own, str), f"{whose} is {own!r}", "give a list of item ids")
    dense = check_ids(items, [item for own in lists.values() for item in own], "item")
    owners = [user for user, own in lists.items() for _ in own]
    return _made(flat(owners) if isinstance(given, Mapping) else None, dense, len(items))


def _made(owners: Array | None, dense: Array, n_items: int) -> Listed:
    """From a row for each item of a list: its owner, and its dense id. Without owners it is one list for all."""
    users, row = (None, np.zeros(len(dense), np.int32)) if owners is None else Vocabulary.of(owners, "user")
    shape = (1 if users is None else len(users) + 1, n_items)
    matrix = sp.csr_matrix((np.ones(len(dense), np.int8), (row, dense)), shape=shape)
    matrix.sort_indices()
    return Listed(users, matrix)


def _read(path: Path) -> tuple[pl.DataFrame, str | None, str]:
    """A table, and the names of its columns of users (None without one) and of items. Missing values are refused."""
    require_file(path)
    format = format_of(path)
    require(format in TABLES and format not in WITHOUT_HEADER, f"'{path}' is no table", "give a csv or parquet file")
    table = read_table(path, format, Reading())
    user, item = (column_of(role, table.columns) for role in IDS)
    remedy = "name it item_id; users, if each has a list, stand in a column user_id"
    require(item is not None, f"'{path}' has no item column among {', '.join(table.columns)}", remedy)
    assert item is not None
    for column in (user, item):
        if column is not None:
            require_whole(table[column], f"'{path}'")
    return table, user, item
