"""The tail-controlling weight: overall and tail accuracy as alpha grows."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.studies.bench import Bench, against_bare
from aleator.studies.blocks import Block, Picture, Row
from aleator.studies.curves import curves, table
from aleator.studies.methods import Method
from aleator.studies.study import Study

OPTION = "alpha"


def cells(bench: Bench) -> list[Method]:
    return [Method("MF-AUR", {OPTION: float(value)}) for value in ((1, 3) if bench.quick else range(1, 6))]


def show(rows: Sequence[Row]) -> list[Block]:
    dataset, recipe = rows[0]["dataset"], rows[0]["recipe"]
    picture = Picture(
        curves(rows, OPTION, "alpha"),
        f"{dataset}, recipe {recipe}: Recall@50 of MF-AUR by alpha, at the lam chosen for each. The paper finds that the "
        "tail keeps rising with alpha; see whether it does here, and what it costs overall.",
        "Recall@50 of MF-AUR by alpha, overall and tail absolute",
    )
    return [picture, table(rows, OPTION, "alpha")]


STUDY = Study(
    name="alpha",
    title="The tail-controlling weight alpha",
    question="How do overall and tail accuracy move as observed pairs weigh more when the estimator is trained?",
    cells=cells,
    measure=against_bare,
    show=show,
)
