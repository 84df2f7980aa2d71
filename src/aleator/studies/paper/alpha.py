"""The tail-controlling weight: overall and tail accuracy as alpha grows."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.aur import AUR
from aleator.evaluation.protocols import evaluate
from aleator.studies.methods import Method
from aleator.studies.report.curves import curves, table
from aleator.studies.report.tables import Block, Picture, Row
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, accuracy

OPTION = "alpha"


def cells(bench: Bench) -> list[Method]:
    return [Method("MF-AUR", {OPTION: float(value)}) for value in ((1, 3) if bench.quick else range(1, 6))]


def measure(bench: Bench, method: Method) -> Row:
    """Accuracy, also of the uncertainty alone: the lam that is chosen may be 1, which hides what alpha does."""
    system = bench.fit(method)
    assert isinstance(system, AUR)
    alone = evaluate(system.at(0.0), bench.split, recipe=bench.recipe).to_dict()
    row = accuracy(bench, method, method.bare, system)
    return row | {"alone": {protocol: alone[protocol] for protocol in row["metrics"]}}


def show(rows: Sequence[Row]) -> list[Block]:
    alone = [row | {"method": "uncertainty alone", "metrics": row["alone"], "against": {}} for row in rows]
    rows = [*rows, *alone]
    dataset, recipe = rows[0]["dataset"], rows[0]["recipe"]
    picture = Picture(
        curves(rows, OPTION, "alpha"),
        f"{dataset}, recipe {recipe}: Recall@50 of MF-AUR by alpha, at the lam chosen for each, and of the uncertainty "
        "alone (lam = 0). The paper finds that the tail keeps rising with alpha; see whether it does here, and what it "
        "costs overall.",
        "Recall@50 of MF-AUR by alpha, overall and tail absolute",
    )
    return [picture, table(rows, OPTION, "alpha")]


STUDY = Study(
    name="alpha",
    title="The tail-controlling weight alpha",
    question="How do overall and tail accuracy move as observed pairs weigh more when the estimator is trained?",
    cells=cells,
    measure=measure,
    show=show,
)
