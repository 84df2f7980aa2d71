"""Seconds of an epoch at Amazon-Book's size, ours and the released program's loops, in the same run on the same data.

    python benchmarks/epochs.py [--users 52643] [--items 91599] [--pairs 2380730] [--steps N] [--json FILE]

MF by Adam      `MF(solver="adam")`, against the released program's loop in `published.py`
estimator       `FactorEstimator()` on MF by ALS, against the released program's loop on the same factors
ALS iteration   `MF()`, our default solver, which the released program does not have

"ours" is the median of the epochs after the first. "cold" is the first epoch, with compilation and the start of the
device. For ALS, "ours" is the whole fit divided by its iterations, and "cold" is a fit of one iteration. An epoch is one
pass over all users. The released program takes batches of 32 users, ours are larger. `time_to_quality.py` measures how
soon a quality is reached. "items" is how many items each batch of ours is scored against: all, or a sample if there are
many for the device. The released program takes all. The interactions are random, with popular items and active users. No
quality is measured on them.
"""

from __future__ import annotations

import argparse
import gc
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from common import Row, seconds, show
from published import estimator_epoch, mf_epoch

import aleator as al
from aleator.batches import Histories
from aleator.device import resolve_device
from aleator.training.loop import Log
from aleator.training.stop import Stop

AGAINST = "the released program's loop"


def draw(n_users: int, n_items: int, n_pairs: int, seed: int = 0) -> sp.csr_matrix:
    """A random matrix of ones, [n_users, n_items]. Every user and item has a pair.

    The popularity of items follows (rank + 50)^-0.7. The activity of users is log-normal.
    """
    rng = np.random.default_rng(seed)
    fame = rng.permutation((np.arange(n_items) + 50.0) ** -0.7)
    activity = rng.lognormal(sigma=0.9, size=n_users)
    most = max(n_users, n_items)
    users, items = np.arange(most) % n_users, np.arange(most) % n_items
    keys = np.unique(rng.permutation(users) * n_items + items)
    while len(keys) < n_pairs:
        missing = n_pairs - len(keys)
        who = rng.choice(n_users, missing, p=activity / activity.sum())
        keys = np.union1d(keys, who * n_items + rng.choice(n_items, missing, p=fame / fame.sum()))
    user, item = np.divmod(keys, n_items)
    return sp.csr_matrix((np.ones(len(keys), np.float32), (user, item)), shape=(n_users, n_items))


def epochs(log: Log | None) -> tuple[float, float]:
    """Seconds of an epoch: the median of those after the first, and the first one."""
    assert log is not None
    cold, *warm = log.seconds
    return median(warm), cold


def free() -> None:
    """Free the memory of deleted tensors, so that the next job finds the device as the first one did."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def by_adam(data: al.Interactions, args: argparse.Namespace, common: dict[str, Any]) -> Row:
    """An epoch of MF by Adam, ours and that of the released program."""
    model = al.MF(solver="adam", **common)
    model.fit_pairs(data, epochs=args.epochs)
    ours, cold = epochs(model.log)
    del model
    free()
    published, _ = mf_epoch(data.csr, resolve_device(args.device), steps=args.steps, seed=args.seed)
    return Row("MF by Adam", ours, published, AGAINST, more={"cold": cold, "items": data.n_items})


def by_als(data: al.Interactions, common: dict[str, Any]) -> tuple[al.MF, Row]:
    """An MF fitted by ALS, and the seconds of one iteration."""
    cold = seconds(lambda: al.MF(iterations=1, **common).fit_pairs(data))
    model = al.MF(**common)
    ours = seconds(lambda: model.fit_pairs(data)) / model.iterations
    return model, Row("ALS iteration", ours, more={"cold": cold, "items": data.n_items})


def on_top(model: al.MF, data: al.Interactions, args: argparse.Namespace, common: dict[str, Any]) -> Row:
    """An epoch of the estimator on the factors of `model`, ours and that of the released program."""
    device = resolve_device(args.device)
    estimator = al.FactorEstimator(**common)
    estimator.learn(Histories(data.csr, device), model, al.AUR(model).objective, Stop(epochs=args.epochs))
    ours, cold = epochs(estimator.log)
    items = estimator.sample_size(data.n_items, device) or data.n_items
    del estimator
    free()
    factors = model.table.users, model.table.items
    published, _ = estimator_epoch(data.csr, *factors, device, steps=args.steps, seed=args.seed)
    return Row("estimator", ours, published, AGAINST, more={"cold": cold, "items": items})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=52_643)
    parser.add_argument("--items", type=int, default=91_599)
    parser.add_argument("--pairs", type=int, default=2_380_730)
    parser.add_argument("--epochs", type=int, default=6, help="epochs of ours; the first is cold")
    parser.add_argument("--steps", type=int, help="steps of the released program's loops; a whole epoch by default")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="append the figures to this file as one line of JSON")
    args = parser.parse_args()
    if not max(args.users, args.items) <= args.pairs <= args.users * args.items // 2:
        parser.error("give at least one pair for each user and item, and at most half of all pairs")
    if args.epochs < 2 or (args.steps is not None and args.steps < 1):
        parser.error("give at least 2 epochs and 1 step")

    data = al.read(draw(args.users, args.items, args.pairs, args.seed))
    common = {"device": args.device, "seed": args.seed}
    mf = by_adam(data, args, common)
    free()
    model, als = by_als(data, common)
    rows = [mf, on_top(model, data, args, common), als]
    about = {"users": data.n_users, "items": data.n_items, "pairs": len(data)}
    show(
        "epochs", rows, args.json, data=about, published="whole epochs" if args.steps is None else f"{args.steps} steps"
    )


if __name__ == "__main__":
    main()
