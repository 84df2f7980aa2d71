"""What a batch does to each part: a frame of users becomes a frame of their lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batch.listed import Listed
from aleator.batch.users import USER, encoded
from aleator.batches import Histories, Users
from aleator.data.arrays import Array, picked
from aleator.data.attributes import Where
from aleator.errors import AleatorError, require, unknown_name
from aleator.ranking.contributions import as_lists
from aleator.ranking.lists import Candidates, Ranked, ranked
from aleator.recommender import Recommender
from aleator.words import Unknown

if TYPE_CHECKING:
    import polars as pl

COUNTS = ("users", "unknown", "by_history", "left_out", "short", "rows")  # of a part, and of all


@dataclass(frozen=True)
class Job:
    """The options that every part is made with."""

    model: Recommender
    k: int
    mask: Tensor | None  # [n_items] what may be listed for anyone; None for all items
    whole: bool  # as in `Candidates`
    allow: Listed | None  # for each user
    deny: Listed | None
    filter_seen: bool
    unknown: Unknown  # what to do with users whom neither the model nor a history knows
    history: str | None  # the column with the histories of users whom the model does not know
    explain: int | None  # how many items of the history each list of reasons has

    def __post_init__(self) -> None:
        if self.unknown not in get_args(Unknown):
            raise unknown_name("value of unknown", str(self.unknown), get_args(Unknown))

    @classmethod
    def of(
        cls,
        model: Recommender,
        k: int,
        lists: Mapping[str, Listed],
        where: Where | None,
        untrained: bool,
        **options: Any,
    ) -> Job:
        """From what `recommend_batch` was given. `lists` has those by the names allow and deny."""
        for_all = {name: own.for_recommend([], model.fitted.items) for name, own in lists.items() if own.users is None}
        each = {name: own for name, own in lists.items() if own.users is not None}
        found = Candidates.of(model, list, where=where, untrained=untrained, **for_all)
        return cls(model, k, found.mask, found.whole and not each, each.get("allow"), each.get("deny"), **options)

    def lists(self, frame: pl.DataFrame, dense: Array) -> tuple[pl.DataFrame, dict[str, int]]:
        """The lists of the users of a part, with their other columns, and counts of users and rows.

        `dense` are the dense ids of its users, -1 for those whom the model does not know.
        """
        known, unknown = np.flatnonzero(dense >= 0), np.flatnonzero(dense < 0)
        histories = self._histories(frame, unknown)
        blank = np.diff(histories.indptr) == 0
        self.refuse(int(blank.sum()), next(iter(frame[USER].gather(unknown[blank])), None))
        kept = np.flatnonzero(~blank | (self.unknown == "popular"))
        newcomers = Histories(histories[kept], self.model.torch_device).batch(torch.arange(len(kept)), known=False)
        groups = [(known, self.model.histories.batch(torch.from_numpy(dense[known]))), (unknown[kept], newcomers)]
        groups = [group for group in groups if len(group[0])] or groups[:1]  # nobody's lists have columns too
        found = _together([self._ranked(frame, rows, users) for rows, users in groups])
        served = np.concatenate([rows for rows, _ in groups])
        length = np.bincount(found.place, minlength=len(frame))[served]
        counts = {
            "users": len(frame),
            "unknown": len(unknown),
            "by_history": int((~blank).sum()),
            "left_out": len(unknown) - len(kept),
            "short": int((length < self.k).sum()),
            "rows": len(found.place),
        }
        return self._frame(frame, found), counts

    def strangers(self, frame: pl.DataFrame, dense: Array) -> pl.Series:
        """The users of a part whom neither the model nor a history knows."""
        unknown = np.flatnonzero(dense < 0)
        return frame[USER].gather(unknown[np.diff(self._histories(frame, unknown).indptr) == 0])

    def refuse(self, count: int, example: Any) -> None:
        """Refuse users whom nothing is known of, if that is what is done with them."""
        if self.unknown == "error" and count:
            known = self.model.fitted.users.decode([0]).tolist()[0]
            raise AleatorError(
                f"the model does not know {count} of the users, such as {example!r}",
                f"give ids such as {known!r}, or say what becomes of them: unknown='drop' or 'popular' (--unknown)",
            )

    def _histories(self, frame: pl.DataFrame, rows: Array) -> sp.csr_matrix:
        """The histories of some users of a part, [len(rows), n_items]."""
        import polars as pl

        items = self.model.fitted.items
        row = item = np.zeros(0, np.int64)
        if self.history is not None:
            listed = ", ".join(frame.columns)
            require(self.history in frame.columns, f"there is no column '{self.history}'", f"name one of {listed}")
            column = frame[self.history].gather(rows)
            column = column.str.split(" ") if column.dtype == pl.String else column
            told = f"column '{self.history}' holds no histories"
            require(column.dtype == pl.List, told, "give lists of item ids, or texts with a space between them")
            size = column.list.len().fill_null(0).to_numpy().astype(np.int64)
            item = encoded(column.gather(np.flatnonzero(size)).explode(), items)
            row = np.repeat(np.arange(len(rows)), size)
        known = item >= 0
        shape = (len(rows), len(items))
        matrix = sp.csr_matrix((np.ones(int(known.sum())), (row[known], item[known])), shape=shape)
        matrix.data[:] = 1  # an item that came twice
        return matrix

    def _ranked(self, frame: pl.DataFrame, rows: Array, users: Users) -> Ranked:
        """The lists of some users of a part. `place` is their row in the part."""
        ids, device = frame[USER].gather(rows), self.model.torch_device
        each = {"allow": self.allow, "deny": self.deny}
        own = {name: None if lists is None else lists.of(ids, device) for name, lists in each.items()}
        candidates = Candidates(self.mask, whole=self.whole, **own)
        found = ranked(self.model, users, self.k, candidates, filter_seen=self.filter_seen, explain=self.explain)
        return replace(found, place=rows[found.place])

    def _frame(self, frame: pl.DataFrame, found: Ranked) -> pl.DataFrame:
        """The lists as `recommend` shows them, then the other columns of the users."""
        import polars as pl

        own = [frame[USER].gather(found.place), self._items[0].gather(found.item)]
        own += [self._series(name, values) for name, values in as_lists(self.model, found.columns).items()]
        own += [titles.gather(found.item) for titles in self._items[1:]]
        names = {series.name for series in own}
        others = frame.drop(USER, *([] if self.history is None else [self.history]))
        others = others.rename({name: f"given_{name}" for name in others.columns if name in names})
        return pl.DataFrame(own).hstack(others[found.place])

    def _series(self, name: str, values: Any) -> pl.Series:
        """A column. Lists have a type even where all of them are empty, so that all parts have the same."""
        import polars as pl

        if not isinstance(values, list):
            return pl.Series(name, values)
        items = self._items[name.endswith("_titles")]
        return pl.Series(name, values, pl.List(items.dtype))

    @cached_property
    def _items(self) -> list[pl.Series]:
        """The external ids of all items, and their titles if there are any."""
        import polars as pl

        data = self.model.fitted
        tables = {"item_id": data.items.ids} | ({} if data.titles is None else {"title": data.titles})
        every = np.arange(data.n_items)
        return [
            pl.Series(name, picked(ids, every).tolist() if ids.dtype.kind == "T" else ids)
            for name, ids in tables.items()
        ]


def _together(parts: list[Ranked]) -> Ranked:
    """The lists of several groups of users, sorted by their place."""
    place, item = (np.concatenate([getattr(part, name) for part in parts]) for name in ("place", "item"))
    order = np.argsort(place, kind="stable")
    columns = {name: np.concatenate([part.columns[name] for part in parts])[order] for name in parts[0].columns}
    return Ranked(place[order], item[order], columns)
