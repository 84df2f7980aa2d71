"""The worst case: how long a list must be to hold all of a user's test items."""

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
from aleator.studies.methods import Method
from aleator.studies.paper.calibration import batches
from aleator.studies.paper.main import cells, untuned
from aleator.studies.published import figure, published
from aleator.studies.report.tables import Block, Cell, Row, Table, change, figure_of, interval, seeds_of, signs, values
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, chosen

LENGTH = "list_length"


def lengths(system: Recommender, split: Split) -> NDArray[np.int64]:
    """The shortest list that holds all test items, for each user with one: the lowest of them and all that is above.

    Of equal scores a test item comes first; without equal ones that is 1 and the number of unseen items above it.
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


def measure(bench: Bench, method: Method) -> Row:
    system = bench.fit(method)
    mine = lengths(system, bench.split)
    row: Row = {
        "metrics": {"overall": {LENGTH: float(mine.mean()), "median": float(np.median(mine))}},
        "chosen": chosen(system),
        "config": system.options(),
    }
    if method.uncertain:
        theirs = lengths(bench.fit(method.bare), bench.split)
        test = {"mean": float(mine.mean()), "baseline": float(theirs.mean())}
        test["p"] = paired_p((mine - theirs).astype(np.float64))
        row["against"] = {"method": method.bare.name, "tests": [{"protocol": "overall", "metric": LENGTH, **test}]}
    return row


def show(rows: Sequence[Row]) -> list[Block]:
    dataset, recipe = rows[0]["dataset"], rows[0]["recipe"]
    known, runs = bool(published("worst_case", dataset)), seeds_of(rows)
    means = {method: interval(values(of, "overall", LENGTH))[0] for method, of in runs.items()}
    lines: list[list[Cell]] = []
    for method, of in runs.items():
        bare = Method(method).bare.name
        line: list[Cell] = [method, *(figure_of(of, "overall", metric, 1) for metric in (LENGTH, "median"))]
        line.append(change(means[method], means.get(bare) if bare != method else None))
        if known:
            printed = figure("worst_case", dataset, method, "overall", LENGTH)
            line += [None if printed is None else f"{printed:.0f}", change(means[method], printed)]
        lines.append([*line, str(len(of))])
    heads = ["method", "mean length", "median length", "mean against the bare model"]
    heads += ["published mean", "difference"] if known else []
    caption = (
        f"{dataset}, recipe {recipe}: the shortest list that holds all test items of a user, over users with a test "
        "item; shorter is better. Items in a user's history are not listed, items that were never trained on are; "
        "of equal scores a test item comes first. "
        f"{signs('the bare model')}).{untuned(rows)}"
    )
    return [Table([*heads, "seeds"], lines, caption)]


STUDY = Study(
    name="worst_case",
    title="The worst case",
    question="How many recommendations does it take until a user has seen all of the test items, with and without AUR?",
    cells=cells,
    measure=measure,
    show=show,
)
