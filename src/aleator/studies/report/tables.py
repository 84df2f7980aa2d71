"""Block: what a study shows, a table or a figure, to be set in HTML or markdown; and how seeds become one figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]
Cell = str | float | None
DASH = "\N{EN DASH}"  # for what is not known
UP, DOWN = "\N{BLACK UP-POINTING TRIANGLE}", "\N{BLACK DOWN-POINTING TRIANGLE}"


@dataclass(frozen=True)
class Table:
    """The first column names the rows. A float is a figure of four decimals, None a dash; text stays as it is."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str

    def markdown(self) -> str:
        """As a table of markdown, without the caption."""
        lines = [f"| {' | '.join(self.columns)} |", "|---" * len(self.columns) + "|"]
        lines += [f"| {' | '.join(_text(cell) for cell in row)} |" for row in self.rows]
        return "\n".join(lines)


@dataclass(frozen=True)
class Picture:
    """A figure with what to see in it."""

    figure: Figure
    caption: str
    alt: str


Block = Table | Picture


def _text(cell: Cell) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return DASH
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell).replace("*", "\\*").replace("|", "\\|")


class Shown(str):
    """A figure as it is written, and the number that it is sorted by."""

    value: float

    def __new__(cls, text: str, value: float) -> Self:
        made = super().__new__(cls, text)
        made.value = value
        return made


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % interval by Student's t; NaN for one value, and for none."""
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    mean, n = float(known.mean()) if len(known) else math.nan, len(known)
    if n < 2:
        return mean, math.nan
    return mean, float(stats.t.ppf(0.975, n - 1) * known.std(ddof=1) / n**0.5)


def seeds_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The records of each cell, one a seed, by method and options."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        options = [f"{name}={value}" for name, value in sorted(row.get("settings", {}).items())]
        found.setdefault(" ".join([row["method"], *options]), []).append(row)
    return found


def values(rows: Sequence[Row], protocol: str, metric: str) -> list[float]:
    """One metric of each record; NaN where nobody has ground truth."""
    found = (row["metrics"][protocol][metric] for row in rows)
    return [math.nan if value is None else value for value in found]


def figure_of(rows: Sequence[Row], protocol: str, metric: str, digits: int = 4) -> Cell:
    """The mean over seeds, ± the half width of its 95 % interval, with `UP` or `DOWN` where all tests agree."""
    mean, half = interval(values(rows, protocol, metric))
    if math.isnan(mean):
        return None
    text = f"{mean:.{digits}f}" + ("" if math.isnan(half) else f" ±{half:.{digits}f}")
    signs = {significant(row, protocol, metric) for row in rows}
    return Shown(f"{text} {signs.pop() if len(signs) == 1 else ''}".rstrip(), mean)


def significant(row: Row, protocol: str, metric: str) -> str:
    """`UP` or `DOWN` where a record differs from what it was tested against, p < 0.05; nothing otherwise."""
    for test in row.get("against", {}).get("tests", []):
        if (test["protocol"], test["metric"]) == (protocol, metric) and test["p"] is not None and test["p"] < 0.05:
            return UP if test["mean"] > test["baseline"] else DOWN
    return ""


def signs(against: str) -> str:
    """What the signs of `figure_of` mean, for a caption."""
    return f"{UP} higher, {DOWN} lower than {against} with p < 0.05 in every seed (two-sided paired t-test over users"


def change(ours: float, theirs: float | None) -> Cell:
    """A difference in per cent, where there is something to compare with."""
    return Shown(f"{ours / theirs - 1:+.1%}", ours / theirs - 1) if theirs else None
