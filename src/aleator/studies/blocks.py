"""Block: what a study shows, a table or a figure, to be set in HTML or markdown; and how seeds become one figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]
Cell = str | float | None
DASH = "\N{EN DASH}"  # for what is not known


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


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % interval by Student's t; NaN for one value."""
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return mean, math.nan
    return mean, float(stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / n**0.5)


def seeds_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The records of each cell, one a seed, by method and options."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        options = [f"{name}={value}" for name, value in sorted(row.get("settings", {}).items())]
        found.setdefault(" ".join([row["method"], *options]), []).append(row)
    return found


def values(rows: Sequence[Row], protocol: str, metric: str) -> list[float]:
    """One metric of each record."""
    return [row["metrics"][protocol][metric] for row in rows]


def figure_of(rows: Sequence[Row], protocol: str, metric: str, digits: int = 4) -> str:
    """The mean over seeds, ± the half width of its 95 % interval, * where every seed differs significantly."""
    mean, half = interval(values(rows, protocol, metric))
    text = f"{mean:.{digits}f}" + ("" if math.isnan(half) else f" ±{half:.{digits}f}")
    tests = [p_value(row, protocol, metric) for row in rows]
    return text + (" *" if all(p is not None and p < 0.05 for p in tests) else "")


def p_value(row: Row, protocol: str, metric: str) -> float | None:
    """Of the paired test over users, Holm-corrected, against what the record was tested against."""
    for test in row.get("against", {}).get("tests", []):
        if (test["protocol"], test["metric"]) == (protocol, metric):
            return float(test["p"])
    return None


def against(ours: float, theirs: float | None) -> str | None:
    """A difference in per cent, where there is something to compare with."""
    return f"{ours / theirs - 1:+.1%}" if theirs else None
