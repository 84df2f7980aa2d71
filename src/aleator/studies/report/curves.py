"""Accuracy as one option grows: a figure of two panels, and the table behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aleator.studies.paper.main import TESTS, conventions, untuned
from aleator.studies.report.tables import Cell, Row, Table, figure_of, interval, values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = (("overall", "recall@50"), ("tail_absolute", "recall@50"))


def series(rows: Sequence[Row], option: str) -> dict[str, dict[float, list[Row]]]:
    """The records of each method by the value of the option, ascending."""
    found: dict[str, dict[float, list[Row]]] = {}
    for row in sorted(rows, key=lambda row: row["settings"][option]):
        found.setdefault(row["method"], {}).setdefault(row["settings"][option], []).append(row)
    return found


def curves(rows: Sequence[Row], option: str, label: str, log: bool = False) -> Figure:
    """Recall@50 overall and on the tail against the option, one line a method, bars of the 95 % interval over seeds."""
    from aleator.studies.report import plots

    lines = {
        protocol.replace("_", " "): {
            method: {x: interval(values(runs, protocol, metric)) for x, runs in points.items()}
            for method, points in series(rows, option).items()
        }
        for protocol, metric in SHOWN
    }
    return plots.lines(lines, label, "Recall@50", log=log)


def table(rows: Sequence[Row], option: str, label: str) -> Table:
    """What the figure shows, in numbers."""
    lines: list[list[Cell]] = [
        [method, f"{x:g}", *(figure_of(runs, protocol, metric) for protocol, metric in SHOWN), f"{len(runs)}"]
        for method, points in series(rows, option).items()
        for x, runs in points.items()
    ]
    heads = ["method", label, "overall recall@50", "tail absolute recall@50", "seeds"]
    about = f"{rows[0]['dataset']}, recipe {rows[0]['recipe']}: the figures behind the curves."
    return Table(heads, lines, f"{about} {conventions(rows)} {TESTS}.{untuned(rows)}")
