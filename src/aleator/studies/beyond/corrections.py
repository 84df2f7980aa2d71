"""Beyond the paper: two corrections of the estimator's training, switched on one at a time."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.studies.methods import Method
from aleator.studies.paper.main import SHOWN, conventions
from aleator.studies.report.tables import Block, Cell, Row, Table, figure_of, signs
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, accuracy

BACKBONES = ("MF", "GraphFilter")
PLAIN = {"estimator.self_exclude": False, "residuals": "in-sample"}


def cells(bench: Bench) -> list[Method]:
    choices = [
        PLAIN | {"estimator.self_exclude": on, "residuals": r} for on in (False, True) for r in ("in-sample", "loo")
    ]
    return [Method(f"{bare}-AUR", choice) for bare in BACKBONES for choice in choices]


def show(rows: Sequence[Row]) -> list[Block]:
    found: dict[tuple[str, bool, str], list[Row]] = {}
    for row in rows:
        settings = row["settings"]
        key = row["method"], settings["estimator.self_exclude"], settings["residuals"]
        found.setdefault(key, []).append(row)
    lines: list[list[Cell]] = [
        [method, "left out" if excluded else "counts", residuals, *(figure_of(runs, *shown) for shown in SHOWN)]
        for (method, excluded, residuals), runs in sorted(found.items())
    ]
    heads = ["method", "an observed item in its own history", "residuals of observed pairs"]
    caption = (
        f"{rows[0]['dataset']}, recipe {rows[0]['recipe']}: the first row of each method has neither correction (all "
        f"else is ours, not the paper's). {conventions(rows)} {signs('that row')}, Holm-corrected)."
    )
    return [Table([*heads, *(f"{p.replace('_', ' ')} {m}" for p, m in SHOWN)], lines, caption)]


STUDY = Study(
    name="beyond",
    part="corrections",
    title="Beyond: two corrections of the estimator",
    question="An observed item is part of its own history, and its residual is measured on a pair that the model was "
    "fitted to. What do leaving it out and predicting it out of sample change?",
    cells=cells,
    measure=lambda bench, method: accuracy(bench, method, Method(method.name, PLAIN)),
    show=show,
)
