"""Attributes of items, such as a genre or a price: from a table of items, and as filters of what may be listed."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleator.data.arrays import Array
from aleator.data.columns import ALIASES
from aleator.data.files import format_of, require_file
from aleator.data.frames import opened
from aleator.data.reading import Reading
from aleator.data.tables import read_table
from aleator.data.text import WITHOUT_HEADER
from aleator.data.vocabulary import NUMBERS, Vocabulary
from aleator.errors import AleatorError, require, unknown_name

Where = Mapping[str, Any]  # {attribute: what is wanted}
MARK = "|"  # separates several texts of one item, as in "Action|Comedy"
TEXTS, BOOLEANS = np.dtypes.StringDType(), np.dtype(bool)


@dataclass(frozen=True, eq=False)
class Attribute:
    """The values of one attribute, a row for each value: an item may have none or several."""

    item: NDArray[np.int32]  # [n] dense id of the item of each value, ascending
    values: Array  # [n] texts, booleans, integers or floats

    @classmethod
    def of(cls, item: Any, values: Sequence[Any], name: str) -> Attribute:
        """From one value for each row, [n]. `item` are dense ids; rows of -1 and missing values are left out.

        A list is several values, and so is a text with `MARK` in it.
        """
        rows = [(place, value) for place, cell in zip(item, values, strict=True) for value in _several(cell)]
        kinds = {_kind(value) for _, value in rows}
        require(
            len(kinds) < 2, f"attribute '{name}' holds {' and '.join(sorted(kinds))}", "make them all of the same kind"
        )
        kept = sorted({row for row in rows if row[0] >= 0})
        found = [value for _, value in kept]
        try:
            typed = np.array(found, TEXTS if kinds == {"texts"} else None)
            typed = typed.astype(np.float64) if typed.dtype == object else typed  # integers of more than 64 bits
        except OverflowError:
            raise AleatorError(f"attribute '{name}' holds a number above 1e308", "check the column") from None
        return cls(np.array([place for place, _ in kept], np.int32), typed)

    @property
    def kind(self) -> str:
        """What the values are: texts, booleans or numbers."""
        return "texts" if self.values.dtype == TEXTS else "booleans" if self.values.dtype == BOOLEANS else "numbers"

    def moved(self, new: Array) -> Attribute:
        """The same attribute where item i has the dense id `new[i]`. Items of -1 are left out."""
        item = new[self.item].astype(np.int32)
        kept = np.flatnonzero(item >= 0)
        order = kept[np.argsort(item[kept], kind="stable")]
        return Attribute(item[order], self.values[order])

    def joined(self, other: Attribute, name: str) -> Attribute:
        """The values of both."""
        kinds = f"{self.kind} in one part and {other.kind} in another"
        require(self.kind == other.kind, f"attribute '{name}' holds {kinds}", "make them all of the same kind")
        item, values = np.r_[self.item, other.item].tolist(), np.concatenate([self.values, other.values]).tolist()
        return Attribute.of(item, [[value] for value in values], name)

    def matching(self, name: str, wanted: Any, n_items: int) -> NDArray[np.bool_]:
        """Which items have what is wanted, a mask [n_items]; see `matching`."""
        require(len(self.item) > 0, f"no item has a value of {name}", "filter by another attribute")
        several = isinstance(wanted, Iterable) and not isinstance(wanted, (str, tuple))
        mask = np.zeros(n_items, bool)
        for one in list(wanted) if several else [wanted]:
            here = self._within(name, *one) if isinstance(one, tuple) and len(one) == 2 else self._equal(name, one)
            mask[self.item[here]] = True
        return mask

    def parse(self, name: str, text: str) -> Any:
        """What a text of the shell asks for: a value, or a range of numbers such as 1990..1999, 1990.. or ..1999."""
        if self.kind == "texts":
            return text
        if self.kind == "booleans":
            require(text.lower() in ("true", "false"), f"{name} is '{text}'", "give true or false")
            return text.lower() == "true"
        low, dots, high = text.partition("..")
        try:
            ends = [None if dots and not end else _number(end) for end in ((low, high) if dots else (low,))]
        except ValueError:
            told = "give a number, or a range such as 1990..1999, 1990.. or ..1999"
            raise AleatorError(f"{name} is '{text}' but it holds numbers", told) from None
        return tuple(ends) if dots else ends[0]

    def _equal(self, name: str, value: Any) -> NDArray[np.bool_]:
        fits = _kind(value) == self.kind
        told = "a pair (low, high), or a list of these" if self.kind == "numbers" else "or a list of several"
        require(fits, f"{name} is {value!r} but it holds {self.kind}", f"give one of its values, {told}")
        here: NDArray[np.bool_] = self.values == value
        if not here.any():
            raise AleatorError(f"no item has the {name} {value!r}", self._nearest(value))
        return here

    def _within(self, name: str, low: Any, high: Any) -> NDArray[np.bool_]:
        pair = f"{name} is {(low, high)!r}"
        require(self.kind == "numbers", f"{pair} but it holds {self.kind}", "give a list for any of several values")
        fits = all(end is None or _kind(end) == "numbers" for end in (low, high))
        require(fits, pair, "give a pair of numbers, with None for an open end")
        least, most = self.values.min(), self.values.max()
        here: NDArray[np.bool_] = self.values >= (least if low is None else low)
        here &= self.values <= (most if high is None else high)
        ends = f"{'' if low is None else low}..{'' if high is None else high}"
        require(bool(here.any()), f"no item has a {name} in {ends}", f"it goes from {least} to {most}")
        return here

    def _nearest(self, value: Any) -> str:
        """The known value that is nearest to an unknown one, for people."""
        if self.kind == "numbers":
            return f"the nearest is {self.values[np.abs(self.values - value).argmin()]}"
        known = np.unique(self.values).tolist()
        near = difflib.get_close_matches(str(value), map(str, known), n=1, cutoff=0.5)
        some = f"known: {', '.join(map(repr, known[:10]))}{' and more' if len(known) > 10 else ''}"
        return f"did you mean {near[0]!r}? K{some[1:]}" if near else some


def matching(attributes: Mapping[str, Attribute], where: Where, n_items: int) -> NDArray[np.bool_]:
    """Which items pass all filters, a mask [n_items].

    Args:
        attributes: The attributes of the items by name.
        where: What is wanted of each attribute: a value, a pair (low, high) of numbers, both included and None for an
            open end, or a list of these, of which any will do. An item without a value does not pass.
        n_items: Number of items.
    """
    require(isinstance(where, Mapping), f"where is {where!r}", "give {attribute: value}, such as {'genre': 'Drama'}")
    mask = np.ones(n_items, bool)
    for name, wanted in where.items():
        mask &= named(attributes, name).matching(name, wanted, n_items)
    return mask


def named(attributes: Mapping[str, Attribute], name: str) -> Attribute:
    """One of the attributes. An unknown name is an error."""
    require(
        bool(attributes),
        "the data has no attributes of items",
        "give them with al.read(attributes=) or data.with_attributes (--attributes in a shell)",
    )
    if name not in attributes:
        raise unknown_name("attribute", str(name), attributes)
    return attributes[name]


def parse_where(attributes: Mapping[str, Attribute], texts: Sequence[str]) -> dict[str, Any]:
    """The filters of a shell, such as genre=Drama or year=1990..1999. Of several for one attribute, any will do."""
    where: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        require(bool(equals and value), f"where is '{text}'", "give an attribute and a value, such as genre=Drama")
        where.setdefault(name, []).append(named(attributes, name).parse(name, value))
    return where


def read_attributes(
    source: Any, item: str | None, items: Vocabulary, encoding: str
) -> tuple[dict[str, Attribute], list[str]]:
    """The attributes of a table of items by the names of its columns, and notes.

    Args:
        source: A file (csv, tsv, parquet), a frame, or a dict of columns.
        item: Name of the column of items. If there is none of that name, it is the first with a usual name, or else the
            first of all.
        items: The items of the data.
        encoding: Encoding of a text file.
    """
    columns, where, texts = _columns(source, encoding)
    require(len(columns) > 1, f"{where} has {len(columns)} columns", "give a column of items and columns of attributes")
    usual = [*ALIASES["item"].split(), "id"]
    found = item if item in columns else next((name for name in columns if name.lower() in usual), next(iter(columns)))
    assert found is not None
    ids = columns.pop(found)
    place_of = {str(item_id): place for place, item_id in enumerate(items.ids.tolist())}
    place = [place_of.get(str(item_id), -1) for item_id in ids]
    known = len({p for p in place if p >= 0})
    told = f"column '{found}' of {where} holds no item of the data"
    require(known > 0, told, "name the column of items with item= (--item in a shell)")
    without, strangers = len(items) - known, sum(p < 0 for p in place)
    notes = [f"attributes: {without} of {len(items)} items have no row, and so no value"] if without else []
    notes += [f"attributes: {strangers} of {len(ids)} rows are of other items"] if strangers else []
    made = {name: Attribute.of(place, _typed(v) if texts else v, name) for name, v in columns.items()}
    return {name: attribute for name, attribute in made.items() if len(attribute.item)}, notes


def _columns(source: Any, encoding: str) -> tuple[dict[str, list[Any]], str, bool]:
    """The columns of a table as lists of values, what it is called in messages, and whether all values are texts."""
    if isinstance(source, Mapping):
        columns = {str(name): list(values) for name, values in source.items()}
        same = len({len(values) for values in columns.values()}) == 1
        require(same, "the columns of the attributes differ in length", "give one value for each item in every column")
        return columns, "the dict of attributes", False
    if not isinstance(source, (str, os.PathLike)):
        frame = opened(source)
        return {str(name): frame[name].to_list() for name in frame.columns}, "the frame of attributes", False
    path = Path(source)
    require_file(path)
    format = format_of(path)
    require(format not in WITHOUT_HEADER, f"'{path}' has no names of columns", "give a csv, tsv or parquet file")
    table = read_table(path, format, Reading(encoding=encoding))
    return {name: table[name].to_list() for name in table.columns}, f"'{path}'", format != "parquet"


def _typed(texts: list[str | None]) -> list[Any]:
    """A column of a text file as what its texts stand for: numbers, booleans, or texts. Empty ones are missing."""
    filled = [text or None for text in texts]
    for read in (_number, {"true": True, "false": False}.__getitem__):
        try:
            return [None if text is None else [read(part.lower()) for part in text.split(MARK)] for text in filled]
        except (ValueError, KeyError):
            continue
    return filled


def _number(text: str) -> int | float:
    """A text as a number. "007" is none: it is a code."""
    if re.match(r"-?0\d", text):
        raise ValueError
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _several(cell: Any) -> list[Any]:
    """The values of one cell, without missing ones. What is neither a text nor a number becomes a text."""
    if isinstance(cell, str):
        return [part.strip() for part in cell.split(MARK) if part.strip()]
    found = []
    for value in cell if isinstance(cell, (list, tuple, set, np.ndarray)) else [cell]:
        plain = value.item() if isinstance(value, np.generic) else float(value) if _kind(value) == "Decimal" else value
        if not _is_missing(plain):
            found.append(plain if isinstance(plain, (str, bool, int, float)) else str(plain))
    return found


def _is_missing(value: Any) -> bool:
    nothing = value is None or type(value).__name__ in ("NAType", "NaTType")
    return nothing or value == "" or (isinstance(value, NUMBERS) and value != value)  # NaN does not equal itself


def _kind(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "booleans"
    return "texts" if isinstance(value, str) else "numbers" if isinstance(value, NUMBERS) else type(value).__name__
