"""The main jobs on this machine, each as a ratio against a reference measured in the same run.

    python benchmarks/main_jobs.py [--users 20000] [--items 10000] [--json FILE]

fit        MF by ALS with our exact last step, against implicit's ALS alone
evaluate   all users under three protocols at 20 and 50, against a plain loop over users in numpy under one
recommend  top 50 for all users, against implicit's recommend
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import aleator as al
from aleator.ranking import best, blocks
from aleator.studies import record
from aleator.training.histories import pieces


def seconds(job: Callable[[], Any]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def plain_recall(model: al.MF, split: al.Split, k: int = 20) -> float:
    """Recall by a loop over users, the way one would write it first."""
    x, y = model.user_factors.numpy(), model.item_factors.numpy()
    seen, test = split.everything.csr, split.test.csr
    found = []
    for user in np.flatnonzero(np.diff(test.indptr)):
        scores = y @ x[user]
        scores[seen.indices[seen.indptr[user] : seen.indptr[user + 1]]] = -np.inf
        top = np.argpartition(-scores, k)[:k]
        taken = test.indices[test.indptr[user] : test.indptr[user + 1]]
        found.append(np.isin(top, taken).sum() / len(taken))
    return float(np.mean(found))


def top_for_all(model: al.MF, k: int = 50) -> None:
    """The best unseen items of every user, in bounded memory."""
    n_users, n_items = model.fitted.n_users, model.fitted.n_items
    size, chunk = blocks(n_users, n_items, model.torch_device)
    for index in pieces(torch.arange(n_users), size):
        users = model.histories.batch(index)
        best(model.score_block, users, k, n_items, seen=users, chunk=chunk)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    split = al.simulate(n_users=args.users, n_items=args.items, per_user=200, seed=0).interactions.split(valid=0.0)
    model = al.MF(device="cpu")
    with threadpool_limits(1, "blas"):
        reference = AlternatingLeastSquares(factors=128, alpha=10, regularization=0.05, iterations=15, random_state=0)
        fit_theirs = seconds(lambda: reference.fit(split.everything.csr, show_progress=False))
        everyone = np.arange(split.train.n_users)
        recommend_theirs = seconds(lambda: reference.recommend(everyone, split.everything.csr, N=50))
    jobs = {
        "fit": (seconds(lambda: model.fit(split)), fit_theirs),
        "evaluate": (seconds(lambda: al.evaluate(model, split)), seconds(lambda: plain_recall(model, split))),
        "recommend": (seconds(lambda: top_for_all(model)), recommend_theirs),
    }
    print(
        f"{args.users} users, {args.items} items, {len(split.everything)} pairs; {record.machine()}; {record.versions()}"
    )
    print(f"{'job':<12}{'ours (s)':>10}{'reference (s)':>15}{'ratio':>8}")
    for name, (ours, theirs) in jobs.items():
        print(f"{name:<12}{ours:>10.2f}{theirs:>15.2f}{ours / theirs:>8.2f}")
    if args.json:
        args.json.write_text(
            json.dumps({"jobs": jobs, "machine": record.machine(), "versions": record.versions()}, indent=1)
        )


if __name__ == "__main__":
    main()
