"""Block: a table or a figure of a study. Also: how the figures of several seeds become one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from aleator.recipe import recipe_of
from aleator.studies.methods import key_of
from aleator.studies.records import PairedTest, Record
from aleator.studies.report.cells import DASH, DOWN, UP, Cell, Shown, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAMILY = "all metrics and protocols of the method in that seed"  # of Holm's correction
__all__ = ["DASH", "DOWN", "UP", "Block", "Cell", "Picture", "Shown", "Table", "number"]


@dataclass(frozen=True)
class Table:
    """The first column names the rows. A float has four decimals, None is a dash, and text stays as it is."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str

    def markdown(self) -> str:
        """A table in markdown, without the caption."""
        lines = [f"| {' | '.join(self.columns)} |", "|---" * len(self.columns) + "|"]
        lines += [f"| {' | '.join(_text(cell) for cell in row)} |" for row in self.rows]
        return "\n".join(lines)


@dataclass(frozen=True)
class Picture:
    """A figure. Its caption says what to see in it."""

    figure: Figure
    caption: str
    alt: str


Block = Table | Picture


def _text(cell: Cell) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return DASH
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell).replace("*", "\\*").replace("|", "\\|")


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean and half the width of its 95 % interval by Student's t. The latter is NaN for fewer than two values."""
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    mean, n = float(known.mean()) if len(known) else math.nan, len(known)
    if n < 2:
        return mean, math.nan
    return mean, float(stats.t.ppf(0.975, n - 1) * known.std(ddof=1) / n**0.5)


def seeds_of(rows: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each cell, one for each seed, by method and options."""
    found: dict[str, list[Record]] = {}
    for row in rows:
        found.setdefault(key_of(row["method"], row.get("settings", {})), []).append(row)
    return found


def values(rows: Sequence[Record], protocol: str, metric: str) -> list[float]:
    """One metric of each record; NaN where nobody has ground truth."""
    found = (row["metrics"][protocol][metric] for row in rows)
    return [math.nan if value is None else value for value in found]


def mean_of(rows: Sequence[Record], protocol: str, metric: str) -> float:
    """The mean of one metric over the seeds."""
    return interval(values(rows, protocol, metric))[0]


def figure_of(rows: Sequence[Record], protocol: str, metric: str, digits: int = 4) -> Cell:
    """The mean over seeds, ± half the width of its 95 % interval, with `UP` or `DOWN` where all tests agree."""
    mean, half = interval(values(rows, protocol, metric))
    if math.isnan(mean):
        return None
    note = "" if math.isnan(half) else f"±{half:.{digits}f}"
    found = {significant(row, protocol, metric) for row in rows}
    return Shown(f"{mean:.{digits}f}", mean, note=note, sign=found.pop() if len(found) == 1 else "")


def count(n: int) -> Shown:
    """A whole number, such as how many seeds a row has."""
    return Shown(str(n), n)


def tests_of(row: Record) -> list[PairedTest]:
    """The paired tests of a record, if it has any."""
    return row["against"]["tests"] if "against" in row else []


def significant(row: Record, protocol: str, metric: str) -> str:
    """`UP` or `DOWN` where a record differs from what it was tested against with p < 0.05; nothing otherwise."""
    for test in tests_of(row):
        if (test["protocol"], test["metric"]) == (protocol, metric) and test["p"] is not None and test["p"] < 0.05:
            assert test["mean"] is not None
            assert test["baseline"] is not None
            return UP if test["mean"] > test["baseline"] else DOWN
    return ""


def signs(against: str, *, corrected: bool = True) -> str:
    """A sentence that says what the signs of `figure_of` mean, for a caption."""
    holm = f", Holm-corrected over {FAMILY}" if corrected else ", without a correction: it is one test for each method"
    told = f"{UP} and {DOWN} mark figures above and below {against} with p < 0.05 in every seed"
    return f"{told} (two-sided paired t-test over users{holm})."


def over_seeds(rows: Sequence[Record]) -> str:
    """A sentence that says what ± is, for the caption of a table that has it."""
    several = any(len(runs) > 1 for runs in seeds_of(rows).values())
    return "± is half the width of the 95 % interval of the mean over seeds (Student's t)." if several else ""


def rule(rows: Sequence[Record]) -> str:
    """A sentence that says how lam was chosen, for a caption. Nothing where no record has a lam that was chosen."""
    by: dict[str, dict[str, None]] = {}
    for row in rows:
        if "select" in row["config"] and row["config"].get("lam") == "auto":
            by.setdefault(row["config"]["select"], {})[key_of(row["method"], row.get("settings", {}))] = None
    part = "the test part" if recipe_of(rows[0]["recipe"]).on_test else "validation"
    if len(by) == 1:
        return f"lam chosen by select={next(iter(by))} on {part}."
    told = [f"select={select} ({', '.join(methods)})" for select, methods in by.items()]
    return f"lam chosen on {part} by {' and '.join(told)}." if told else ""


def change(ours: float, theirs: float | None) -> Cell:
    """The relative difference in per cent, where there is something to compare with."""
    return Shown(f"{ours / theirs - 1:+.1%}", ours / theirs - 1) if theirs else None


def words(protocol: str) -> str:
    """The name of a protocol in prose."""
    return protocol.replace("_", " ")
