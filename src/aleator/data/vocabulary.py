"""Vocabulary: the external ids of users or items, and the dense ids that stand for them inside the library."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator.data.arrays import Array, as_texts, flat, look_up, picked, pieces
from aleator.errors import AleatorError, require
from aleator.progress import beat

DenseIds = NDArray[np.int32]
NUMBERS = (int, float, np.integer, np.floating)


class Vocabulary:
    """The external ids of all users or of all items. The dense id of each is its position.

    External ids are texts, integers or floats, all of one kind. They are in sorted order, except that ids which were
    added later follow in an order of their own.

    >>> vocabulary = Vocabulary(np.array(["a", "b"]))
    >>> vocabulary.encode(["b", "zzz"]).tolist()
    [1, -1]
    >>> vocabulary.decode([0]).tolist()
    ['a']
    """

    def __init__(self, ids: Array) -> None:
        self.ids = ids

    @staticmethod
    def of(values: Any, kind: str) -> tuple[Vocabulary, DenseIds]:
        """The vocabulary of a column, and the dense id of each row, [n].

        Args:
            values: The external id of each row, [n]. An id may occur in many rows.
            kind: "user" or "item", for error messages.
        """
        ids = typed_ids(values, kind)
        return Vocabulary.gather((ids[rows] for rows in pieces(len(ids))), kind)

    @staticmethod
    def gather(values: Iterable[Any], kind: str) -> tuple[Vocabulary, DenseIds]:
        """The same as `of`, for a column that comes piece by piece. There must be at least one piece.

        Only the distinct ids are kept, so the column is never in memory as a whole.
        """
        typed = (typed_ids(piece, kind) for piece in values)
        first = next(typed)
        gather = _gather_texts if first.dtype.kind == "T" else _gather_numbers
        ids, dense = gather(itertools.chain([first], typed))
        return Vocabulary(ids), dense

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and np.array_equal(self.ids, other.ids)

    def extended(self, ids: Array) -> Vocabulary:
        """The same ids, followed by those of `ids` that are unknown, in sorted order. Known ones keep their dense ids.

        >>> Vocabulary(np.array([2, 9])).extended(np.array([5, 9, 1])).ids.tolist()
        [2, 9, 1, 5]
        """
        known, ids = of_one_type([self.ids, ids], "new")
        more = np.unique(ids[self.encode(ids) < 0])
        return Vocabulary(np.concatenate([known, more])) if len(more) else self

    def encode(self, values: Any) -> NDArray[np.int64]:
        """The dense id of each external id, [n]; -1 where an id is unknown.

        The number 1 and the text "1" are different ids.
        """
        given = flat(values)
        if self.ids.dtype.kind in "TU":
            places = self._place_of_text
            found = (places.get(value, -1) if isinstance(value, str) else -1 for value in given.tolist())
            return np.fromiter(found, np.int64, len(given))
        return self._encode_numbers(given)

    def _encode_numbers(self, given: Array) -> NDArray[np.int64]:
        found = np.full(len(given), -1, np.int64)
        rows = np.flatnonzero(_are_numbers(given, self.ids.dtype))
        if not len(rows) or not len(self.ids):
            return found
        with np.errstate(invalid="ignore"):
            wanted = given[rows].astype(self.ids.dtype)
        place = np.minimum(np.searchsorted(self.ids, wanted, sorter=self._order), len(self.ids) - 1)
        place = place if self._order is None else self._order[place]
        unchanged = wanted == given[rows]  # the cast may have turned an unknown id into a known one
        found[rows] = np.where((self.ids[place] == wanted) & unchanged, place, -1)
        return found

    @cached_property
    def _order(self) -> NDArray[np.int64] | None:
        """The places of the ids in sorted order. None if they are sorted."""
        return None if bool((self.ids[1:] >= self.ids[:-1]).all()) else np.argsort(self.ids)

    @cached_property
    def _place_of_text(self) -> dict[str, int]:
        # a dict, because numpy's searchsorted misses texts of more than 15 bytes that come from another array
        return {text: place for place, text in enumerate(self.ids.tolist())}

    def decode(self, dense: Any) -> Array:
        """The external id of each dense id, in its original type. Texts come back as Python strings."""
        return picked(self.ids, dense)

    def parse(self, text: str) -> Any:
        """An id that was typed in a shell, in the type of this vocabulary."""
        if self.ids.dtype.kind == "T":
            return text
        try:
            return self.ids.dtype.type(text)
        except (ValueError, OverflowError):
            return text


def check_ids(vocabulary: Vocabulary, values: Sequence[Any], kind: str) -> NDArray[np.int64]:
    """The dense id of each external id, [n]. An unknown id is an error; `kind` names the side in its message."""
    dense = vocabulary.encode(values)
    if (dense >= 0).all():
        return dense
    missing = [value for value, place in zip(values, dense, strict=True) if place < 0]
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    first = missing[0].item() if isinstance(missing[0], np.generic) else missing[0]  # 7, not np.int64(7)
    example = vocabulary.decode([0]).tolist()[0] if len(vocabulary) else None
    raise AleatorError(
        f"unknown {kind} {first!r}{more}", f"give ids that the model was trained on, such as {example!r}"
    )


def kind_of(ids: Array) -> str:
    """Whether ids are "integers", "floats" or "texts"."""
    return {"i": "integers", "u": "integers", "f": "floats"}.get(ids.dtype.kind, "texts")


def of_one_type(ids: Sequence[Array], kind: str = "") -> list[Array]:
    """Arrays of integers, of floats or of texts, in a type that holds all of them. `kind` is for the error message."""
    dtype = np.result_type(*(own.dtype for own in ids))
    if dtype.kind == "f" and all(own.dtype.kind in "iu" for own in ids):  # int64 beside uint64: floats would round ids
        dtype = np.dtype(np.uint64 if all(own.min() >= 0 for own in ids if len(own)) else np.int64)
        fits = all(own.max() <= np.iinfo(dtype).max for own in ids if len(own))
        require(fits, f"the {kind} ids take more than 64 bits", "make them strings")
    return [own.astype(dtype) for own in ids]


def _gather_texts(parts: Iterable[Array]) -> tuple[Array, DenseIds]:
    """The distinct texts in sorted order, and for each row the position of its text among them."""
    number: dict[str, int] = defaultdict(itertools.count().__next__)  # numbers in order of first appearance
    by_appearance = [np.fromiter(map(number.__getitem__, part.tolist()), np.int32, len(part)) for part in parts]
    ids, place = np.unique(np.array(list(number), np.dtypes.StringDType()), return_inverse=True)
    return ids, look_up(place.astype(np.int32), np.concatenate(by_appearance))


def _gather_numbers(parts: Iterable[Array]) -> tuple[Array, DenseIds]:
    """The same for numbers. Sorting numbers is faster than looking them up one by one."""
    distinct: list[Array] = []
    dense: list[DenseIds] = []
    for part in parts:
        own_ids, own_dense = _distinct(part)
        distinct.append(own_ids)
        dense.append(own_dense)
    ids, place = _distinct(np.concatenate(distinct))
    ends = np.cumsum([len(own_ids) for own_ids in distinct])
    places = np.split(place, ends[:-1])
    return ids, np.concatenate([own_place[own_dense] for own_place, own_dense in zip(places, dense, strict=True)])


def _distinct(ids: Array) -> tuple[Array, DenseIds]:
    """The distinct numbers of one piece in sorted order, and for each row the position of its number."""
    if _are_close_together(ids):
        return _distinct_by_table(ids)
    distinct, place = np.unique(ids, return_inverse=True)
    return distinct, place.astype(np.int32)


def _are_close_together(ids: Array) -> bool:
    return ids.dtype.kind in "iu" and len(ids) > 0 and int(ids.max()) - int(ids.min()) < 4 * len(ids)


def _distinct_by_table(ids: Array) -> tuple[Array, DenseIds]:
    """The same as `_distinct`, without sorting: a table has one entry for each integer from the lowest to the highest."""
    low = ids.min()
    offset = (ids - low).view(f"u{ids.itemsize}")  # unsigned: right also where the signed difference overflows
    seen = np.zeros(int(offset.max()) + 1, bool)
    seen[offset] = True
    distinct = np.flatnonzero(seen).astype(ids.dtype) + low
    place = np.cumsum(seen, dtype=np.int32) - 1
    return distinct, place[offset]


def _are_numbers(given: Array, dtype: np.dtype[Any]) -> NDArray[np.bool_]:
    """Which of the given values are numbers within the range of `dtype`, a mask [n]."""
    if given.dtype.kind != "O":
        return np.full(len(given), given.dtype.kind in "iuf")
    low: float = -np.inf
    high: float = np.inf
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

    def is_number(value: Any) -> bool:
        return isinstance(value, NUMBERS) and not isinstance(value, bool) and bool(low <= value <= high)

    return np.fromiter(map(is_number, given.tolist()), bool, len(given))


def typed_ids(values: Any, kind: str) -> Array:
    """The ids [n] as integers of the given width, as floats or as texts."""
    beat()  # a long column comes in many pieces
    ids = flat(values)
    if ids.dtype.kind == "T" and ids.dtype != np.dtypes.StringDType():  # it may have missing values
        ids = ids.astype(object)
    if ids.dtype.kind == "O":
        ids = _typed_objects(ids, kind)
    if ids.dtype.kind == "f":
        _require_none_missing(bool(np.isfinite(ids).all()), kind)
    known = ids.dtype.kind in "UT" or (ids.dtype.kind in "iuf" and ids.dtype.itemsize <= 8)
    require(known, f"{kind} ids are of type {ids.dtype}", "make them all strings or all integers")
    return as_texts(ids, f"{kind} ids") if ids.dtype.kind == "U" else ids


def _typed_objects(ids: Array, kind: str) -> Array:
    """Python objects as an array of texts, integers or floats. All of them must be of that one kind."""
    values = ids.tolist()
    types = {type(value) for value in values}
    _require_none_missing(not any(t.__name__ in ("NoneType", "NAType", "NaTType") for t in types), kind)
    if any(issubclass(t, float) for t in types):
        _require_none_missing(all(value == value for value in values), kind)  # NaN does not equal itself
    if all(issubclass(t, str) for t in types):
        return as_texts(ids, f"{kind} ids")
    if all(issubclass(t, (int, np.integer)) and t is not bool for t in types):
        integers = np.asarray(values)
        fits = integers.dtype.kind in "iu"
        require(fits, f"{kind} ids are integers of more than 64 bits", "make them strings")
        return integers
    if all(issubclass(t, (float, np.floating)) for t in types):
        return np.asarray(values)
    names = ", ".join(sorted(t.__name__ for t in types))
    raise AleatorError(f"{kind} ids are of type {names}", "make them all strings or all integers")


def _require_none_missing(complete: bool, kind: str) -> None:
    require(complete, f"{kind} ids contain missing values", "drop those rows or give them an id")
