"""Accuracy as one option grows: a figure of two panels, and its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aleator.studies import records
from aleator.studies.paper.main import TESTS, conventions, sentences, untuned
from aleator.studies.records import Record
from aleator.studies.report.cells import Cell, number
from aleator.studies.report.tables import Table, count, figure_of, interval, seeds_of, values, words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = (("overall", "recall@50"), ("tail_absolute", "recall@50"))


def series(rows: Sequence[Record], option: str) -> dict[str, dict[float, list[Record]]]:
    """The records of each method by the value of the option, ascending. Records without the option are left out."""
    found: dict[str, dict[float, list[Record]]] = {}
    having = [row for row in rows if option in row.get("settings", {})]
    for row in sorted(having, key=lambda row: row["settings"][option]):
        found.setdefault(row["method"], {}).setdefault(row["settings"][option], []).append(row)
    return found


def curves(rows: Sequence[Record], option: str, label: str, *, log: bool = False) -> Figure:
    """Recall@50 overall and on the tail against the option: a line for each method, with 95 % intervals over seeds."""
    from aleator.studies.report import plots

    lines = {
        words(protocol): {
            method: {x: interval(values(runs, protocol, metric)) for x, runs in points.items()}
            for method, points in series(rows, option).items()
        }
        for protocol, metric in SHOWN
    }
    return plots.lines(lines, label, "Recall@50", log=log)


def table(rows: Sequence[Record], option: str, label: str) -> Table:
    """The numbers of the figure, below those of methods that do not have the option."""
    floors = seeds_of([row for row in rows if option not in row.get("settings", {})])
    listed: list[tuple[str, float | None, list[Record]]] = [(method, None, runs) for method, runs in floors.items()]
    listed += [(method, x, runs) for method, points in series(rows, option).items() for x, runs in points.items()]
    lines: list[list[Cell]] = [
        [method, number(x), *(figure_of(runs, protocol, metric) for protocol, metric in SHOWN), count(len(runs))]
        for method, x, runs in listed
    ]
    heads = ["method", label, "overall recall@50", "tail absolute recall@50", "seeds"]
    about = f"{records.about(rows)}: the figures behind the curves."
    return Table(heads, lines, sentences(about, conventions(rows), TESTS, untuned(rows)))
