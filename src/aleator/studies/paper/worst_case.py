"""The worst case: how long a list must be to hold all test items of a user."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from aleator.batches import Histories
from aleator.data.splits import Split
from aleator.evaluation.significance import paired_p
from aleator.ranking.top import hide
from aleator.recommender import Recommender
from aleator.studies import records
from aleator.studies.methods import Method
from aleator.studies.paper.calibration import batches
from aleator.studies.paper.main import METHODS, cells, sentences, untuned
from aleator.studies.published import figure, published
from aleator.studies.records import Measured, PairedTest, Record
from aleator.studies.report.cells import Cell, number
from aleator.studies.report.tables import (
    Block,
    Table,
    change,
    count,
    figure_of,
    mean_of,
    over_seeds,
    rule,
    seeds_of,
    signs,
)
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen

LENGTH = "list_length"


def lengths(system: Recommender, split: Split) -> NDArray[np.int64]:
    """The length of the shortest list that holds all test items, for each user with a test item.

    The list ends with the test item of the lowest score. Among items of equal score, test items come first.
    """
    tests = Histories(split.test.csr, system.torch_device)
    who = tests.host_size.nonzero().squeeze(1)
    found = []
    with torch.no_grad():
        for users, seen in batches(system, split, who):
            scores, test = system.score_block(users), tests.batch(users.index)
            hide(scores, seen)
            lowest = scores.new_full((len(users),), torch.inf)
            asked = scores[test.row, test.item]
            lowest.scatter_reduce_(0, test.row, asked, "amin")
            last = torch.bincount(test.row[asked == lowest[test.row]], minlength=len(users))
            found.append((scores > lowest[:, None]).sum(1) + last)
    longest: NDArray[np.int64] = torch.cat(found).cpu().numpy()
    return longest


def measure(bench: Workbench, method: Method) -> Measured:
    system = bench.fit(method)
    mine = lengths(system, bench.split)
    row: Measured = {
        "metrics": {"overall": {LENGTH: float(mine.mean()), "median": float(np.median(mine))}},
        "chosen": chosen(system),
        "config": system.options(),
    }
    if method.uncertain:
        theirs = lengths(bench.fit(method.bare), bench.split)
        test: PairedTest = {
            "protocol": "overall",
            "metric": LENGTH,
            "mean": float(mine.mean()),
            "baseline": float(theirs.mean()),
            "p": paired_p((mine - theirs).astype(np.float64)),
        }
        row["against"] = {"method": method.bare.name, "tests": [test]}
    return row


def show(rows: Sequence[Record]) -> list[Block]:
    dataset = rows[0]["dataset"]
    known, runs = bool(published("worst_case", dataset)), seeds_of(rows)
    means = {method: mean_of(of, "overall", LENGTH) for method, of in runs.items()}
    lines: list[list[Cell]] = []
    for method, of in runs.items():
        bare = Method(method).bare.name
        line: list[Cell] = [method, *(figure_of(of, "overall", metric, 1) for metric in (LENGTH, "median"))]
        line.append(change(means[method], means.get(bare) if bare != method else None))
        if known:
            printed = figure("worst_case", dataset, method, "overall", LENGTH)
            line += [number(printed, ".0f"), change(means[method], printed)]
        lines.append([*line, count(len(of))])
    heads = ["method", "mean length", "median length", "mean against the bare model"]
    heads += ["published mean", "difference"] if known else []
    caption = sentences(
        f"{records.about(rows)}: the length of the shortest list that holds all test items of a user, over users with "
        "a test item. Shorter is better.",
        "A list has no item of the user's history. It can have items that were never trained on.",
        "Among items of equal score, test items come first.",
        rule(rows),
        over_seeds(rows),
        signs("the bare model", corrected=False),
        untuned(rows),
    )
    return [Table([*heads, "seeds"], lines, caption)]


STUDY = Study(
    name="worst_case",
    title="The worst case",
    question="How many recommendations does it take to show a user all of the test items, with and without AUR?",
    cells=cells,
    measure=measure,
    show=show,
    order=METHODS,
)
