"""Beyond the paper: does the uncertainty find mislabelled pairs?

The truth is known in simulated worlds, and on Coat for pairs that were assigned at random and then rated. Each model has
default options, which are chosen on validation. The default AUR trains its estimator for the blend: where no blend gains,
it stops after an epoch or two. In the other ways `blend="sigma"` stops it where s alone is best on validation. One way
is a control: with a constant in place of all expectations the uncertainty knows no model, only who took what.
"""

from __future__ import annotations

import json
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
from aleator.studies.methods import Method, under_aur
from aleator.studies.records import Measured, Record
from aleator.studies.report.cells import DOWN, UP, Cell, Shown
from aleator.studies.report.tables import Block, Table, interval, rule, values
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen

MODELS = ("MF", "EASE", "FISM")
WAYS: dict[str, dict[str, Any]] = {  # how the estimator is trained
    "for the blend": {},
    "r on all pairs": {"residuals": "in-sample", "unobserved": "model", "blend": "sigma"},
    "r on observed pairs": {"residuals": "in-sample", "unobserved": "constant", "blend": "sigma"},
    "no model": {"residuals": "constant", "unobserved": "constant", "blend": "sigma"},
}
CONTROL, OTHER = "no model", "other options"
SCORES = ("uncertainty", "expectation", "blend", "popularity", "random")
RANDOM_TEST = ("coat",)  # the datasets whose test pairs were assigned at random
DIFFERENCES = ("expectation", "popularity", CONTROL)  # what the uncertainty is compared with
LIKED = 4.0  # a pair of Coat with at least this rating is positive
PAIRS = 200_000  # how many unobserved pairs are drawn in a world

Ids = NDArray[np.int64]
Truth = tuple[Ids, Ids, NDArray[np.bool_]]  # user, item, label


def cells(bench: Workbench) -> list[Method]:
    return [Method(under_aur(model), own) for model in MODELS for own in WAYS.values()]


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
    r, s, blend = parts_of(aur, user, item)
    scores = {
        "uncertainty": s,
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
        "setting": str(aur.setting),
        "config": aur.options(),
    }


def parts_of(aur: AUR, user: Ids, item: Ids) -> list[NDArray[np.float64]]:
    """Expectation, log-variance and blend of each pair, in blocks of users.

    The uncertainty orders pairs as the log-variance does, except that the map between them makes some of them equal.
    """
    found = [np.empty(len(user)) for _ in range(3)]
    order = np.argsort(user, kind="stable")
    for index in pieces(torch.from_numpy(np.unique(user)), 2048):
        with torch.no_grad():
            users = aur.histories.batch(index)
            parts = aur.model.score_block(users), aur.estimator.log_variance(users), aur.score_block(users)
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
    names = {json.dumps(own, sort_keys=True): way for way, own in WAYS.items()}
    runs: dict[tuple[str, str], list[Record]] = {}
    for row in rows:
        way = names.get(json.dumps(row.get("settings", {}), sort_keys=True), OTHER)
        runs.setdefault((row["method"], way), []).append(row)
    share = np.mean([row["liked"] for row in rows])
    seeds = len({row["seed"] for row in rows})
    blocks: list[Block] = []
    for metric, name in (("auroc", "AUROC"), ("average_precision", "average precision")):
        lines = [
            [method, way, *_line(runs[method, way], runs.get((method, CONTROL), []), metric)]
            for method in dict.fromkeys(method for method, _ in runs)
            for way in (*WAYS, OTHER)
            if (method, way) in runs
        ]
        caption = (
            f"{rows[0]['dataset']}: {name} of each score against the true label of unobserved pairs. "
            f"{share:.1%} of these pairs are liked. The second column says how the estimator was trained. The last ones "
            f"have the uncertainty less another score of the same seed; {CONTROL} is the uncertainty of that row. "
            f"Figures are means over {seeds} seeds, ± half the width of the 95 % interval over seeds. {UP} and {DOWN} "
            "mark differences whose interval leaves out 0. On Coat the seeds share all pairs: the interval is not "
            "over users. In a world each seed is another world. The start of an estimator is decided by its blend with "
            f"the model, so {CONTROL} may differ from model to model. {rule(rows)}".rstrip()
        )
        heads = ["method", "estimator", *SCORES, *(f"against {other}" for other in DIFFERENCES)]
        blocks.append(Table(heads, lines, caption))
    return blocks


def _line(runs: Sequence[Record], control: Sequence[Record], metric: str) -> list[Cell]:
    """The scores of a cell, and how far its uncertainty is above others."""
    found = {score: values(runs, metric, score) for score in SCORES}
    without = {row["seed"]: values([row], metric, SCORES[0])[0] for row in control}
    found[CONTROL] = [without.get(row["seed"], np.nan) for row in runs]
    mine = np.array(found[SCORES[0]])
    others = [other for other in DIFFERENCES if other != CONTROL or control is not runs]
    differences = {other: _figure(mine - found[other], signed=True) for other in others}
    return [*(_figure(found[score]) for score in SCORES), *(differences.get(other) for other in DIFFERENCES)]


def _figure(of_seeds: Sequence[float] | NDArray[np.float64], *, signed: bool = False) -> Cell:
    """The mean and its interval. A difference has a sign where its interval leaves out 0."""
    mean, half = interval(list(of_seeds))
    if np.isnan(mean):
        return None
    known = not np.isnan(half)
    sign = (UP if mean > 0 else DOWN) if signed and known and abs(mean) > half else ""
    return Shown(f"{mean:{'+' if signed else ''}.4f}", mean, note=f"±{half:.4f}" if known else "", sign=sign)


STUDY = Study(
    name="beyond",
    part="mislabelled",
    title="Beyond: does the uncertainty find mislabelled pairs?",
    question="Among unobserved pairs, does the uncertainty find the liked ones better than popularity, the expectation, "
    "and an uncertainty that knows no model?",
    cells=cells,
    measure=measure,
    show=show,
    plain=True,
    applies=lambda bench: not bench.recipe.on_test and (bench.world is not None or random_test(bench)),
)
