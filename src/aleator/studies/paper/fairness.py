"""Is the comparison fair? MF, MF with the pairwise loss, and MF-AUR as the embedding size grows."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.studies import records
from aleator.studies.methods import FLOORS, Method
from aleator.studies.records import Record
from aleator.studies.report.curves import curves, table
from aleator.studies.report.tables import Block, Picture
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, against_bare

METHODS = ("MF", "MF-BPR", "MF-AUR")
SIZES = (64, 128, 256, 512, 1024)
OPTION = "model.dim"
ADAM = {"model.solver": "adam", "model.batch_size": "auto", "model.lr": 2e-3, "model.negatives": "all"}
SOLVER = {"MF": ADAM, "MF-AUR": ADAM}


def cells(bench: Workbench) -> list[Method]:
    """MF is trained by Adam, as in the paper: early stopping fits the penalty to the size, and ALS would not."""
    sizes = (8, 16) if bench.quick else SIZES
    solver = {} if bench.recipe.paper_options else SOLVER
    grown = [Method(name, {OPTION: size, **solver.get(name, {})}) for size in sizes for name in METHODS]
    return [*map(Method, FLOORS), *grown]


def show(rows: Sequence[Record]) -> list[Block]:
    picture = Picture(
        curves(rows, OPTION, "embedding size of the model", log=True),
        f"{records.about(rows)}: Recall@50 by the embedding size of the model. See whether a larger MF reaches MF-AUR, "
        "overall and on the tail. The estimator keeps its own size. MF is trained by Adam with early stopping here. "
        "All other options are the same at every size.",
        "Recall@50 of MF, MF-BPR and MF-AUR by embedding size, overall and tail absolute",
    )
    return [picture, table(rows, OPTION, "embedding size")]


STUDY = Study(
    name="fairness",
    title="Training strategy and embedding size",
    question="Does MF-AUR win only because it has more parameters, or because MF is not trained with a pairwise loss?",
    cells=cells,
    measure=against_bare,
    show=show,
    order=(*FLOORS, *METHODS),
)
