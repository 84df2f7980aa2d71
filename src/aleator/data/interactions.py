"""Interactions: observed (user, item) pairs with optional time, weight and rating, and their external ids."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aleator.data.arrays import Array, as_texts, count, flat, look_up, pieces, require_years
from aleator.data.duplicates import repeated_rows
from aleator.data.vocabulary import NUMBERS, Vocabulary
from aleator.errors import require, unknown_name
from aleator.words import By, Duplicates

if TYPE_CHECKING:
    from aleator.data.attributes import Attribute
    from aleator.data.maps import Maps
    from aleator.data.splits import Split

__all__ = ["Array", "Interactions"]

WEIGHTS = np.float32(1e-9), np.float32(1e9)  # the sums of others leave the range of float32
RATED_NOTE = "rating: every rated pair counts as an interaction; give min_rating to keep only high ratings"
COLUMNS = ("user", "item", "time", "weight", "rating")  # the fields of `Interactions` with one value for each row


@dataclass(frozen=True, eq=False)
class Interactions:
    """Observed (user, item) pairs.

    Make them with `aleator.read`, or from columns with `Interactions.of`. Each pair occurs once. Inside, users and
    items are dense ids: positions in the vocabularies `users` and `items`, which hold the external ids.

    Attributes:
        user: Dense user id of each pair, [n].
        item: Dense item id of each pair, [n].
        users: External ids of the users.
        items: External ids of the items.
        time: When the pair was observed, [n], in any ordered number. Dates are microseconds since 1970.
        weight: Positive weight of the pair in every loss, [n]. None means 1 for each pair.
        rating: Rating of the pair, [n]. It is kept for `min_rating`; no loss reads it.
        titles: Title of each item for people to read, [n_items].
        attributes: Attributes of the items by name, such as a genre or a price, to filter lists by.
        in_time_order: The rows of each user are in order of time, although the times are not known.
        frame: Kind of frame that the pairs were read from: "pandas", "polars" or "pyarrow".
        notes: What reading and cleaning did, with counts.
        stored: The files of the columns, if they lie on disk.

    Example:
        >>> data = Interactions.of(["ann", "ann", "bob"], [7, 9, 7])
        >>> data
        Interactions(3 pairs, 2 users, 2 items)
        >>> data.user.tolist(), data.item.tolist(), data.popularity.tolist()
        ([0, 0, 1], [0, 1, 0], [2, 1])
    """

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    users: Vocabulary
    items: Vocabulary
    time: Array | None = None
    weight: NDArray[np.float32] | None = None
    rating: NDArray[np.float32] | None = None
    titles: Array | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    in_time_order: bool = False
    frame: str | None = None
    notes: tuple[str, ...] = field(default=())
    stored: Maps | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        user: Any,
        item: Any,
        *,
        time: Any = None,
        weight: Any = None,
        rating: Any = None,
        users: Vocabulary | None = None,
        items: Vocabulary | None = None,
        min_rating: float | None = None,
        duplicates: Duplicates = "first",
        **rest: Any,
    ) -> Interactions:
        """Make interactions from columns.

        Args:
            user: External user id of each row, [n]: texts, integers or floats.
            item: External item id of each row, [n].
            time: Time of each row, [n]: numbers or dates.
            weight: Weight of each row, [n]: numbers above 0.
            rating: Rating of each row, [n].
            users: Vocabulary of the users. If it is given, `user` holds dense ids already.
            items: Vocabulary of the items. If it is given, `item` holds dense ids already.
            min_rating: Drop the rows with a lower rating, before repeated pairs are merged.
            duplicates: What to do with a pair in several rows. "first" keeps the first row in time (in file order
                without times). "sum" adds up the weights.
            **rest: Other fields of `Interactions`: titles, attributes, in_time_order, frame, notes.

        Returns:
            The interactions, each pair once, in the order of the rows.

        Example:
            >>> data = Interactions.of([1, 1, 2], ["a", "a", "b"], duplicates="sum")
            >>> data.weight.tolist(), data.notes
            ([2.0, 1.0], ("duplicates: 1 of 3 rows added to a pair's weight",))
        """
        if users is None:
            users, user = Vocabulary.of(user, "user")
        if items is None:
            items, item = Vocabulary.of(item, "item")
        made = cls(
            np.asarray(user, np.int32),
            np.asarray(item, np.int32),
            users,
            items,
            time=None if time is None else numeric(time, "time"),
            weight=None if weight is None else numeric(weight, "weight", np.float32),
            rating=None if rating is None else numeric(rating, "rating", np.float32),
            **rest,
        )
        made._check()
        kept = made._rated_at_least(min_rating)
        if kept.weight is not None:
            require_weights(kept.weight)
        return kept.merged(duplicates)

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        return f"Interactions({len(self):,} pairs, {self.n_users:,} users, {self.n_items:,} items)"

    @property
    def n_users(self) -> int:
        """Number of users in the vocabulary."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items in the vocabulary."""
        return len(self.items)

    @cached_property
    def popularity(self) -> NDArray[np.int64]:
        """Number of interactions of each item, [n_items]."""
        return count(self.item, self.n_items)

    @property
    def on_disk(self) -> Maps | None:
        """The files of the pairs. None if they are in memory, such as after a change."""
        maps = self.stored
        if maps is None or (maps.n_users, maps.n_items) != (self.n_users, self.n_items):
            return None
        same = all(getattr(self, name) is maps.columns.get(name) for name in ("user", "item", "weight"))
        return maps if same else None

    @cached_property
    def csr(self) -> sp.csr_matrix:
        """Sparse matrix [n_users, n_items] of the weights (1 where no weight was given), columns sorted."""
        if self.on_disk is not None:
            return self.on_disk.csr
        entries = (self._weight_or_ones(), (self.user, self.item))
        matrix = sp.csr_matrix(entries, shape=(self.n_users, self.n_items))
        matrix.sort_indices()
        return matrix

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the pairs, the weights and the ids. It does not depend on the order of the rows."""
        digest = hashlib.sha256()
        for part in (self.csr.indptr, self.csr.indices, self.csr.data):
            for rows in pieces(len(part)):
                digest.update(np.ascontiguousarray(part[rows]).data)
        for vocabulary in (self.users, self.items):
            # the pieces together are the repr of the whole list, which would take much memory at once
            for rows in pieces(len(vocabulary)):
                text = repr(vocabulary.ids[rows].tolist())[1:-1]
                digest.update(f"{', ' if rows.start else '['}{text}".encode())
            digest.update(b"]")
        return digest.hexdigest()[:16]

    @cached_property
    def identity(self) -> str:
        """A hash of the fingerprint and of all columns, in the order of the rows: a fit may draw rows by their number."""
        digest = hashlib.sha256(self.fingerprint.encode())
        for name in COLUMNS:
            column = getattr(self, name)
            digest.update(name.encode() if column is None else np.ascontiguousarray(column).data)
        return digest.hexdigest()[:16]

    def take(self, rows: Array | slice, *notes: str) -> Interactions:
        """Some of the rows, with the same vocabularies.

        Args:
            rows: Row numbers, a mask [n], or a slice.
            *notes: Notes to add.
        """
        picked: dict[str, Any] = {}
        for name in COLUMNS:
            column = getattr(self, name)
            picked[name] = None if column is None else column[rows]
        return replace(self, **picked, notes=self.notes + notes)

    def together(self, other: Interactions) -> Interactions:
        """The pairs of both, which must share their vocabularies.

        If only one of them has weights, the weights of the other are 1. A time or rating that only one has is dropped.
        The two parts of pairs on disk together are the files that a split took them from.
        """
        wholes = [part.on_disk.whole for part in (self, other) if part.on_disk is not None]
        if len(wholes) == 2 and wholes[0] is not None and wholes[0] is wholes[1]:
            return self.of_maps(wholes[0])
        joined: dict[str, Any] = {}
        for name in COLUMNS:
            columns = [getattr(self, name), getattr(other, name)]
            if name == "weight" and any(column is not None for column in columns):
                columns = [self._weight_or_ones(), other._weight_or_ones()]
            joined[name] = None if any(column is None for column in columns) else np.concatenate(columns)
        return replace(self, **joined)

    def of_maps(self, maps: Maps) -> Interactions:
        """The pairs of these files, with the vocabularies, titles and attributes of this one."""
        columns: dict[str, Any] = {name: maps.columns.get(name) for name in COLUMNS}
        return replace(self, **columns, stored=maps)

    def with_titles(self, titles: dict[Any, str]) -> Interactions:
        """The same interactions with a title for each item.

        Args:
            titles: Title by external item id, or by the id as text. An item without a title shows its id.
        """
        told = f"the titles are a {type(titles).__name__}"
        require(isinstance(titles, Mapping), told, "give a dict of titles by item id, or titles= of al.read a file")
        by_text = {str(item_id): title for item_id, title in titles.items()}
        ids = self.items.decode(np.arange(self.n_items)).tolist()
        found = [titles.get(item_id, by_text.get(str(item_id))) for item_id in ids]
        texts = [str(item_id if title is None else title) for item_id, title in zip(ids, found, strict=True)]
        without = sum(title is None for title in found)
        notes = (f"titles: {without} of {len(ids)} items have none and show their id",) if without else ()
        return replace(self, titles=as_texts(np.array(texts, object), "titles"), notes=self.notes + notes)

    def with_attributes(self, source: Any, item: str | None = None, encoding: str = "utf-8") -> Interactions:
        """The same interactions with attributes of the items, such as a genre or a price.

        `recommend(where=)` filters by them. They are saved with a model. An item may have several values of an
        attribute: in a list, in a text with "|" between them, or in several rows. An earlier attribute of the same name
        is replaced.

        Args:
            source: A table of items: a file (csv, tsv, parquet), a frame, or a dict of columns. Each column holds texts,
                numbers or booleans.
            item: Name of the column of items. By default it is the first with a usual name, or else the first of all. Ids
                match as texts.
            encoding: Encoding of a text file.

        Returns:
            The interactions. A note counts the items without a row.

        Example:
            >>> data = Interactions.of([1, 1, 2], ["a", "b", "c"])
            >>> data = data.with_attributes({"item": ["a", "b"], "genre": ["Drama|War", "Drama"], "year": [1994, 2001]})
            >>> sorted(data.attributes), data.notes
            (['genre', 'year'], ('attributes: 1 of 3 items have no row, and so no value',))
        """
        from aleator.data.attributes import read_attributes

        found, notes = read_attributes(source, item, self.items, encoding)
        return replace(self, attributes={**self.attributes, **found}, notes=(*self.notes, *notes))

    def in_time(self) -> Array | None:
        """Numbers [n] that order the rows of each user in time, or None if the order is unknown."""
        if self.time is not None:
            return self.time
        return np.arange(len(self)) if self.in_time_order else None

    def clean(self, *, min_rating: float | None = None, k_core: int | None = None) -> Interactions:
        """Drop low ratings, then rare users and items.

        Args:
            min_rating: Keep the pairs with at least this rating.
            k_core: Keep only users and items with at least this many interactions among those that are kept.

        Returns:
            What is left, with new vocabularies of the users and items that still have an interaction.

        Example:
            >>> data = Interactions.of([1, 1, 2, 2, 3], ["a", "b", "a", "b", "a"])
            >>> data.clean(k_core=2)
            Interactions(4 pairs, 2 users, 2 items)
        """
        kept = self._rated_at_least(min_rating)
        if k_core is not None:
            whole = type(k_core) is not bool and isinstance(k_core, (int, np.integer)) and k_core >= 1
            require(whole, f"k_core is {k_core!r}", "give a whole number of at least 1")
            kept = kept._core(k_core)
        return kept._without_unused_ids()

    def split(self, *, valid: float = 0.1, test: float = 0.2, by: By = "random", seed: int = 0) -> Split:
        """Split the pairs into train, validation and test parts.

        Validation pairs are taken by the same rule as test pairs, so that a choice made on them fits the test.

        Args:
            valid: Share of all pairs for validation, 0 for none.
            test: Share of all pairs for the test.
            by: Which pairs are held out. "random": random pairs of each user. "user_time": the latest pairs of each
                user. "global_time": the latest pairs of all. "last": the last pair of each user for the test, and the
                one before for validation; the shares do not count. "balanced": equally many random pairs of each item,
                but at most half of them, so the part may be smaller than its share. A user always keeps a training
                pair, except with "global_time". A draw decides between pairs of equal time.
            seed: Seed of the random draws.

        Returns:
            A `Split`, whose parts share their vocabularies.

        Example:
            >>> data = Interactions.of([1, 1, 1, 2, 2, 2], [5, 6, 7, 5, 6, 7], time=[1, 2, 3, 3, 2, 1])
            >>> data.split(by="last")
            Split(unnamed: 2 users, 3 items; train 2, valid 2, test 2 pairs)
        """
        from aleator.data.splits import split

        return split(self, valid=valid, test=test, by=by, seed=seed)

    def _check(self) -> None:
        columns = [getattr(self, name) for name in COLUMNS]
        lengths = {len(column) for column in columns if column is not None}
        require(len(lengths) == 1, "the columns differ in length", "give one value for each row in every column")
        require(len(self) > 0, "there are no interactions", "check that the file has rows below its header")

    def _weight_or_ones(self) -> NDArray[np.float32]:
        return np.ones(len(self), np.float32) if self.weight is None else self.weight

    def _rated_at_least(self, min_rating: float | None) -> Interactions:
        if min_rating is None:
            return self
        check_min_rating(min_rating)
        require(self.rating is not None, "min_rating was given but there is no rating", "name the rating column")
        assert self.rating is not None
        rows = self.rating >= min_rating
        require(bool(rows.any()), "cleaning left no interactions", "lower min_rating")
        return self.take(rows, f"min_rating {min_rating}: {int((~rows).sum())} of {len(rows)} rows dropped")

    def merged(self, duplicates: Duplicates) -> Interactions:
        """Each pair once: its first row in time, or the first in file order without times."""
        check_duplicates(duplicates)
        rows, first = repeated_rows(self.user, self.item, self.time, (self.n_users, self.n_items))
        if not len(rows):
            return self
        keep = np.ones(len(self), bool)
        keep[rows[~first]] = False
        extra = int((~first).sum())
        note = repeats_note(extra, len(self), duplicates)
        if duplicates == "first":
            return self.take(keep, note)
        weight = self._weight_or_ones().copy()
        weight[rows[first]] = np.add.reduceat(weight[rows], np.flatnonzero(first))
        return replace(self, weight=weight).take(keep, note)

    def _core(self, k: int) -> Interactions:
        rows = np.ones(len(self), bool)
        while True:
            users = count(self.user[rows], self.n_users) >= k
            items = count(self.item[rows], self.n_items) >= k
            fewer = rows & look_up(users, self.user) & look_up(items, self.item)
            if fewer.sum() == rows.sum():
                break
            rows = fewer
        require(bool(rows.any()), "cleaning left no interactions", "lower k_core")
        return self.take(rows, f"{k}-core: {int((~rows).sum())} of {len(rows)} rows dropped")

    def with_whole_ids(self) -> Interactions:
        """The same interactions, with integers in place of ids that are floats without a fraction (12000.0).

        pandas turns integers into floats where a column has missing values.
        """
        made = self
        for kind, name in (("user", "users"), ("item", "items")):
            ids = getattr(self, name).ids
            if ids.dtype.kind == "f" and bool(((ids == np.rint(ids)) & (np.abs(ids) < 2**53)).all()):
                note = f"{kind} ids: floats without a fraction became integers"
                new: dict[str, Any] = {name: Vocabulary(ids.astype(np.int64)), "notes": (*made.notes, note)}
                made = replace(made, **new)  # the order of the ids stays, so dense ids do too
        return made

    def _without_unused_ids(self) -> Interactions:
        used_users = count(self.user, self.n_users) > 0
        used_items = self.popularity > 0
        if used_users.all() and used_items.all():
            return self
        new_item = np.where(used_items, np.cumsum(used_items, dtype=np.int32) - 1, np.int32(-1))
        return replace(
            self,
            user=look_up(np.cumsum(used_users, dtype=np.int32) - 1, self.user),
            item=look_up(new_item, self.item),
            users=Vocabulary(self.users.ids[used_users]),
            items=Vocabulary(self.items.ids[used_items]),
            titles=None if self.titles is None else self.titles[used_items],
            attributes={name: attribute.moved(new_item) for name, attribute in self.attributes.items()},
        )


def check_min_rating(min_rating: Any) -> None:
    """Refuse a lowest rating that is no number."""
    number = isinstance(min_rating, NUMBERS) and min_rating == min_rating  # NaN is not NaN
    require(number, f"min_rating is {min_rating!r}", "give a number")


def check_duplicates(duplicates: Any) -> None:
    """Refuse an unknown way to treat repeated pairs."""
    if duplicates not in get_args(Duplicates):
        raise unknown_name("value of duplicates", str(duplicates), get_args(Duplicates))


def repeats_note(n: int, of: int, duplicates: Duplicates) -> str:
    """What was done with n rows that repeat a pair."""
    done = "repeat a pair and were dropped" if duplicates == "first" else "added to a pair's weight"
    return f"duplicates: {n} of {of} rows {done}"


def require_weights(weight: NDArray[np.float32]) -> None:
    """Refuse weights that are not positive, or whose sums leave the range of float32."""
    remedy = "drop those rows; to do that while reading, name the column as rating too and give min_rating"
    require(bool((weight > 0).all()), "a weight is not positive", remedy)
    low, high = (weight.min(), weight.max()) if len(weight) else WEIGHTS
    require(
        bool(WEIGHTS[0] <= low and high <= WEIGHTS[1]),
        f"the weights go from {low:g} to {high:g}",
        f"scale them into {WEIGHTS[0]:g} to {WEIGHTS[1]:g}, or take their logarithm",
    )


def numeric(values: Any, name: str, dtype: Any = None) -> Array:
    """The column of times, weights or ratings as finite numbers, [n]; dates as microseconds since 1970."""
    column = flat(values)
    if column.dtype.kind == "O" and all(isinstance(value, NUMBERS) for value in column.tolist()):
        column = np.asarray(column.tolist())
    if column.dtype.kind == "M":
        require(not np.isnat(column).any(), f"the {name} column has missing values", "fill them or drop those rows")
        require_years(column)
        column = column.astype("datetime64[us]").astype(np.int64)
    kinds = "iuf" if name == "time" else "iufb"
    require(column.dtype.kind in kinds, f"the {name} column is of type {column.dtype}", "make it a number or a date")
    if dtype is not None:
        with np.errstate(over="ignore"):  # a number that is too large becomes infinite and is refused below
            column = column.astype(dtype)
    if column.dtype.kind == "f":
        finite = bool(np.isfinite(column).all())
        require(finite, f"the {name} column has missing or infinite values", "fill them or drop those rows")
    return column
