"""Beyond the paper: popularity shift. The same pairs are split so that the test part is even over items, or follows
popularity, and methods against popularity bias are measured on both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from aleator.studies import records
from aleator.studies.beyond.control import DIVIDED, POPULARITY, accuracy_divided
from aleator.studies.beyond.drift import DRIFT, drift, resplit
from aleator.studies.methods import DEFAULT, FLOORS, OF_STUDY, Method, under_aur
from aleator.studies.paper.main import SHOWN, sentences
from aleator.studies.records import Measured, Record
from aleator.studies.report.cells import Cell, number
from aleator.studies.report.tables import Block, Table, count, figure_of, over_seeds, rule, seeds_of, signs, words
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, accuracy, tests_against
from aleator.words import By

WAY = f"{OF_STUDY}test"  # the setting of a cell that says how its test part is drawn
WAYS: dict[By, str] = {"balanced": "even over items", "random": "by popularity"}
BARE = Method("MF")
CONTROL = Method("MF", {DIVIDED: POPULARITY})
METHODS = (
    BARE,
    CONTROL,
    *map(Method, (under_aur("MF"), "IPS", "MACR", "PopBias", "FISM", DEFAULT, *FLOORS)),
)


def cells(bench: Workbench) -> list[Method]:
    return [Method(method.name, {WAY: way, **method.settings}) for way in WAYS for method in METHODS]


def measure(bench: Workbench, method: Method) -> Measured:
    settings = dict(method.settings)
    way: By = settings.pop(WAY)
    own = bench.on(way, partial(resplit, bench.split, way, bench.seed))
    inner = Method(method.name, settings)
    if DIVIDED in settings:
        row = accuracy_divided(own, inner)
        row["against"] = tests_against(own.report(inner), own.report(BARE), BARE.name)
    else:
        row = accuracy(own, inner, BARE)
        bench.seconds[method.key] = own.seconds[inner.key]
    tail = own.conventions()["tail"]
    row["ways"] = {way: {"chosen": row["chosen"], "drift": drift(own.split), "tail": tail}}
    return row


def show(rows: Sequence[Record]) -> list[Block]:
    tables: list[Block] = []
    for way, told in WAYS.items():
        lines: list[list[Cell]] = []
        found = seeds_of([row for row in rows if row["settings"][WAY] == way])
        for runs in found.values():
            name = f"{runs[0]['method']} / {POPULARITY}" if DIVIDED in runs[0]["settings"] else runs[0]["method"]
            known = [moved for row in runs if (moved := row["ways"][way]["drift"][DRIFT]) is not None]
            figures = [figure_of(runs, *shown) for shown in SHOWN]
            lines.append([name, *figures, number(float(np.mean(known)) if known else None, ".3f"), count(len(runs))])
        if not lines:
            continue
        heads = ["method", *(f"{words(p)} {m}" for p, m in SHOWN), "correlation of popularity", "seeds"]
        drawn = "equally many pairs of each item" if way == "balanced" else "random pairs of each user"
        caption = sentences(
            f"{records.about(rows)}: the same pairs with a test part {told}, {drawn}. See whether a method against "
            "popularity bias gains where the test part is even, and what it costs where it is not.",
            "The validation part is drawn like the test part. All methods have default options.",
            "The correlation is that of an item's popularity in train and test. The tail holds half of the training "
            "pairs. Users without a tail test item are skipped.",
            rule(rows),
            "The power of popularity is chosen by the same rule.",
            over_seeds(rows),
            signs(BARE.name),
        )
        tables.append(Table(heads, lines, caption))
    return tables


STUDY = Study(
    name="beyond",
    part="popularity_shift",
    title="Beyond: popularity shift",
    question="Methods against popularity bias claim gains where the test part does not follow popularity. Which of them "
    "gain there, and what do they lose where it does?",
    cells=cells,
    measure=measure,
    show=show,
    plain=True,
    applies=lambda bench: bench.world is None and not bench.recipe.on_test,
)
