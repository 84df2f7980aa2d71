"""AUR against methods that were made for the tail, and against other probabilistic ones."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.studies.methods import Method
from aleator.studies.paper.main import PROTOCOLS, comparison
from aleator.studies.report.tables import Block, Row, signs
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, accuracy

METHODS = ("MF", "IPS", "MACR", "PopBias", "ExpoMF", "PMF", "MF-AUR")


def show(rows: Sequence[Row]) -> list[Block]:
    note = signs("MF-AUR") + ", Holm-corrected)"
    return [comparison("debias", rows, protocol, ["recall@50"], note) for protocol in PROTOCOLS]


def cells(bench: Bench) -> list[Method]:
    return [Method(name) for name in METHODS]


STUDY = Study(
    name="debias",
    title="Methods against popularity bias, and probabilistic ones",
    question="Does MF-AUR beat inverse propensities, counterfactual inference, a zero-sum regulariser, latent exposure "
    "and fixed variances, overall and on the tail?",
    cells=cells,
    measure=lambda bench, method: accuracy(bench, method, Method("MF-AUR")),
    show=show,
)
