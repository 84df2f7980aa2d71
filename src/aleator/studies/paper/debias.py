"""AUR against methods made for the tail, and against other probabilistic methods."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.studies.methods import FLOORS, Method
from aleator.studies.paper.main import PROTOCOLS, comparison
from aleator.studies.records import Measured, Record
from aleator.studies.report.tables import Block, signs
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, accuracy

AUR = "MF-AUR"
METHODS = (*FLOORS, "MF", "IPS", "MACR", "PopBias", "ExpoMF", "PMF", AUR)


def cells(bench: Workbench) -> list[Method]:
    return [Method(name) for name in METHODS]


def measure(bench: Workbench, method: Method) -> Measured:
    return accuracy(bench, method, Method(AUR))


def show(rows: Sequence[Record]) -> list[Block]:
    look = f"Compare each method with {AUR}."
    return [comparison("debias", rows, protocol, ["recall@50"], look=look, note=signs(AUR)) for protocol in PROTOCOLS]


STUDY = Study(
    name="debias",
    title="Methods against popularity bias, and probabilistic methods",
    question="Is MF-AUR better than inverse propensities, counterfactual inference, a zero-sum regulariser, latent "
    "exposure and fixed variances, overall and on the tail?",
    cells=cells,
    measure=measure,
    show=show,
    order=METHODS,
)
