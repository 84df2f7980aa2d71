"""Beyond the paper: newcomers. Some users are held out whole, and a few of their items are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from aleator.batches import Histories, pieces
from aleator.data.splits import Split
from aleator.evaluation.metrics import ndcg, recall
from aleator.ranking.top import blocks
from aleator.recommender import Recommender
from aleator.studies import records
from aleator.studies.methods import DEFAULT, Method, under_aur
from aleator.studies.records import Figures, Measured, Record
from aleator.studies.report.cells import Cell
from aleator.studies.report.tables import Block, Table, count, figure_of, over_seeds, rule, seeds_of
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen

METHODS = (DEFAULT, under_aur("MF"), "FISM", "EASE", "ItemKNN", "Popularity", "Random")
GIVEN = (1, 2, 5, 10)  # items of a history
K = 20
SHARE, MOST = 0.1, 2000  # users that are held out: this share of those with enough items, and at most so many

Ids = NDArray[np.int64]


def cells(bench: Workbench) -> list[Method]:
    return [Method(name) for name in METHODS]


def drawn(split: Split, seed: int) -> Ids:
    """The users that are held out, dense ids. They have more items than are ever given."""
    size = np.diff(split.everything.csr.indptr)
    enough = np.flatnonzero(size > max(GIVEN))
    n = min(int(np.ceil(SHARE * len(enough))), MOST)
    return np.sort(np.random.default_rng(seed).permutation(enough)[:n]).astype(np.int64)


def without(split: Split, users: Ids) -> Split:
    """The split whose training part has no pair of these users. It has no other part."""
    data = split.everything
    kept = data.take(~np.isin(data.user, users))
    nothing = kept.take(np.zeros(len(kept), bool))
    return replace(split, train=kept, valid=nothing, test=nothing)


def orders(split: Split, users: Ids, seed: int) -> list[Ids]:
    """The items of each user in a random order. The first ones are given."""
    matrix, rng = split.everything.csr, np.random.default_rng([seed, 1])
    return [rng.permutation(matrix.indices[matrix.indptr[u] : matrix.indptr[u + 1]]).astype(np.int64) for u in users]


def accuracy_given(system: Recommender, items: Sequence[Ids], n: int) -> dict[str, float | None]:
    """Mean Recall@20 and NDCG@20 on the rest of each list, with its first n items as the history."""
    n_items, device = system.fitted.n_items, system.torch_device
    history = Histories.of_lists([own[:n] for own in items], n_items, device)
    rest = Histories.of_lists([own[n:] for own in items], n_items, device)
    size, _ = blocks(len(items), n_items, device)
    found = []
    for index in pieces(torch.arange(len(items)), size):
        users, wanted = history.batch(index, known=False), rest.batch(index)
        with torch.no_grad():
            ((_, listed),) = system.top(users, K, seen=users)
        relevant = torch.zeros((len(index), n_items), dtype=torch.bool, device=device)
        relevant[wanted.row, wanted.item] = True
        hits = relevant.gather(1, listed.clamp_min(0)) & (listed >= 0)
        found.append(torch.stack([recall(hits, wanted.size, K), ndcg(hits, wanted.size, K)]))
    means = torch.cat(found, 1).double().mean(1).tolist()
    return dict(zip((f"recall@{K}", f"ndcg@{K}"), means, strict=True))


def measure(bench: Workbench, method: Method) -> Measured:
    users = drawn(bench.split, bench.seed)
    own = bench.on("newcomers", lambda: without(bench.split, users))
    system = own.fit(method)
    bench.seconds[method.key] = own.seconds[method.key]
    items = orders(bench.split, users, bench.seed)
    metrics: Figures = {f"{n} given": accuracy_given(system, items, n) for n in GIVEN}
    return {"metrics": metrics, "users": len(users), "chosen": chosen(system), "config": system.options()}


def show(rows: Sequence[Record]) -> list[Block]:
    tables: list[Block] = []
    for metric in (f"recall@{K}", f"ndcg@{K}"):
        lines: list[list[Cell]] = [
            [method, *(figure_of(runs, f"{n} given", metric) for n in GIVEN), count(len(runs))]
            for method, runs in seeds_of(rows).items()
        ]
        caption = (
            f"{records.about(rows)}: {metric} of {rows[0]['users']} users who are held out of training whole, on the "
            "rest of their items, by the number of items that are given. All methods have default options. See which "
            f"method is best for short histories. {rule(rows)} {over_seeds(rows)}".strip()
        )
        heads = ["method", *(f"{n} given" for n in GIVEN), "seeds"]
        tables.append(Table(heads, lines, caption))
    return tables


STUDY = Study(
    name="beyond",
    part="newcomers",
    title="Beyond: newcomers with short histories",
    question="How good are the lists of users who were not trained on, if only a few of their items are known?",
    cells=cells,
    measure=measure,
    show=show,
    plain=True,
    applies=lambda bench: not bench.recipe.on_test and len(drawn(bench.split, 0)) > 0,
    order=METHODS,
)
