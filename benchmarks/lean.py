"""What the lean optimizer costs in quality: MF-AUR trained by it, beside the same by AdamW.

    python benchmarks/lean.py --dataset adressa [--data-root FOLDER] [--estimator-dim 256] [--lrs 0.5 1 2] [--json FILE]

Each optimizer has each learning rate: a factor on the default one. The best is chosen on validation, by the metric that
early stopping watches. All trainings take the same number of epochs, and keep their best one. Figures are those of the
test part. The setting is fixed, so nothing else differs but the optimizer. "state" is what it keeps beside the tables.
"""

from __future__ import annotations

import argparse
from typing import Any

from common import MB, Row, arguments, describe, open_data, show, timed

import aleator as al
from aleator.models.cache import ModelCache

KEY = (("overall", "recall@20"), ("overall", "ndcg@20"), ("tail_absolute", "recall@50"))
LR = 5e-4  # the default one where all items are trained on


def fit(split: al.Split, cache: ModelCache, optimizer: Any, lr: float, args: argparse.Namespace) -> dict[str, Any]:
    """The validation metric, the figures on test and the seconds of a fit."""
    options: dict[str, Any] = {"dim": args.estimator_dim, "optimizer": optimizer, "lr": lr, "init": "spectral"}
    if args.sampled_items is not None:
        options["sampled_items"] = args.sampled_items
    estimator = al.FactorEstimator(max_epochs=args.max_epochs, patience=args.max_epochs, **options)
    given: dict[str, Any] = {"residuals": "in-sample", "unobserved": "constant", "discount": 0.0, "prior": 0.0}
    aur = al.AUR(al.MF(dim=args.dim), estimator=estimator, device=args.device, seed=args.seed, **given)
    spent, _ = timed(lambda: aur.fit(split, cache=cache))
    log = aur.estimator.log
    assert log is not None
    report = al.evaluate(aur, split).to_dict()
    return {
        "metric": max(row["metric"] or 0.0 for row in log.rows),
        "lr": lr,
        "epochs": log.best_epoch,
        "lam": aur.lam_used,
        "seconds": spent,
        "figures": [report[protocol][metric] for protocol, metric in KEY],
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--estimator-dim", type=int, default=256)
    parser.add_argument("--lrs", type=float, nargs="+", default=[0.5, 1.0, 2.0], help="factors on the default rate")
    parser.add_argument("--max-epochs", type=int, default=30)
    parser.add_argument(
        "--sampled-items", type=int, help="items that a batch is trained on; by default as many as suit"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    split, cache = open_data(args).carve(), ModelCache()
    best: dict[str, dict[str, Any]] = {}
    for optimizer in ("adam", "lean"):
        tried = [fit(split, cache, optimizer, LR * factor, args) for factor in args.lrs]
        best[optimizer] = max(tried, key=lambda each: each["metric"])
    ours, theirs = best["lean"], best["adam"]
    rows = [
        Row(f"{protocol} {metric}", ours["figures"][i], theirs["figures"][i], "adam", "test")
        for i, (protocol, metric) in enumerate(KEY)
    ]
    rows += [
        Row(name, ours[name], theirs[name], "adam", unit) for name, unit in (("metric", "valid"), ("seconds", "s"))
    ]
    numbers = 2 * split.train.n_items * args.estimator_dim
    rows.append(Row("state", 2 * numbers / MB, 8 * numbers / MB, "adam", "MB"))
    chosen = {name: {key: found[key] for key in ("lr", "epochs", "lam")} for name, found in best.items()}
    show("lean", rows, args.json, dataset=describe(split, args.dataset), chosen=chosen)


if __name__ == "__main__":
    main()
