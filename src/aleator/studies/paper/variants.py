"""Variants of AUR: another estimator (AUR-M), joint training (AUR-J), and the estimator's architecture alone (UE)."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.studies.methods import FLOORS, VARIANTS, Method, under_aur
from aleator.studies.paper.main import BACKBONES, comparison
from aleator.studies.records import Record
from aleator.studies.report.tables import Block
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, against_bare

METHODS = (*FLOORS, *(under_aur(bare, variant) for bare in BACKBONES for variant in VARIANTS), "UE")


def cells(bench: Workbench) -> list[Method]:
    return [Method(name) for name in METHODS]


def show(rows: Sequence[Record]) -> list[Block]:
    look = "Compare AUR-M (an MLP as the estimator) and AUR-J (joint training) with AUR on the same model."
    return [
        comparison("variants", rows, protocol, ["recall@50"], look=look) for protocol in ("overall", "tail_absolute")
    ]


STUDY = Study(
    name="variants",
    title="Variants of AUR",
    question="How good are an MLP as the estimator, joint training, and the estimator's architecture as a plain model?",
    cells=cells,
    measure=against_bare,
    show=show,
    order=METHODS,
)
