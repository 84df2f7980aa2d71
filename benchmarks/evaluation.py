"""Seconds of an evaluation, of given lists and from factors to figures, against RecTools, Cornac, ranx and plain loops.

    python benchmarks/evaluation.py [--dataset yelp2018 --data-root FOLDER] [--users 5000 --items 3000] [--json FILE]

lists   Recall@20 and NDCG@20 of the same lists of 20 items. Each library gets them in the form that it needs. A loop over
        users in numpy is always measured as a reference.
whole   From the factors of one fitted MF to the figures. Ours are three protocols with six metrics each. The others
        compute Recall and NDCG under one protocol. A loop over blocks in torch is always measured as a reference.

All figures must agree, or the benchmark fails. RecTools' NDCG gets divide_by_achievable, because by default it divides by
k ideal hits. A job that takes less than `AGAIN` seconds is timed on the second call. "first" is the first call, in which
ranx compiles. The other libraries come with pip install 'aleator[bench]'. RecTools allows numpy 2 only from Python 3.13
on. With an earlier Python, it runs in its own environment after
    pip install 'aleator[bench]' typeguard pydantic 'pandas<3' && pip install --no-deps rectools 'attrs<24'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from common import Row, arguments, brute_force, describe, one_blas_thread, open_data, peer, seconds, show, timed
from numpy.typing import NDArray

import aleator as al
from aleator.batches import Histories
from aleator.evaluation.metrics import ndcg, recall
from aleator.evaluation.protocols import _hits

K = 20
AGAIN = 20.0  # seconds
Figures = tuple[float, float]  # means of Recall@K and NDCG@K over the users
Job = Callable[[], Figures]


@dataclass(frozen=True)
class Task:
    """What all libraries evaluate: users with a history and a test part, the factors of an MF, and its lists."""

    who: NDArray[np.int64]  # [U] dense ids
    items: NDArray[np.int64]  # [U, K], -1 if a user has fewer candidates
    test: sp.csr_matrix  # [n_users, n_items]
    seen: sp.csr_matrix  # [n_users, n_items]
    x: NDArray[np.float32]  # [n_users, dim]
    y: NDArray[np.float32]  # [n_items, dim]

    def relevant(self, user: int) -> NDArray[np.int32]:
        """The test items of one user."""
        items: NDArray[np.int32] = self.test.indices[self.test.indptr[user] : self.test.indptr[user + 1]]
        return items


def numpy_lists(task: Task) -> Job:
    """A plain loop over users in numpy."""
    discount = 1 / np.log2(np.arange(2, K + 2))

    def job() -> Figures:
        found = []
        for user, items in zip(task.who, task.items, strict=True):
            relevant = task.relevant(user)
            hit = np.isin(items, relevant)
            found.append((hit.sum() / len(relevant), discount[hit].sum() / discount[: len(relevant)].sum()))
        return _means(found)

    return job


def our_lists(task: Task, device: torch.device) -> Job:
    test, items = Histories(task.test, device), torch.from_numpy(task.items).to(device)
    who = torch.from_numpy(task.who)

    def job() -> Figures:
        relevant = test.batch(who)
        hits = _hits(items, relevant, test.n_items)
        return float(recall(hits, relevant.size, K).mean()), float(ndcg(hits, relevant.size, K).mean())

    return job


def rectools_lists(task: Task) -> Job | None:
    if peer("rectools") is None:
        return None
    import pandas as pd

    place, rank = (task.items >= 0).nonzero()
    frame = pd.DataFrame({"user_id": task.who[place], "item_id": task.items[place, rank], "rank": rank + 1})
    test, metrics = _rectools_parts(task)

    def job() -> Figures:
        from rectools.metrics import calc_metrics

        return _named(calc_metrics(metrics, frame, interactions=test))

    return job


def rectools_whole(task: Task) -> Job | None:
    if peer("rectools") is None:
        return None
    import pandas as pd
    from rectools.metrics import calc_metrics
    from rectools.models.rank import Distance, ImplicitRanker

    test, metrics = _rectools_parts(task)

    def job() -> Figures:
        with one_blas_thread():
            ranker = ImplicitRanker(Distance.DOT, task.x, task.y, num_threads=torch.get_num_threads())
            users, items, _ = ranker.rank(task.who, k=K, filter_pairs_csr=task.seen[task.who])
        frame = pd.DataFrame({"user_id": users, "item_id": items})
        frame["rank"] = frame.groupby("user_id", sort=False).cumcount() + 1
        return _named(calc_metrics(metrics, frame, interactions=test))

    return job


def _rectools_parts(task: Task) -> tuple[Any, dict[str, Any]]:
    import pandas as pd
    from rectools.metrics import NDCG, Recall

    user, item = task.test[task.who].nonzero()
    test = pd.DataFrame({"user_id": task.who[user], "item_id": item})
    return test, {"recall": Recall(K), "ndcg": NDCG(K, divide_by_achievable=True)}


def cornac_lists(task: Task) -> Job | None:
    """Cornac's metrics, one user at a time, as Cornac's own evaluation calls them."""
    if peer("cornac") is None:
        return None
    from cornac.metrics import NDCG, Recall

    metrics = [Recall(k=K), NDCG(k=K)]

    def job() -> Figures:
        return _means(
            [
                [metric.compute(gt_pos=task.relevant(user), pd_rank=items) for metric in metrics]
                for user, items in zip(task.who, task.items, strict=True)
            ]
        )

    return job


def cornac_whole(task: Task) -> Job | None:
    if peer("cornac") is None:
        return None
    from cornac.data import Dataset
    from cornac.eval_methods.base_method import ranking_eval
    from cornac.metrics import NDCG, Recall
    from cornac.models import Recommender

    class Factors(Recommender):  # type: ignore[misc]
        def score(self, user_idx: int, item_idx: int | None = None) -> Any:
            return task.y @ task.x[user_idx]

    def dataset(matrix: sp.csr_matrix) -> Any:
        user, item = matrix.nonzero()
        names = [{n: n for n in range(size)} for size in matrix.shape]
        return Dataset(*matrix.shape, *names, (user.astype(int), item.astype(int), np.ones(len(user))))

    chosen = np.zeros(task.test.shape[0], bool)
    chosen[task.who] = True
    train, test = dataset(task.seen), dataset(sp.diags(chosen.astype(np.float32)).tocsr() @ task.test)
    model = Factors("factors").fit(train)

    def job() -> Figures:
        means, _ = ranking_eval(model, [Recall(k=K), NDCG(k=K)], train, test, exclude_unknowns=False)
        return float(means[0]), float(means[1])

    return job


def ranx_lists(task: Task) -> Job | None:
    ranx = peer("ranx")
    if ranx is None:
        return None
    qrels, run = _qrels(ranx, task), _run(ranx, task.who, task.items)
    return lambda: _named(ranx.evaluate(qrels, run, [f"recall@{K}", f"ndcg@{K}"]))


def ranx_whole(task: Task, lists: Callable[[], NDArray[np.int64]]) -> Job | None:
    """ranx on the lists of the loop over blocks, because ranx makes no lists."""
    ranx = peer("ranx")
    if ranx is None:
        return None
    qrels = _qrels(ranx, task)
    return lambda: _named(ranx.evaluate(qrels, _run(ranx, task.who, lists()), [f"recall@{K}", f"ndcg@{K}"]))


def _qrels(ranx: Any, task: Task) -> Any:
    return ranx.Qrels({str(user): {str(item): 1 for item in task.relevant(user)} for user in task.who})


def _run(ranx: Any, who: NDArray[np.int64], lists: NDArray[np.int64]) -> Any:
    ranked = zip(who.tolist(), lists.tolist(), strict=True)
    return ranx.Run({str(u): {str(i): -float(rank) for rank, i in enumerate(items) if i >= 0} for u, items in ranked})


def torch_whole(task: Task, lists: Callable[[], NDArray[np.int64]]) -> Job:
    return lambda: numpy_lists(replace(task, items=lists()))()


def our_whole(model: al.MF, split: al.Split) -> Job:
    def job() -> Figures:
        means = al.evaluate(model, split, k=K).to_dict()["overall"]
        return means[f"recall@{K}"], means[f"ndcg@{K}"]

    return job


def _means(found: list[Any]) -> Figures:
    one, two = np.mean(found, axis=0)
    return float(one), float(two)


def _named(found: Any) -> Figures:
    """The figures of a dict with the keys recall and ndcg, in that order."""
    one, two = found.values()
    return float(one), float(two)


def measure(job: Job, repeats: int) -> tuple[float, float, Figures]:
    """Seconds of the first call, seconds of the fastest later call, and the figures."""
    first, figures = timed(job)
    return first, seconds(job, repeats) if first < AGAIN else first, figures


def compare(name: str, ours: Job, others: dict[str, Job | None], tolerance: float, repeats: int) -> list[Row]:
    """Our seconds alone, then against each of the others. Stops the benchmark if the figures do not agree."""
    our_first, our_seconds, figures = measure(ours, repeats)
    rows = [Row(name, our_seconds, more={"first": our_first, **_columns(figures)})]
    for other, job in others.items():
        if job is None:
            continue
        first, later, theirs = measure(job, repeats)
        if not np.allclose(figures, theirs, rtol=0, atol=tolerance):
            raise SystemExit(f"{name}: our figures are {figures}, but those of {other} are {theirs}")
        rows.append(Row(name, our_seconds, later, other, more={"first": first, **_columns(theirs)}))
    return rows


def _columns(figures: Figures) -> dict[str, float]:
    return {f"recall@{K}": figures[0], f"ndcg@{K}": figures[1]}


def main() -> None:
    args = arguments(__doc__, repeats=3).parse_args()
    split = open_data(args)
    history = np.diff(split.everything.csr.indptr)
    split = replace(split, test=split.test.take(history[split.test.user] > 0))
    model = al.MF(dim=args.dim, device=args.device).fit(split)
    test, seen = split.test.csr, split.everything.csr
    x, y = model.table.users, model.table.items
    who = np.flatnonzero(np.diff(test.indptr))

    def lists() -> NDArray[np.int64]:
        return brute_force(lambda index: x[index.to(x.device)] @ y.T, seen, torch.from_numpy(who), K)[1].numpy()

    task = Task(who, lists(), test, seen, x.cpu().numpy(), y.cpu().numpy())
    by_lists = {
        "numpy loop": numpy_lists(task),
        "RecTools": rectools_lists(task),
        "Cornac": cornac_lists(task),
        "ranx": ranx_lists(task),
    }
    by_whole = {
        "torch loop": torch_whole(task, lists),
        "RecTools": rectools_whole(task),
        "Cornac": cornac_whole(task),
        "torch loop + ranx": ranx_whole(task, lists),
    }
    rows = compare("lists", our_lists(task, model.torch_device), by_lists, 1e-6, args.repeats)
    # a larger tolerance, because items whose scores differ in the last bit may change places
    rows += compare("whole", our_whole(model, split), by_whole, 1e-4, args.repeats)
    show("evaluation", rows, args.json, dataset=describe(split, args.dataset))


if __name__ == "__main__":
    main()
