"""Interactions: observed (user, item) pairs with optional time, weight and rating, and the ids they came with."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aleator.errors import AleatorError, require, unknown_name

if TYPE_CHECKING:
    from aleator.data.splits import By, Split

Array = NDArray[Any]
Duplicates = Literal["first", "sum"]
PIECE = 1 << 22  # rows at a time where a whole column at once would take several times its own memory


class Vocabulary:
    """The external ids of one side, in sorted order; the dense id of each is its position.

    >>> v = Vocabulary(np.array(["a", "b"]))
    >>> v.encode(["b", "zzz"]).tolist(), v.decode([0]).tolist()
    ([1, -1], ['a'])
    """

    def __init__(self, ids: Array) -> None:
        self.ids = ids

    @staticmethod
    def of(values: Any, kind: str) -> tuple[Vocabulary, NDArray[np.int32]]:
        """The vocabulary of `values` and their dense ids; `kind` ("user" or "item") is for messages."""
        ids = _typed_ids(values, kind)
        return Vocabulary.gather((ids[rows] for rows in pieces(len(ids))), kind)

    @staticmethod
    def gather(values: Iterable[Any], kind: str) -> tuple[Vocabulary, NDArray[np.int32]]:
        """The same of values that come piece by piece, at least one; only their distinct ids are kept."""
        typed = (_typed_ids(piece, kind) for piece in values)
        first = next(typed)
        gathered = _gathered_texts if first.dtype.kind == "T" else _gathered_numbers
        ids, dense = gathered(itertools.chain([first], typed))
        return Vocabulary(ids), dense

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and np.array_equal(self.ids, other.ids)

    def encode(self, values: Any) -> NDArray[np.int64]:
        """Dense ids; -1 where an id is unknown. A number is never taken for its text, nor a text for its number."""
        given = flat(values)
        if self.ids.dtype.kind in "TU":
            places = self._places
            texts = (places.get(v, -1) if isinstance(v, str) else -1 for v in given.tolist())
            return np.fromiter(texts, np.int64, len(given))
        found = np.full(len(given), -1, np.int64)
        rows = np.flatnonzero(_are_numbers(given, self.ids.dtype))
        if len(rows) and len(self.ids):
            with np.errstate(invalid="ignore"):
                wanted = given[rows].astype(self.ids.dtype)
            place = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
            same = (self.ids[place] == wanted) & (wanted == given[rows])  # an id that the cast changed is another id
            found[rows] = np.where(same, place, -1)
        return found

    @cached_property
    def _places(self) -> dict[str, int]:
        """Dense ids of texts. (numpy's searchsorted misses texts of more than 15 bytes in another array.)"""
        return {text: place for place, text in enumerate(self.ids.tolist())}

    def decode(self, dense: Any) -> Array:
        """External ids of dense ids, as they were given (strings as Python strings)."""
        found: Array = self.ids[np.asarray(dense, dtype=np.int64)]
        return found.astype(object) if found.dtype.kind == "T" else found

    def parse(self, text: str) -> Any:
        """An id typed in a shell, in the type of this vocabulary."""
        if self.ids.dtype.kind == "T":
            return text
        try:
            return self.ids.dtype.type(text)
        except (ValueError, OverflowError):
            return text


_NUMBERS = (int, float, np.integer, np.floating)


def pieces(n: int) -> list[slice]:
    """The pieces of n rows; one that is empty where there is no row."""
    return [slice(start, start + PIECE) for start in range(0, max(n, 1), PIECE)]


def _gathered_texts(parts: Iterable[Array]) -> tuple[Array, NDArray[np.int32]]:
    """The distinct texts in sorted order, and of each row the place of its text among them."""
    number: dict[str, int] = defaultdict(itertools.count().__next__)  # in the order in which they come
    dense = [np.fromiter(map(number.__getitem__, part.tolist()), np.int32, len(part)) for part in parts]
    ids, place = np.unique(np.array(list(number), np.dtypes.StringDType()), return_inverse=True)
    return ids, _looked_up(place.astype(np.int32), np.concatenate(dense))


def _gathered_numbers(parts: Iterable[Array]) -> tuple[Array, NDArray[np.int32]]:
    """The same of numbers, which are quicker to sort than to look up one by one."""
    found = [_distinct(part) for part in parts]
    ids, place = _distinct(np.concatenate([own for own, _ in found]))
    places = np.split(place, np.cumsum([len(own) for own, _ in found])[:-1])
    return ids, np.concatenate([of_own[dense] for of_own, (_, dense) in zip(places, found, strict=True)])


def _distinct(ids: Array) -> tuple[Array, NDArray[np.int32]]:
    """The same of one piece; where integers lie close together, by a table, which is quicker still than to sort."""
    if ids.dtype.kind in "iu" and len(ids) and int(ids.max()) - int(ids.min()) < 4 * len(ids):
        low = ids.min()
        offset = (ids - low).view(f"u{ids.itemsize}")  # right also where the signed difference overflows
        seen = np.zeros(int(offset.max()) + 1, bool)
        seen[offset] = True
        return np.flatnonzero(seen).astype(ids.dtype) + low, (np.cumsum(seen, dtype=np.int32) - 1)[offset]
    own, place = np.unique(ids, return_inverse=True)
    return own, place.astype(np.int32)


def _looked_up(table: Array, dense: NDArray[np.int32]) -> Array:
    """[n] table[dense]. (numpy makes 64 bits of all that it is given to index with.)"""
    return np.concatenate([table[dense[rows]] for rows in pieces(len(dense))])


def _counts(dense: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    """[n] how often each dense id occurs."""
    total = np.zeros(n, np.int64)
    for rows in pieces(len(dense)):
        total += np.bincount(dense[rows], minlength=n)
    return total


def flat(values: Any) -> Array:
    """[n] what was given; a list stays a list of Python objects, so that none of them takes another's type."""
    if hasattr(values, "__array__"):
        given = np.atleast_1d(np.asarray(values))
    else:
        listed = list(values) if isinstance(values, Iterable) and not isinstance(values, (str, bytes)) else [values]
        given = np.fromiter(listed, object, len(listed))
    require(given.ndim == 1, f"a column has {given.ndim} dimensions", "give one value for each row")
    return given


def _are_numbers(given: Array, dtype: np.dtype[Any]) -> NDArray[np.bool_]:
    """[n] which of the given values are numbers that `dtype` may hold."""
    if given.dtype.kind != "O":
        return np.full(len(given), given.dtype.kind in "iuf")
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-np.inf, np.inf)
    numbers = (isinstance(v, _NUMBERS) and not isinstance(v, bool) and low <= v <= high for v in given.tolist())
    return np.fromiter(numbers, bool, len(given))


def _typed_ids(values: Any, kind: str) -> Array:
    """[n] the ids as integers of their own width, floats or texts."""
    ids = flat(values)
    if ids.dtype.kind == "O":
        ids = _typed_objects(ids, kind)
    if ids.dtype.kind == "f":
        require(bool(np.isfinite(ids).all()), *_missing(kind))
    require(ids.dtype.kind in "iufUT", f"{kind} ids are of type {ids.dtype}", "make them all strings or all integers")
    return ids.astype(np.dtypes.StringDType()) if ids.dtype.kind == "U" else ids


def _typed_objects(ids: Array, kind: str) -> Array:
    """An array of Python objects as texts, integers or floats, where all of them are of that one kind."""
    values = ids.tolist()
    types = {type(v) for v in values}
    require(not any(t.__name__ in ("NoneType", "NAType", "NaTType") for t in types), *_missing(kind))
    require(not any(issubclass(t, float) for t in types) or not any(v != v for v in values), *_missing(kind))
    if all(issubclass(t, str) for t in types):
        return ids.astype(np.dtypes.StringDType())
    for family in ((int, np.integer), (float, np.floating)):
        if all(issubclass(t, family) and t is not bool for t in types):
            typed = np.asarray(values)
            whole = typed.dtype.kind in "iu" or family[0] is float
            require(whole, f"{kind} ids are integers of more than 64 bits", "make them strings")
            return typed
    names = ", ".join(sorted(t.__name__ for t in types))
    raise AleatorError(f"{kind} ids are of type {names}", "make them all strings or all integers")


def _missing(kind: str) -> tuple[str, str]:
    return f"{kind} ids contain missing values", "drop those rows or give them an id"


@dataclass(frozen=True, eq=False)
class Interactions:
    """Observed pairs. Arrays are aligned; each pair stands once; ids are dense positions in the vocabularies."""

    user: NDArray[np.int32]  # [n]
    item: NDArray[np.int32]  # [n]
    users: Vocabulary
    items: Vocabulary
    time: Array | None = None  # [n], any ordered numbers
    weight: NDArray[np.float32] | None = None  # [n], multiplies the pair's weight in every loss
    rating: NDArray[np.float32] | None = None  # [n], kept for `min_rating`; no loss reads it
    titles: Array | None = None  # [n_items], texts for people
    in_time_order: bool = False  # the rows of a user are in time order although no times are known
    frame: str | None = None  # the kind of frame that was read: "pandas", "polars", "pyarrow"
    notes: tuple[str, ...] = field(default=())  # what reading and cleaning did, with counts

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
        """From columns of external ids. With `users` / `items` given, the columns are dense ids already.

        Rows below `min_rating` are dropped before repeated pairs are merged.
        """
        if users is None:
            users, user = Vocabulary.of(user, "user")
        if items is None:
            items, item = Vocabulary.of(item, "item")
        if duplicates not in get_args(Duplicates):
            raise unknown_name("way with duplicates", str(duplicates), get_args(Duplicates))
        made = cls(
            np.asarray(user, np.int32),
            np.asarray(item, np.int32),
            users,
            items,
            time=_column(time, "time"),
            weight=_column(weight, "weight", np.float32),
            rating=_column(rating, "rating", np.float32),
            **rest,
        )
        lengths = {len(c) for c in (made.user, made.item, made.time, made.weight, made.rating) if c is not None}
        require(len(lengths) == 1, "the columns differ in length", "give one value for each row in every column")
        require(len(made) > 0, "there are no interactions", "check that the file has rows below its header")
        if made.weight is not None:
            require(
                bool((made.weight > 0).all()), "a weight is not positive", "give weights above 0 or drop those rows"
            )
        return made._rated(min_rating)._merge(duplicates)

    def __len__(self) -> int:
        return len(self.user)

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @cached_property
    def popularity(self) -> NDArray[np.int64]:
        """[n_items] number of interactions of each item."""
        return _counts(self.item, self.n_items)

    @cached_property
    def csr(self) -> sp.csr_matrix:
        """[n_users, n_items] weights of the observed pairs (1 where no weight was given), columns sorted."""
        data = np.ones(len(self), np.float32) if self.weight is None else self.weight
        matrix = sp.csr_matrix((data, (self.user, self.item)), shape=(self.n_users, self.n_items))
        matrix.sort_indices()
        return matrix

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the pairs and ids that does not depend on the order of the rows."""
        digest = hashlib.sha256()
        for part in (self.csr.indptr, self.csr.indices, self.csr.data):
            digest.update(np.ascontiguousarray(part).data)
        for vocabulary in (self.users, self.items):
            for rows in pieces(len(vocabulary)):  # together, the repr of the whole list
                text = repr(vocabulary.ids[rows].tolist())[1:-1]
                digest.update(f"{', ' if rows.start else '['}{text}".encode())
            digest.update(b"]")
        return digest.hexdigest()[:16]

    def take(self, rows: Array, *notes: str) -> Interactions:
        """The given rows (positions or a mask), the vocabularies kept."""
        pick: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[rows]
            for name in ("user", "item", "time", "weight", "rating")
        }
        return replace(self, **pick, notes=self.notes + notes)

    def together(self, other: Interactions) -> Interactions:
        """Both sets of pairs; they share their vocabularies. Where only one has weights, the other's are 1."""

        def join(name: str) -> Array | None:
            both = [getattr(self, name), getattr(other, name)]
            if name == "weight" and any(c is not None for c in both):
                both = [
                    np.ones(len(p), np.float32) if c is None else c for p, c in zip((self, other), both, strict=True)
                ]
            return None if any(c is None for c in both) else np.concatenate(both)

        joined: dict[str, Any] = {name: join(name) for name in ("user", "item", "time", "weight", "rating")}
        return replace(self, **joined)

    def with_titles(self, titles: dict[Any, str]) -> Interactions:
        """The same with a title for each item, by external id or its text; items without one show their id."""
        by_text = {str(i): title for i, title in titles.items()}
        ids = self.items.decode(np.arange(self.n_items)).tolist()
        found = [titles.get(i, by_text.get(str(i))) for i in ids]
        texts = [str(i if title is None else title) for i, title in zip(ids, found, strict=True)]
        bare = sum(title is None for title in found)
        notes = (f"titles: {bare} of {len(ids)} items have none and show their id",) if bare else ()
        return replace(self, titles=np.array(texts, np.dtypes.StringDType()), notes=self.notes + notes)

    def in_time(self) -> Array | None:
        """A key that orders each user's rows in time, or None where the order is unknown."""
        return self.time if self.time is not None else np.arange(len(self)) if self.in_time_order else None

    def clean(self, *, min_rating: float | None = None, k_core: int | None = None) -> Interactions:
        """Make ratings implicit, then keep users and items with at least `k_core` interactions; ids are made anew."""
        kept = self._rated(min_rating)
        if k_core is not None:
            require(k_core >= 1, f"k_core is {k_core}", "give a k_core of at least 1")
            kept = kept._core(k_core)
        return kept._compact()

    def split(self, *, valid: float = 0.1, test: float = 0.2, by: By = "random", seed: int = 0) -> Split:
        """Train, validation and test parts; see `aleator.data.splits.split`."""
        from aleator.data.splits import split

        return split(self, valid=valid, test=test, by=by, seed=seed)

    def _rated(self, min_rating: float | None) -> Interactions:
        if min_rating is None:
            return self
        require(self.rating is not None, "min_rating was given but there is no rating", "name the rating column")
        assert self.rating is not None
        rows = self.rating >= min_rating
        require(bool(rows.any()), "cleaning left no interactions", "lower min_rating")
        return self.take(rows, f"min_rating {min_rating}: {int((~rows).sum())} of {len(rows)} rows dropped")

    def _merge(self, duplicates: Duplicates) -> Interactions:
        """Each pair once: its first row in time (in file order where no time is known), or the weights summed."""
        rows, first = self._repeats()
        if not len(rows):
            return self
        extra = int((~first).sum())
        keep = np.ones(len(self), bool)
        keep[rows[~first]] = False
        if duplicates == "first":
            return self.take(keep, f"duplicates: {extra} of {len(self)} rows repeat a pair and were dropped")
        weight = np.ones(len(self), np.float32) if self.weight is None else self.weight.copy()
        weight[rows[first]] = np.add.reduceat(weight[rows], np.flatnonzero(first))
        note = f"duplicates: {extra} of {len(self)} rows added to a pair's weight"
        return replace(self, weight=weight).take(keep, note)

    def _repeats(self) -> tuple[Array, NDArray[np.bool_]]:
        """The rows of the pairs that stand more than once, pair by pair in time; and which of them begin a pair."""
        numbers = self._row_numbers()
        again = np.r_[False, numbers.indices[1:] == numbers.indices[:-1]]
        again[numbers.indptr[:-1][np.diff(numbers.indptr) > 0]] = False  # the same item, but of the next user
        repeated = again | np.r_[again[1:], False]
        rows, first = numbers.data[repeated], ~again[repeated]
        cuts = np.r_[np.flatnonzero(first)[::PIECE], len(rows)]
        for start, end in itertools.pairwise(cuts.tolist()):
            part, pair = rows[start:end], np.cumsum(first[start:end])
            keys = (part, pair) if self.time is None else (part, self.time[part], pair)
            rows[start:end] = part[np.lexsort(keys)]
        return rows, first

    def _row_numbers(self) -> sp.csr_matrix:
        """[n_users, n_items] the row of each pair, columns sorted; a pair that stands twice has two entries."""
        rows = np.arange(len(self), dtype=np.min_scalar_type(len(self)))
        matrix = sp.coo_matrix((rows, (self.user, self.item)), shape=(self.n_users, self.n_items))
        matrix.has_canonical_format = True  # else scipy adds up the entries of a pair
        matrix = matrix.tocsr()
        matrix.sort_indices()
        return matrix

    def _core(self, k: int) -> Interactions:
        rows = np.ones(len(self), bool)
        while True:
            users = _counts(self.user[rows], self.n_users) >= k
            items = _counts(self.item[rows], self.n_items) >= k
            smaller = rows & _looked_up(users, self.user) & _looked_up(items, self.item)
            if smaller.sum() == rows.sum():
                break
            rows = smaller
        require(bool(rows.any()), "cleaning left no interactions", "lower k_core")
        return self.take(rows, f"{k}-core: {int((~rows).sum())} of {len(rows)} rows dropped")

    def _compact(self) -> Interactions:
        used_users, used_items = _counts(self.user, self.n_users) > 0, self.popularity > 0
        if used_users.all() and used_items.all():
            return self
        return replace(
            self,
            user=_looked_up(np.cumsum(used_users, dtype=np.int32) - 1, self.user),
            item=_looked_up(np.cumsum(used_items, dtype=np.int32) - 1, self.item),
            users=Vocabulary(self.users.ids[used_users]),
            items=Vocabulary(self.items.ids[used_items]),
            titles=None if self.titles is None else self.titles[used_items],
        )

    def __repr__(self) -> str:
        return f"Interactions({len(self):,} pairs, {self.n_users:,} users, {self.n_items:,} items)"


def _column(values: Any, name: str, dtype: Any = None) -> Array | None:
    if values is None:
        return None
    column = flat(values)
    if column.dtype.kind == "O" and all(isinstance(v, _NUMBERS) for v in column.tolist()):
        column = np.asarray(column.tolist())
    if column.dtype.kind == "M":
        require(not np.isnat(column).any(), f"the {name} column has missing values", "fill them or drop those rows")
        column = column.astype("datetime64[us]").astype(np.int64)
    numbers = "iuf" if name == "time" else "iufb"
    require(column.dtype.kind in numbers, f"the {name} column is of type {column.dtype}", "make it a number or a date")
    if dtype is not None:
        with np.errstate(over="ignore"):
            column = column.astype(dtype)
    if column.dtype.kind == "f":
        require(
            bool(np.isfinite(column).all()),
            f"the {name} column has missing or infinite values",
            "fill them or drop those rows",
        )
    return column


def check_ids(vocabulary: Vocabulary, values: Sequence[Any], kind: str) -> NDArray[np.int64]:
    """Dense ids of external ids that must all be known."""
    dense = vocabulary.encode(values)
    if (dense < 0).any():
        missing = [v for v, d in zip(values, dense, strict=True) if d < 0]
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        example = vocabulary.decode([0]).tolist()[0] if len(vocabulary) else None
        raise AleatorError(
            f"unknown {kind} {missing[0]!r}{more}", f"give ids that the model was trained on, such as {example!r}"
        )
    return dense
