"""Beyond the paper: does the uncertainty find mislabelled pairs?

The truth is known in simulated worlds, and on Coat for pairs that were assigned at random and then rated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aleator.aur import AUR
from aleator.batches import pieces
from aleator.data.simulate import auroc
from aleator.data.splits import Split
from aleator.studies.methods import Method
from aleator.studies.records import Measured, Record
from aleator.studies.report.cells import Cell
from aleator.studies.report.tables import Block, Table, figure_of
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen

SCORES = ("uncertainty", "expectation", "blend", "popularity", "random")
RANDOM_TEST = ("coat",)  # the datasets whose test pairs were assigned at random
LIKED = 4.0  # a pair of Coat with at least this rating is positive
PAIRS = 200_000  # how many unobserved pairs are drawn in a world
SMALL = {"model.dim": 16, "estimator.dim": 256}  # small sizes, since these datasets are small

Ids = NDArray[np.int64]
Truth = tuple[Ids, Ids, NDArray[np.bool_]]  # user, item, label


def cells(bench: Workbench) -> list[Method]:
    return [Method("MF-AUR", SMALL), Method("EASE-AUR", {"estimator.dim": SMALL["estimator.dim"]})]


def known(bench: Workbench) -> tuple[Workbench, Truth]:
    """A workbench with positive training pairs only, and unobserved pairs whose truth is known."""
    if bench.world is not None:
        return bench, bench.world.unobserved(PAIRS, bench.seed)
    test = bench.split.judged
    assert test is not None
    assert test.rating is not None
    truth = test.user.astype(np.int64), test.item.astype(np.int64), test.rating >= LIKED
    return bench.on("liked", lambda: liked(bench.split)), truth


def liked(split: Split) -> Split:
    """The split whose training part is all liked pairs. It has no other part."""
    train = split.everything
    assert train.rating is not None
    kept = train.take(train.rating >= LIKED)
    nothing = kept.take(np.zeros(len(kept), bool))
    return replace(split, train=kept, valid=nothing, test=nothing)


def random_test(bench: Workbench) -> bool:
    """Whether the test pairs were assigned at random, and rated."""
    return bench.dataset in RANDOM_TEST and bench.split.judged is not None


def measure(bench: Workbench, method: Method) -> Measured:
    own, (user, item, label) = known(bench)
    aur = own.fit(method)
    assert isinstance(aur, AUR)
    r, sigma, blend = parts_of(aur, user, item)
    scores = {
        "uncertainty": sigma,
        "expectation": r,
        "blend": blend,
        "popularity": own.split.everything.popularity[item],
        "random": np.random.default_rng(bench.seed).random(len(item)),
    }
    return {
        "metrics": {
            "auroc": {name: auroc(label, score) for name, score in scores.items()},
            "average_precision": {name: average_precision(label, score) for name, score in scores.items()},
        },
        "pairs": len(label),
        "liked": float(label.mean()),
        "chosen": chosen(aur),
        "config": aur.options(),
    }


def parts_of(aur: AUR, user: Ids, item: Ids) -> list[NDArray[np.float64]]:
    """Expectation, uncertainty and blend of each pair, in blocks of users."""
    found = [np.empty(len(user)) for _ in range(3)]
    order = np.argsort(user, kind="stable")
    for index in pieces(torch.from_numpy(np.unique(user)), 2048):
        with torch.no_grad():
            users = aur.histories.batch(index)
            parts = *aur.parts(users), aur.score_block(users)
        first, last = np.searchsorted(user[order], [index[0], index[-1] + 1])
        rows = order[first:last]
        at = np.searchsorted(index.numpy(), user[rows])
        for target, part in zip(found, parts, strict=True):
            target[rows] = part.cpu().numpy()[at, item[rows]]
    return found


def average_precision(label: Any, score: Any) -> float:
    """The mean over positive pairs of the precision among all pairs that score at least as high.

    >>> average_precision([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1])
    0.8333333333333333
    """
    label, score = np.asarray(label, bool), np.asarray(score, np.float64)
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.r_[np.diff(score[order]) != 0, True])  # equal scores are taken together
    found = np.cumsum(label[order])[last]
    return float((np.diff(found, prepend=0) * found / (last + 1)).sum() / label.sum())


def show(rows: Sequence[Record]) -> list[Block]:
    runs: dict[str, list[Record]] = {}
    for row in rows:
        runs.setdefault(row["method"], []).append(row)
    share = np.mean([row["liked"] for row in rows])
    blocks: list[Block] = []
    for metric, name in (("auroc", "AUROC"), ("average_precision", "average precision")):
        lines: list[list[Cell]] = [
            [method, *(figure_of(own, metric, score) for score in SCORES)] for method, own in runs.items()
        ]
        caption = (
            f"{rows[0]['dataset']}: {name} of each score against the true label of unobserved pairs. "
            f"{share:.1%} of these pairs are liked. Compare the uncertainty with popularity, chance and the expectation. "
            f"Figures are means over {len(rows) // max(len(runs), 1)} seeds, with the 95 % interval where there are "
            "several."
        )
        blocks.append(Table(["method", *SCORES], lines, caption))
    return blocks


STUDY = Study(
    name="beyond",
    part="mislabelled",
    title="Beyond: does the uncertainty find mislabelled pairs?",
    question="Among unobserved pairs, does the uncertainty find the liked ones better than popularity, chance and the "
    "expectation do?",
    cells=cells,
    measure=measure,
    show=show,
    applies=lambda bench: not bench.recipe.on_test and (bench.world is not None or random_test(bench)),
)
