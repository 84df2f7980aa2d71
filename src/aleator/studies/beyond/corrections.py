"""Beyond the paper: two corrections of the estimator's training, switched on one at a time."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.studies import records
from aleator.studies.methods import FLOORS, Method, under_aur
from aleator.studies.paper.main import SHOWN, conventions, sentences
from aleator.studies.records import Measured, Record
from aleator.studies.report.cells import Cell
from aleator.studies.report.tables import Block, Table, figure_of, seeds_of, signs, words
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, accuracy

BACKBONES = ("MF", "GraphFilter")
EXCLUDE, RESIDUALS = "estimator.self_exclude", "residuals"  # the options of the two corrections
PLAIN = {EXCLUDE: False, RESIDUALS: "in-sample"}


def cells(bench: Workbench) -> list[Method]:
    choices = [{EXCLUDE: on, RESIDUALS: residuals} for on in (False, True) for residuals in ("in-sample", "loo")]
    return [*map(Method, FLOORS), *(Method(under_aur(bare), choice) for bare in BACKBONES for choice in choices)]


def measure(bench: Workbench, method: Method) -> Measured:
    return accuracy(bench, method, Method(method.name, PLAIN) if method.uncertain else None)


def show(rows: Sequence[Record]) -> list[Block]:
    found: dict[tuple[str, bool, str], list[Record]] = {}
    for row in rows:
        if settings := row.get("settings"):
            found.setdefault((row["method"], settings[EXCLUDE], settings[RESIDUALS]), []).append(row)
    lines: list[list[Cell]] = [
        [method, None, None, *(figure_of(runs, *shown) for shown in SHOWN)]
        for method, runs in seeds_of([row for row in rows if not row.get("settings")]).items()
    ]
    lines += [
        [method, "left out" if excluded else "counts", residuals, *(figure_of(runs, *shown) for shown in SHOWN)]
        for (method, excluded, residuals), runs in sorted(found.items())
    ]
    heads = ["method", "an observed item in its own history", "residuals of observed pairs"]
    caption = sentences(
        f"{records.about(rows)}: the first row of each AUR has neither correction. All its other options are ours, "
        "not the paper's. Compare the other rows of the method with it.",
        conventions(rows),
        signs("that row"),
    )
    return [Table([*heads, *(f"{words(p)} {m}" for p, m in SHOWN)], lines, caption)]


STUDY = Study(
    name="beyond",
    part="corrections",
    title="Beyond: two corrections of the estimator",
    question="An observed item is part of its own history, and its residual is measured on a pair that the model was "
    "fitted to. What changes when the item is left out, and when its residual is predicted out of sample?",
    cells=cells,
    measure=measure,
    show=show,
    order=FLOORS,
)
