"""The tail-controlling weight: overall and tail accuracy as alpha grows."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.aur import AUR
from aleator.evaluation.protocols import evaluate
from aleator.studies import records
from aleator.studies.methods import Method
from aleator.studies.records import Measured, Record
from aleator.studies.report.curves import curves, table
from aleator.studies.report.tables import Block, Picture
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, accuracy

OPTION = "alpha"


def cells(bench: Workbench) -> list[Method]:
    return [Method("MF-AUR", {OPTION: float(value)}) for value in ((1, 3) if bench.quick else range(1, 6))]


def measure(bench: Workbench, method: Method) -> Measured:
    """Accuracy at the chosen lam, and of the uncertainty alone: a chosen lam of 1 would hide what alpha does."""
    system = bench.fit(method)
    assert isinstance(system, AUR)
    alone = evaluate(system.at(0.0), bench.split, recipe=bench.recipe.name).to_dict()
    row = accuracy(bench, method, method.bare, system)
    row["alone"] = {protocol: alone[protocol] for protocol in row["metrics"]}
    return row


def alone(row: Record) -> Record:
    """The record of the uncertainty alone. Nothing was tested against it."""
    return row | {"method": "uncertainty alone", "metrics": row["alone"], "against": {"method": "", "tests": []}}


def show(rows: Sequence[Record]) -> list[Block]:
    both = [*rows, *map(alone, rows)]
    picture = Picture(
        curves(both, OPTION, "alpha"),
        f"{records.about(rows)}: Recall@50 of MF-AUR by alpha, at the lam chosen for each alpha, and of the uncertainty "
        "alone (lam = 0). The paper finds that the tail keeps rising with alpha. See whether it does here, and what it "
        "costs overall.",
        "Recall@50 of MF-AUR by alpha, overall and tail absolute",
    )
    return [picture, table(both, OPTION, "alpha")]


STUDY = Study(
    name="alpha",
    title="The tail-controlling weight alpha",
    question="How do overall and tail accuracy change as observed pairs weigh more in the training of the estimator?",
    cells=cells,
    measure=measure,
    show=show,
)
