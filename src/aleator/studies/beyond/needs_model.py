"""Beyond the paper: what the estimator's ranking needs. One part of AUR is taken away at a time, or is replaced.

A row of an AUR counts where it is above the simplest control, the scores of its bare model divided by popularity^a.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aleator.aur import AUR
from aleator.evaluation.protocols import evaluate
from aleator.evaluation.report import Report
from aleator.models.base import Model
from aleator.studies import records
from aleator.studies.beyond.control import DIVIDED, LENGTH, POPULARITY, SecondModel, accuracy_divided, divided
from aleator.studies.beyond.default import SHOWN, shown_figures
from aleator.studies.methods import FLOORS, OF_STUDY, UNDIVIDED, Method, key_of, under_aur
from aleator.studies.paper.main import conventions, sentences
from aleator.studies.records import Against, Measured, Record
from aleator.studies.report.cells import Cell, Shown, number
from aleator.studies.report.tables import Block, Table, count, figure_of, significant, signs
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, accuracy, tests_against
from aleator.uncertainty.factor import RANDOM_INIT

MODELS = ("MF", "FISM")
SECOND = f"{OF_STUDY}in_place_of_s"  # the setting of a cell with a second model in place of the estimator
ALONE = "alone "  # begins the name of a protocol where items are ranked by s alone
# A step this short moves no number: the estimator stays at its start.
UNTRAINED = {"estimator.init": "spectral", "estimator.lr": 1e-30, "estimator.max_epochs": 1}
RANDOM_START = {"estimator.init": RANDOM_INIT}


def _expectations(observed: str, unobserved: str) -> dict[str, Any]:
    return {"residuals": observed, "unobserved": unobserved, **UNDIVIDED}


NOTHING = _expectations("constant", "constant")
OBSERVED = _expectations("in-sample", "constant")
WITH_ESTIMATOR: dict[str, dict[str, Any]] = {
    "AUR, all decided on validation": {},
    "AUR, all decided but no discount and no prior": UNDIVIDED,
    "AUR, r of the model on all pairs (the paper's)": _expectations("in-sample", "model"),
    "(a) AUR, a constant on all pairs: no model": NOTHING,
    "(b) AUR, a constant on unobserved pairs": OBSERVED,
    "(c) as b, residuals leave the pair out": _expectations("loo", "constant"),
    "(c) as b, residuals cross-fitted": _expectations("cross-fit", "constant"),
    "(c) as the paper's, residuals cross-fitted": _expectations("cross-fit", "model"),
    "(d) as a, the spectral start, not trained": NOTHING | UNTRAINED,
    "(d) as a, trained from a random start": NOTHING | RANDOM_START,
    "(d) as b, trained from a random start": OBSERVED | RANDOM_START,
}
WITHOUT_ESTIMATOR: dict[str, dict[str, Any]] = {
    "bare": {},
    "(e) GraphFilter in place of s": {SECOND: "GraphFilter"},
    "(e) EASE in place of s": {SECOND: "EASE"},
    "(f) divided by popularity^a": {DIVIDED: POPULARITY},
    "(f) by cosine": {DIVIDED: LENGTH},
}


def cells(bench: Workbench) -> list[Method]:
    found = [Method(name) for name in FLOORS]
    for model in MODELS[:1] if bench.quick else MODELS:
        found += [Method(model, own) for own in WITHOUT_ESTIMATOR.values()]
        found += [Method(under_aur(model), own) for own in WITH_ESTIMATOR.values()]
    return found


def measure(bench: Workbench, method: Method) -> Measured:
    if method.name in FLOORS:
        return accuracy(bench, method)
    reports: dict[str, Report] = {}
    if DIVIDED in method.settings:
        row = accuracy_divided(bench, method)
    else:
        system = with_second(bench, method) if SECOND in method.settings else bench.fit(method)
        row = accuracy(bench, method, system=system)
        if isinstance(system, AUR):
            reports[ALONE] = evaluate(system.at(0.0), bench.split, recipe=bench.recipe.name)
            row["metrics"] |= {f"{ALONE}{name}": own for name, own in shown_figures(reports[ALONE]).items()}
            row["setting"] = str(system.setting)
    reports[""] = bench.report(method)
    control = Method(method.backbone, {DIVIDED: POPULARITY})
    row["against"] = _tests(reports, bench.report(Method(method.backbone)), method.backbone)
    row["against_control"] = _tests(reports, bench.evaluated(control, lambda: divided(bench, control)), control.key)
    return row


def with_second(bench: Workbench, method: Method) -> AUR:
    """The blend of a model with a second one, fitted. lam is chosen as that of an AUR."""
    model, second = bench.make(Method(method.backbone)), bench.make(Method(method.settings[SECOND]))
    assert isinstance(model, Model)
    assert isinstance(second, Model)
    estimator = SecondModel(second=second.fit(bench.split, cache=bench.cache))
    about: dict[str, Any] = {"seed": bench.seed, "device": bench.device, "recipe": bench.recipe.name}
    about |= _expectations("in-sample", "model")  # neither is used, and nothing is left to a race
    return AUR(model, estimator=estimator, **about).fit(bench.split, cache=bench.cache)


def _tests(reports: Mapping[str, Report], reference: Report, name: str) -> Against:
    """The tests of the metrics that are shown. The name of a protocol begins with the key of its report."""
    found = [
        test | {"protocol": f"{start}{test['protocol']}"}
        for start, report in reports.items()
        for test in tests_against(report, reference, name)["tests"]
        if (test["protocol"], test["metric"]) in SHOWN.values()
    ]
    return {"method": name, "tests": found}


LABELS = {
    key_of(name, own): (model, label)
    for model in MODELS
    for name, rows in ((model, WITHOUT_ESTIMATOR), (under_aur(model), WITH_ESTIMATOR))
    for label, own in rows.items()
} | {name: ("", name) for name in FLOORS}


def show(rows: Sequence[Record]) -> list[Block]:
    found: dict[str, list[Record]] = {key: [] for key in LABELS}
    for row in rows:
        found[key_of(row["method"], row.get("settings", {}))].append(row)
    measured = {key: runs for key, runs in found.items() if runs}
    alone = {key: runs for key, runs in measured.items() if f"{ALONE}overall" in runs[0]["metrics"]}
    about = sentences(
        "A letter names what is taken away or replaced. lam, the discount and a are chosen on validation by the rule "
        f"balanced, and are shown as means over seeds. {signs('the bare model')} The columns against / popularity^a have "
        "the change against the row of f with that name, with the same signs.",
        conventions(rows),
    )
    blocks: list[Block] = [_table(measured, "", f"{records.about(rows)}: items ranked by the blend. {about}")]
    if alone:
        told = sentences(
            f"{records.about(rows)}: the same rows, with items ranked by s alone, or by the second model alone.",
            "The estimator's epochs are chosen for the blend. Where lam is 1 no blend gained, and s may have had few.",
            about,
        )
        blocks.append(_table(alone, ALONE, told))
    return blocks


def _table(found: Mapping[str, Sequence[Record]], start: str, caption: str) -> Table:
    """One row for each cell. `start` begins the names of the protocols."""
    lines: list[list[Cell]] = []
    for key, runs in found.items():
        line: list[Cell] = [*LABELS[key], *([] if start else [_mean(runs, name) for name in ("lam", "discount", "a")])]
        for protocol, metric in SHOWN.values():
            line += [figure_of(runs, f"{start}{protocol}", metric), _change(runs, f"{start}{protocol}", metric)]
        lines.append([*line, count(len(runs))])
    heads = ["model", "ranking", *([] if start else ["lam", "discount", "a"])]
    return Table([*heads, *(h for name in SHOWN for h in (name, "against / popularity^a")), "seeds"], lines, caption)


def _mean(runs: Sequence[Record], name: str) -> Cell:
    """The mean over seeds of what was chosen."""
    values = [row["chosen"][name] for row in runs if name in row.get("chosen", {})]
    return number(float(np.mean(values)), ".2f") if values else None


def _change(runs: Sequence[Record], protocol: str, metric: str) -> Cell:
    """The mean relative change against the control, with a sign where the tests of all seeds agree."""
    changes, found = [], set()
    for row in runs:
        for test in row["against_control"]["tests"] if "against_control" in row else []:
            if (
                (test["protocol"], test["metric"]) == (protocol, metric)
                and test["mean"] is not None
                and test["baseline"]
            ):
                changes.append(test["mean"] / test["baseline"] - 1)
                found.add(significant({**row, "against": row["against_control"]}, protocol, metric))
    if not changes:
        return None
    mean = float(np.mean(changes))
    return Shown(f"{mean:+.1%}", mean, sign=found.pop() if len(found) == 1 else "")


STUDY = Study(
    name="beyond",
    part="needs_model",
    title="Beyond: what the ranking by uncertainty needs",
    question="What is the ranking by uncertainty worth without a model, without training, with another recommender in "
    "its place, and beside scores that are divided by a power of popularity?",
    cells=cells,
    measure=measure,
    show=show,
    plain=True,
    applies=lambda bench: bench.world is None and not bench.recipe.on_test,
)
