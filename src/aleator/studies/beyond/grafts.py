"""Beyond the paper: grafts. Models that other libraries fitted, bare, under AUR, and beside the simplest control.

A model is fitted on the training pairs without the validation part, on which lam is chosen. Neither it nor the estimator
is refitted, so both know the same pairs. All models have 64 dimensions, which makes them alike and their files small. A
model has a cell if its library is installed, or if it was handed over as a file.
"""

from __future__ import annotations

from collections.abc import Sequence

from aleator.studies import records
from aleator.studies.beyond.default import HEADS, by_cell, floors, how, line
from aleator.studies.beyond.default import measure as beside_bare
from aleator.studies.elsewhere import at_hand, version_of
from aleator.studies.methods import FLOORS, GRAFTS, Method, under_aur
from aleator.studies.records import Measured, Record
from aleator.studies.report.tables import Block, Table
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench

SETTING = {"model.factors": 64}


def cell(name: str) -> Method:
    """AUR on a model of another library, as the study measures it."""
    return Method(under_aur(name), SETTING)


def cells(bench: Workbench) -> list[Method]:
    grafted = [cell(name) for name in GRAFTS if at_hand(name, bench.split.name, bench.seed)]
    return [*map(Method, FLOORS), *grafted]


def measure(bench: Workbench, method: Method) -> Measured:
    row = beside_bare(bench, method)
    if method.base.grafted:
        row["library"] = version_of(method.backbone, bench.split.name, bench.seed)
    return row


def show(rows: Sequence[Record]) -> list[Block]:
    low = [row for row in rows if row["method"] in FLOORS]
    found = by_cell([row for row in rows if row["method"] not in FLOORS])
    lines = [[cell.rows[0]["method"], cell.rows[0]["library"], *line(cell)[2:]] for cell in found]
    caption = (
        f"{records.about(rows)}: models of other libraries, grafted. The bare model and AUR know the training pairs "
        "without the validation part. See whether AUR loses overall, and what it "
        f"does to the tail. lam, the discount and a are chosen on validation. {how(rows)}"
    )
    return [Table(["method", "library", *HEADS[2:]], lines, caption), *floors(low)]


STUDY = Study(
    name="beyond",
    part="grafts",
    title="Beyond: grafts",
    question="What does AUR add to a model that another library fitted, and that is not trained again?",
    cells=cells,
    measure=measure,
    show=show,
    order=FLOORS,
    applies=lambda bench: bench.world is None and not bench.recipe.on_test,
)
