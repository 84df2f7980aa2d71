"""Variants of AUR: another estimator (AUR-M), joint training (AUR-J), and the estimator's architecture alone (UE).

Joint training is sensitive to its learning rate. So each is a cell, and the one that is best on the pairs that choices
are made on is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aleator.aur import AUR
from aleator.studies import records
from aleator.studies.methods import FLOORS, VARIANTS, Method, under_aur
from aleator.studies.paper.main import BACKBONES, comparison
from aleator.studies.records import Measured, Record
from aleator.studies.report.cells import Cell, number
from aleator.studies.report.tables import Block, Table, count, figure_of, rule, seeds_of
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, accuracy

METHODS = (*FLOORS, *(under_aur(bare, variant) for bare in BACKBONES for variant in VARIANTS), "UE")
LR, LRS = "joint.lr", (1e-4, 3e-4, 1e-3)  # learning rates of joint training


def cells(bench: Workbench) -> list[Method]:
    found = []
    for method in map(Method, METHODS):
        joint = method.variant is not None and method.variant.joint
        found += [Method(method.name, {LR: lr}) for lr in LRS] if joint else [method]
    return found


def measure(bench: Workbench, method: Method) -> Measured:
    """Accuracy. Joint training also has the held-out figures that its learning rate is chosen by."""
    system = bench.fit(method)
    row = accuracy(bench, method, method.bare if method.uncertain else None, system)
    if LR in method.settings:
        assert isinstance(system, AUR)
        assert system.choice is not None
        point = system.choice.chosen
        row["validation"] = {"recall@20": point.recall, "ndcg@20": point.ndcg}
    return row


def best_rates(rows: Sequence[Record]) -> list[Record]:
    """The same records, with one for each seed of joint training: that of the best Recall@20 + NDCG@20 on validation."""
    best: dict[tuple[str, int], Record] = {}
    for row in rows:
        place = row["method"], row["seed"]
        if place not in best or _held_out(row) > _held_out(best[place]):
            best[place] = row
    return [{**row, "settings": {}} for row in best.values()]


def _held_out(row: Record) -> float:
    return sum(row.get("validation", {}).values())


def show(rows: Sequence[Record]) -> list[Block]:
    look = "Compare AUR-M (an MLP as the estimator) and AUR-J (joint training) with AUR on the same model."
    chosen = best_rates(rows)
    tables: list[Block] = [
        comparison("variants", chosen, protocol, ["recall@50"], look=look) for protocol in ("overall", "tail_absolute")
    ]
    return [*tables, *rates(rows)]


def rates(rows: Sequence[Record]) -> list[Block]:
    """One table of the learning rates of joint training that were tried."""
    lines: list[list[Cell]] = []
    for runs in seeds_of([row for row in rows if "validation" in row]).values():
        held_out = [float(np.mean([row["validation"][metric] for row in runs])) for metric in ("recall@20", "ndcg@20")]
        figures = [figure_of(runs, "overall", "recall@20"), figure_of(runs, "tail_absolute", "recall@50")]
        lines.append([runs[0]["method"], number(runs[0]["settings"][LR]), *held_out, *figures, count(len(runs))])
    if not lines:
        return []
    part = "the test part" if records.recipe(rows).on_test else "validation"
    caption = (
        f"{records.about(rows)}: the learning rates of joint training. The tables above have the one with the highest "
        f"Recall@20 + NDCG@20 on {part} (the third and fourth column), in each seed. {rule(rows)}"
    )
    heads = [
        "method",
        "learning rate",
        "held-out recall@20",
        "held-out ndcg@20",
        "recall@20",
        "tail absolute recall@50",
    ]
    return [Table([*heads, "seeds"], lines, caption)]


STUDY = Study(
    name="variants",
    title="Variants of AUR",
    question="How good are an MLP as the estimator, joint training, and the estimator's architecture as a plain model?",
    cells=cells,
    measure=measure,
    show=show,
    order=METHODS,
)
