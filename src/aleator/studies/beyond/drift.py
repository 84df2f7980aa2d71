"""Beyond the paper: popularity drift. The same pairs are split by time and at random, and AUR is measured on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.studies import records
from aleator.studies.methods import FLOORS, Method
from aleator.studies.paper.main import SHOWN, TESTS, sentences, untuned
from aleator.studies.records import Measured, PairedTest, Record
from aleator.studies.report.cells import Cell, number
from aleator.studies.report.tables import Block, Table, figure_of, over_seeds, rule, seeds_of, words
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, against_bare
from aleator.words import By

METHODS = (*FLOORS, "MF", "MF-AUR", "EASE", "EASE-AUR")
WAYS: tuple[By, ...] = ("random", "user_time", "global_time")
DRIFT = "popularity_correlation"


def cells(bench: Workbench) -> list[Method]:
    return [Method(name) for name in METHODS]


def all_pairs(split: Split) -> Interactions:
    """Train, valid and test together."""
    return split.everything.together(split.test)


def resplit(split: Split, by: By, seed: int) -> Split:
    """The same pairs with a test part of the same size, taken in another way."""
    data = all_pairs(split)
    made = data.split(valid=0.0, test=len(split.test) / len(data), by=by, seed=seed)
    return replace(made, name=split.name)


def drift(split: Split) -> dict[str, float]:
    """How the popularity of items changes from train to test. NaN where all items are equally popular in a part."""
    before = split.everything.popularity
    after = np.bincount(split.test.item, minlength=len(before))
    with np.errstate(invalid="ignore"):
        return {DRIFT: float(np.corrcoef(before, after)[0, 1])}


def measure(bench: Workbench, method: Method) -> Measured:
    """Accuracy on each way of splitting. The name of a protocol begins with the way."""
    row: Measured = {"metrics": {}, "ways": {}, "config": {}}
    tests: list[PairedTest] = []
    for way in WAYS:
        own = bench.on(way, partial(resplit, bench.split, way, bench.seed))
        found = against_bare(own, method)
        row["metrics"] |= {f"{way} {protocol}": values for protocol, values in found["metrics"].items()}
        row["ways"][way] = {"chosen": found["chosen"], "drift": drift(own.split), "tail": own.conventions()["tail"]}
        row["config"] = found["config"]
        if "against" in found:
            tests += [test | {"protocol": f"{way} {test['protocol']}"} for test in found["against"]["tests"]]
    if tests:
        row["against"] = {"method": method.bare.name, "tests": tests}
    return row


def show(rows: Sequence[Record]) -> list[Block]:
    lines: list[list[Cell]] = []
    for way in WAYS:
        for method, runs in seeds_of(rows).items():
            moved = float(np.mean([row["ways"][way]["drift"][DRIFT] for row in runs]))
            figures = [figure_of(runs, f"{way} {protocol}", metric) for protocol, metric in SHOWN]
            lines.append([words(way), number(moved, ".3f"), method, *figures])
    heads = ["split by", "correlation of popularity", "method", *(f"{words(p)} {m}" for p, m in SHOWN)]
    caption = sentences(
        f"{records.about(rows)}: the same pairs under three splits. The test part is drawn from each user at random, or "
        "is each user's latest, or is the latest of all.",
        "See whether AUR gains more on the splits by time.",
        "The second column is the correlation of an item's popularity in train and test. A low one means much drift.",
        "The tail holds half of the training pairs of each split. Users without a tail test item are skipped.",
        rule(rows),
        over_seeds(rows),
        TESTS,
        untuned(rows),
    )
    return [Table(heads, lines, caption)]


STUDY = Study(
    name="beyond",
    part="drift",
    title="Beyond: popularity drift",
    question="The paper explains AUR's gains on Amazon by drift. Where times are known: does AUR gain more when the test "
    "part comes later?",
    cells=cells,
    measure=measure,
    show=show,
    order=METHODS,
    applies=lambda bench: bench.world is None and bench.split.train.time is not None and not bench.recipe.on_test,
)
