"""The tail-controlling weight: overall and tail accuracy as alpha grows.

Only alpha changes. The number of epochs and the setting of the estimator are those that validation chooses at alpha = 1.
Scores are not divided by popularity and have no prior, since both are chosen anew at each alpha and move the tail too.
The spectral start leaves little to training, so the same is measured from a random start, as the paper has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aleator.aur import AUR
from aleator.evaluation.protocols import evaluate
from aleator.studies import records
from aleator.studies.methods import FLOORS, UNDIVIDED, Method, under_aur
from aleator.studies.records import Measured, Record
from aleator.studies.report.curves import curves, table
from aleator.studies.report.tables import Block, Picture
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, accuracy
from aleator.training.loop import epochs_of
from aleator.uncertainty.factor import RANDOM_INIT

OPTION, START = "alpha", "estimator.init"
AUR_NAME = under_aur("MF")
STARTS: tuple[dict[str, Any], ...] = ({}, {START: RANDOM_INIT})  # as decided on validation, and random


def cells(bench: Workbench) -> list[Method]:
    values = (1, 3) if bench.quick else range(1, 6)
    found = [Method(AUR_NAME, {OPTION: float(value), **start}) for start in STARTS for value in values]
    return [*map(Method, FLOORS), *found]


def alike(bench: Workbench, method: Method) -> Method:
    """The method, with the setting and the number of epochs of the estimator that were chosen at alpha = 1."""
    own = {name: value for name, value in method.settings.items() if name != OPTION}
    at_one = bench.fit(Method(method.name, UNDIVIDED | own))
    assert isinstance(at_one, AUR)
    epochs = epochs_of(at_one.estimator.log)
    training = {**dict(at_one.setting.options), "max_epochs": epochs, "check_every": epochs}  # only the end is checked
    found = {"residuals": at_one.setting.residuals, "unobserved": at_one.setting.unobserved}
    fixed = found | {f"estimator.{name}": value for name, value in training.items()}
    return Method(method.name, {**UNDIVIDED, **fixed, **method.settings})


def measure(bench: Workbench, method: Method) -> Measured:
    """Accuracy at the chosen lam, and of the uncertainty alone: a chosen lam of 1 would hide what alpha does."""
    if not method.uncertain:
        return accuracy(bench, method)
    system = bench.fit(alike(bench, method))
    assert isinstance(system, AUR)
    alone = evaluate(system.at(0.0), bench.split, recipe=bench.recipe.name).to_dict()
    row = accuracy(bench, method, method.bare, system)
    row["alone"] = {protocol: alone[protocol] for protocol in row["metrics"]}
    return row


def named(row: Record) -> Record:
    """The record under a name that tells the start."""
    start = ", random start" if START in row.get("settings", {}) else ""
    return row | {"method": f"{row['method']}{start}"}


def alone(row: Record) -> Record:
    """The record of the uncertainty alone. Nothing was tested against it."""
    return named(row | {"method": "uncertainty alone", "metrics": row["alone"], "against": {"method": "", "tests": []}})


def show(rows: Sequence[Record]) -> list[Block]:
    both = [*map(named, rows), *(alone(row) for row in rows if "alone" in row)]
    picture = Picture(
        curves(both, OPTION, "alpha"),
        f"{records.about(rows)}: Recall@50 of MF-AUR by alpha, at the lam chosen for each alpha, and of the uncertainty "
        "alone (lam = 0). The estimator is trained for the same number of epochs at each alpha, the one that validation "
        "chooses at alpha = 1, and by the setting chosen there. It begins at the start chosen there, or at a random one. "
        "Scores are not divided by popularity. The paper finds that the tail keeps rising with alpha. See whether it "
        "does here, and what it costs overall.",
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
    plain=True,
    order=FLOORS,
    applies=lambda bench: bench.world is None and not bench.recipe.on_test,
)
