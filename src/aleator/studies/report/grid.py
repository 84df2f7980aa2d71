"""A table as HTML: columns of numbers are aligned on the decimal point, and any column sorts.

A number stands at the right edge of its cell. What follows the point (decimals, a note such as ±0.01, a sign) stands in
boxes that are equally wide in all cells of the column, so that the points are below each other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from numbers import Integral, Real
from typing import Any, Literal, TypeGuard

from aleator.studies.report.cells import DASH, DOWN, UP, Shown
from aleator.studies.report.markup import inline

Best = Literal["max", "min"]
DENSE = 12  # a table with so many columns is set closer, to fit a laptop's screen
_DECIMALS = ((1.05, 4), (10, 3), (1000, 2), (math.inf, 1))  # of a column by its largest number; Recalls have four
# at least the widths of letters in digits; all others are at most as wide as a digit
_WIDTHS = {".": 0.6, ",": 0.6, " ": 0.6, "(": 0.7, ")": 0.7, "%": 1.6, "±": 1.4, "+": 1.4, "<": 1.4, UP: 1.5, DOWN: 1.5}


@dataclass(frozen=True)
class Parts:
    """The text of a cell, cut where it is aligned."""

    whole: str  # up to the point; all of the text where there is no number
    decimals: str = ""
    note: str = ""
    sign: str = ""


@dataclass(frozen=True)
class Column:
    """One column. `best` says which number is bold, if any."""

    name: str
    cells: Sequence[object]
    best: Best | None = None

    @cached_property
    def numeric(self) -> bool:
        return any(sort_key(cell) is not None for cell in self.cells)

    @cached_property
    def bold(self) -> float | None:
        """The number that is bold."""
        numbers = [float(cell) for cell in self.cells if self.best and _is_number(cell)]
        return (max if self.best == "max" else min)(numbers, default=None)

    @cached_property
    def parts(self) -> list[Parts]:
        """The cells as text. Floats share a number of decimals."""
        largest = max((abs(float(cell)) for cell in self.cells if _is_number(cell)), default=0.0)
        decimals = next(digits for bound, digits in _DECIMALS if largest <= bound)
        return [_parts(cell, decimals) for cell in self.cells]

    @cached_property
    def boxes(self) -> dict[str, float | None]:
        """The width of the box of each part in digits; None where all cells have the same shape and need no box."""
        shown = [parts for parts, cell in zip(self.parts, self.cells, strict=True) if sort_key(cell) is not None]
        return {name: _box_width([getattr(parts, name) for parts in shown]) for name in ("decimals", "note", "sign")}

    def cell(self, row: int, tag: str) -> str:
        """One cell as HTML; `tag` is td, or th for the name of the row."""
        value, parts = self.cells[row], self.parts[row]
        key = sort_key(value)
        data = "" if key is None else f' data-value="{key!r}"'
        number = escape(parts.whole) + self._boxed("decimals", parts.decimals)
        if _is_number(value) and float(value) == self.bold:
            number = f"<strong>{number}</strong>"
        more = [self._boxed(name, text) for name, text in (("note", parts.note), ("sign", parts.sign))]
        scope = ' scope="row"' if tag == "th" else ""
        return f'<{tag}{scope} class="{self.kind}"{data}>{" ".join(filter(None, [number, *more]))}</{tag}>'

    def _boxed(self, part: str, text: str) -> str:
        """A part of a cell, in its box where the column has one. A note is set smaller, so it has a class."""
        width = self.boxes[part]
        attributes = ' class="aside"' if part == "note" else ""
        attributes += "" if width is None else f' style="min-width:{width:g}ch"'
        return f"<span{attributes}>{escape(text)}</span>" if attributes and (text or width) else escape(text)

    @property
    def kind(self) -> str:
        return "num" if self.numeric else ""

    def head(self) -> str:
        """The cell of the first row: a button that sorts."""
        return f'<th scope="col" class="{self.kind}"><button type="button">{escape(self.name)}</button></th>'


def table(columns: Sequence[Column], n_rows: int, caption: str, name: str) -> str:
    """The whole table, in a region that scrolls where the screen is too narrow. The first column names the rows."""
    head = "".join(column.head() for column in columns)
    lines = [
        "".join(column.cell(row, "td" if place else "th") for place, column in enumerate(columns))
        for row in range(n_rows)
    ]
    dense = ' class="dense"' if len(columns) >= DENSE else ""
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}"><table{dense}>'
        f'<caption><span id="{name}">{inline(caption)}</span></caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def sort_key(cell: object) -> float | None:
    """The number that a cell is sorted by, if it has one."""
    if isinstance(cell, Shown):
        return cell.value if math.isfinite(cell.value) else None
    return float(cell) if _is_number(cell) else None


def _is_number(cell: object) -> TypeGuard[float]:
    return isinstance(cell, Real) and not isinstance(cell, bool) and math.isfinite(cell)


def _parts(cell: object, decimals: int) -> Parts:
    if isinstance(cell, Shown):
        number, note, sign = cell.parts
        return Parts(*_at_point(number), note, sign)
    text = _text(cell, decimals)
    return Parts(*_at_point(text)) if _is_number(cell) else Parts(text)


def _at_point(number: str) -> tuple[str, str]:
    whole, point, decimals = number.partition(".")
    return whole, point + decimals


def _text(cell: Any, decimals: int) -> str:
    if cell is None or (isinstance(cell, Real) and not math.isfinite(cell)):
        return DASH
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, Integral):
        return f"{int(cell):,}"
    if not isinstance(cell, Real):
        return str(cell)
    vanishes = cell and abs(cell) < 0.5 * 10**-decimals  # a p-value of 1e-7 is not 0
    return f"{float(cell):.0e}" if vanishes else f"{float(cell):,.{decimals}f}"


def _box_width(texts: Sequence[str]) -> float | None:
    """The width in digits that holds each of the texts; None where they have one shape."""
    if len({re.sub(r"\d", "0", text) for text in texts}) <= 1:
        return None
    return max(round(sum(_WIDTHS.get(letter, 1.0) for letter in text), 1) for text in texts)
