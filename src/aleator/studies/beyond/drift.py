"""Beyond the paper: popularity drift. The same pairs split by time and at random, and what AUR is worth on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.studies.methods import Method
from aleator.studies.paper.main import SHOWN, TESTS, untuned
from aleator.studies.report.tables import Block, Cell, Row, Table, figure_of
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, against_bare

METHODS = ("MF", "MF-AUR", "EASE", "EASE-AUR")
WAYS = ("random", "user_time", "global_time")


def cells(bench: Bench) -> list[Method]:
    return [Method(name) for name in METHODS]


def all_pairs(split: Split) -> Interactions:
    """Train, valid and test together."""
    return split.everything.together(split.test)


def resplit(split: Split, by: str, seed: int) -> Split:
    """As much test as before, taken in another way."""
    data = all_pairs(split)
    made = data.split(valid=0.0, test=len(split.test) / len(data), by=by, seed=seed)  # type: ignore[arg-type]
    return replace(made, name=split.name)


def drift(split: Split) -> dict[str, float]:
    """How the popularity of items moves from train to test."""
    before = split.everything.popularity
    after = np.bincount(split.test.item, minlength=len(before))
    return {"popularity_correlation": float(np.corrcoef(before, after)[0, 1])}


def measure(bench: Bench, method: Method) -> Row:
    """Accuracy on each way of splitting; a metric's protocol carries the way's name."""
    metrics: Row = {}
    tests: list[Row] = []
    told: Row = {}
    config: Row = {}
    for way in WAYS:
        own = bench.on(way, partial(resplit, bench.split, way, bench.seed))
        row = against_bare(own, method)
        metrics |= {f"{way} {protocol}": values for protocol, values in row["metrics"].items()}
        tests += [test | {"protocol": f"{way} {test['protocol']}"} for test in row.get("against", {}).get("tests", [])]
        config = row["config"]
        told[way] = {"chosen": row["chosen"], "drift": drift(own.split), "tail": own.conventions()["tail"]}
    row = {"metrics": metrics, "ways": told, "config": config}
    return row | ({"against": {"method": method.bare.name, "tests": tests}} if tests else {})


def show(rows: Sequence[Row]) -> list[Block]:
    lines: list[list[Cell]] = []
    for way in WAYS:
        for method in dict.fromkeys(row["method"] for row in rows):
            runs = [row for row in rows if row["method"] == method]
            moved = np.mean([row["ways"][way]["drift"]["popularity_correlation"] for row in runs])
            figures = [figure_of(runs, f"{way} {protocol}", metric) for protocol, metric in SHOWN]
            lines.append([way.replace("_", " "), f"{moved:.3f}", method, *figures])
    heads = ["split by", "correlation of popularity", "method", *(f"{p.replace('_', ' ')} {m}" for p, m in SHOWN)]
    caption = (
        f"{rows[0]['dataset']}, recipe {rows[0]['recipe']}: the same pairs, with the test part drawn from each user at "
        "random, as each user's latest, or as the latest of all. The second column is the correlation of an item's "
        "popularity in train and test: the lower, the more it drifts. The tail holds half of the training pairs of each "
        f"split; users without a tail test item are skipped. {TESTS}.{untuned(rows)}"
    )
    return [Table(heads, lines, caption)]


STUDY = Study(
    name="beyond",
    part="drift",
    title="Beyond: popularity drift",
    question="The paper credits drift for AUR's gains on Amazon. Where times are known: does AUR gain more when the test "
    "part comes later?",
    cells=cells,
    measure=measure,
    show=show,
    applies=lambda bench: bench.world is None and bench.split.train.time is not None and bench.recipe == "ours",
)
