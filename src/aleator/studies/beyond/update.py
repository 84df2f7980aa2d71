"""Beyond the paper: updates. A share of the training pairs comes later, with new users and new items among them.

A model is fitted without the late pairs. It then serves as it is, with the late pairs in the histories as far as it knows
their items (stale), or it is updated, at once or in ten steps. All are compared with a model that is fitted on all pairs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.evaluation.protocols import evaluate
from aleator.recommender import Recommender
from aleator.studies import records
from aleator.studies.methods import DEFAULT, FLOORS, Method, under_aur
from aleator.studies.records import Figures, Measured, Record
from aleator.studies.report.cells import Cell, Shown
from aleator.studies.report.tables import Block, Table, count, figure_of, mean_of, over_seeds, rule, seeds_of
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen

METHODS = (*FLOORS, DEFAULT, under_aur("MF"), under_aur("FISM"), "MF")
SHARES = (0.01, 0.1)  # of the training pairs that come late
STEPS = 10  # small updates in a row that bring the largest share
STALE, UPDATED, STEPPED, REFITTED = "stale", "updated", f"updated in {STEPS} steps", "fitted again"
SHOWN = {
    "recall@20": "R@20",
    "ndcg@20": "N@20",
    "tail recall@50": "tail R@50",
    "new users recall@20": "new users R@20",
    "new items recall@50": "new items R@50",
}

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Late:
    """A split whose late pairs are apart."""

    whole: Split  # with all training pairs
    known: Interactions  # the pairs that come first
    new: Interactions  # the late ones
    users: Ids  # those who have late pairs alone, dense ids of the split
    items: Ids  # likewise

    @property
    def early(self) -> Split:
        """The pairs that come first, as a split without other parts."""
        nothing = self.known.take(np.zeros(len(self.known), bool))
        return replace(self.whole, train=self.known, test=nothing, valid=nothing)


def cells(bench: Workbench) -> list[Method]:
    return [Method(name) for name in METHODS]


def in_order(split: Split, seed: int) -> Split:
    """The split with each user's latest fifth as the test part, where times are known, and as it is elsewhere."""
    nothing = split.train.take(np.zeros(len(split.train), bool))
    if split.train.time is None or split.test.time is None:
        return replace(split, train=split.everything, valid=nothing)
    made = split.everything.together(split.test).split(valid=0, test=0.2, by="user_time", seed=seed)
    return replace(split, train=made.train, valid=nothing, test=made.test)


def parted(split: Split, share: float, seed: int) -> Late:
    """About a third of the late pairs are those of new users, a third those of new items, and the rest are the latest
    ones of the other users. Where the order in time is not known, the latest ones are random."""
    data, rng = split.train, np.random.default_rng([seed, 2])
    wanted = share * len(data)
    users = _some(data.user, data.n_users, wanted / 3, rng)
    late = np.isin(data.user, users)
    items = _some(data.item[~late], data.n_items, wanted / 3, rng)
    late |= np.isin(data.item, items)
    late[_latest(data, ~late, round(wanted - late.sum()), rng)] = True
    return Late(split, data.take(~late).clean(), data.take(late).clean(), users, items)


def _some(ids: NDArray[np.int32], n: int, wanted: float, rng: np.random.Generator) -> Ids:
    """Random ids that have about `wanted` of the rows together, and at least one."""
    size = np.bincount(ids, minlength=n)
    order = rng.permutation(np.flatnonzero(size))
    return order[: max(int(np.searchsorted(np.cumsum(size[order]), wanted)), 1)]


def _latest(data: Interactions, among: NDArray[np.bool_], n: int, rng: np.random.Generator) -> Ids:
    """The rows of about the same last share of each user's pairs, `n` in all."""
    time = data.in_time()
    order = np.lexsort((rng.random(len(data)) if time is None else -time, data.user))
    order = order[among[order]]
    user = data.user[order]
    size = np.bincount(user, minlength=data.n_users)
    place = np.arange(len(user)) - (np.cumsum(size) - size)[user]  # from the latest one of the user on
    share = (place + rng.random(data.n_users)[user]) / size[user]
    return order[np.argsort(share, kind="stable")[: max(n, 0)]]


def steps(new: Interactions, n: int, seed: int) -> list[Interactions]:
    """The pairs in n parts of about equal size, the earliest first. Where the order is not known, it is random."""
    time, rng = new.in_time(), np.random.default_rng([seed, 3])
    order = rng.permutation(len(new))
    if time is not None:
        order = order[np.argsort(time[order], kind="stable")]
    return [new.take(rows).clean() for rows in np.array_split(order, n)]


