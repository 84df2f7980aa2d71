"""Variants of AUR: another estimator (AUR-M), joint training (AUR-J), and the estimator's architecture alone (UE)."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.studies.methods import VARIANTS, Method
from aleator.studies.paper.main import BACKBONES, comparison
from aleator.studies.report.tables import Block, Row
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, against_bare

METHODS = (*(f"{bare}-AUR{variant}" for bare in BACKBONES for variant in VARIANTS), "UE")


def cells(bench: Bench) -> list[Method]:
    return [Method(name) for name in METHODS]


def show(rows: Sequence[Row]) -> list[Block]:
    return [comparison("variants", rows, protocol, ["recall@50"]) for protocol in ("overall", "tail_absolute")]


STUDY = Study(
    name="variants",
    title="Variants of AUR",
    question="What do an MLP as the estimator, joint training, and the estimator's architecture as a plain model do?",
    cells=cells,
    measure=against_bare,
    show=show,
    order=METHODS,
)