def figures(bench: Workbench, system: Recommender, late: Late) -> dict[str, float | None]:
    """The metrics of all users, those of new users, and how many test pairs of new items are found."""
    report = evaluate(system, late.whole, recipe=bench.recipe.name)
    new = np.isin(report.users, late.whole.train.users.decode(late.users))
    theirs = report.per_user["overall"]["recall@20"][new]
    of_new = late.whole.test.take(np.isin(late.whole.test.item, late.items))
    found = {
        "recall@20": report.mean("overall", "recall@20"),
        "ndcg@20": report.mean("overall", "ndcg@20"),
        "tail recall@50": report.mean("tail_absolute", "recall@50"),
        "new users recall@20": float(theirs.mean()) if len(theirs) else None,
        "new items recall@50": None,
    }
    if len(of_new):
        alone = evaluate(system, replace(late.whole, test=of_new), recipe=bench.recipe.name)
        found["new items recall@50"] = alone.mean("overall", "recall@50")
    return found


def measure(bench: Workbench, method: Method) -> Measured:
    split = in_order(bench.split, bench.seed)
    again = bench.on("update", lambda: split)
    system = again.fit(method)
    bench.seconds[method.key] = again.seconds[method.key]
    metrics: Figures = {}
    for share in SHARES:
        late, name = parted(split, share, bench.seed), f"{share:.0%}"
        metrics[f"{REFITTED} {name}"] = {**figures(bench, system, late), "seconds": bench.seconds[method.key]}
        if method.name in FLOORS:
            continue
        early = bench.on(f"update {name}", lambda late=late: late.early)  # type: ignore[misc]
        stale = early.fit(method)
        metrics[f"{STALE} {name}"] = {**figures(bench, stale, late), "seconds": 0.0}
        ways = {UPDATED: [late.new]}
        if share == max(SHARES):
            ways[STEPPED] = steps(late.new, STEPS, bench.seed)
        for way, parts in ways.items():
            start, updated = time.perf_counter(), stale
            for part in parts:
                updated = updated.update(part)
            seconds = time.perf_counter() - start
            metrics[f"{way} {name}"] = {**figures(bench, updated, late), "seconds": seconds}
        metrics[f"late {name}"] = {each: float(n) for each, n in updated.updated.items()}
    return {"metrics": metrics, "chosen": chosen(system), "config": system.options()}


def show(rows: Sequence[Record]) -> list[Block]:
    tables: list[Block] = []
    for share in SHARES:
        name = f"{share:.0%}"
        lines: list[list[Cell]] = []
        for method, runs in seeds_of(rows).items():
            whole = mean_of(runs, f"{REFITTED} {name}", "seconds")
            for way in (STALE, UPDATED, STEPPED, REFITTED):
                served = [run for run in runs if f"{way} {name}" in run["metrics"]]
                if not served:
                    continue
                seconds = mean_of(served, f"{way} {name}", "seconds")
                took: list[Cell] = [None, None]
                if way != STALE:
                    took = [Shown(f"{seconds:.1f}", seconds), Shown(f"{whole / seconds:.0f}", whole / seconds)]
                found = (figure_of(served, f"{way} {name}", metric) for metric in SHOWN)
                lines.append([method, way, *found, *took, count(len(served))])
        updated = [row for row in rows if row["method"] not in FLOORS]
        new = {each: mean_of(updated, f"late {name}", each) for each in ("pairs", "users", "items")}
        caption = (
            f"{records.about(rows)}: {name} of the training pairs come late ({new['pairs']:,.0f} pairs, with "
            f"{new['users']:,.0f} new users and {new['items']:,.0f} new items, in the mean over seeds). See how much of "
            "what a fit on all pairs gains over the stale model an update gains too, and in what time. "
            f"{rule(rows)} {over_seeds(rows)}".strip()
        )
        heads = ["method", "", *SHOWN.values(), "seconds", "times as fast", "seeds"]
        tables.append(Table(heads, lines, caption))
    return tables


STUDY = Study(
    name="beyond",
    part="update",
    title="Beyond: updates",
    question="How good is an updated model beside one that is fitted again, and how long does each take?",
    cells=cells,
    measure=measure,
    show=show,
    plain=True,
    applies=lambda bench: bench.world is None and not bench.recipe.on_test,
    order=METHODS,
)
