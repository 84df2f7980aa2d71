"""Seconds to fit MF by alternating least squares, against implicit on the same objective, with the Recall@20 of both.

    python benchmarks/fit.py [--dataset yelp2018 --data-root FOLDER] [--users 20000 --items 10000] [--json FILE]

Our solver takes steps of conjugate gradients as implicit's does, and one exact step for the users at the end. Both get
the same number of threads. If implicit is not installed, only ours is measured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from common import Row, arguments, describe, one_blas_thread, open_data, peer, show, timed

import aleator as al
from aleator.models.factors import FactorTable


def by_implicit(split: al.Split, options: al.MF) -> al.MF:
    """An MF with the factors of implicit's ALS, fitted with the same weights as ours."""
    from implicit.cpu.als import AlternatingLeastSquares

    with one_blas_thread():
        als = AlternatingLeastSquares(
            factors=options.dim,
            alpha=1 / options.mu,
            regularization=options.l2_used / options.mu,
            iterations=options.iterations,
            random_state=options.seed,
            num_threads=torch.get_num_threads(),
        )
        als.fit(split.everything.csr, show_progress=False)
    made = al.MF(dim=options.dim, device="cpu")
    made.data = split.everything
    made.table = FactorTable(*map(torch.from_numpy, (als.user_factors, als.item_factors)))
    return made


def recall(model: al.MF, split: al.Split) -> Any:
    return al.evaluate(model, split, k=20).to_dict()["overall"]["recall@20"]


def main() -> None:
    parser = arguments(__doc__, users=20_000, items=10_000, repeats=3)
    parser.add_argument("--iterations", type=int, default=15, help="number of ALS iterations")
    args = parser.parse_args()
    split = open_data(args)
    model = al.MF(dim=args.dim, iterations=args.iterations, l2=0.005, frequency=False, device=args.device)
    ours, _ = timed(lambda: model.fit(split), args.repeats)
    row = Row("fit MF", ours, more={"recall@20": recall(model, split)})
    if peer("implicit") is not None:
        theirs, reference = timed(lambda: by_implicit(split, model), args.repeats)
        row = replace(
            row, reference=theirs, against="implicit's ALS", more=row.more | {"theirs": recall(reference, split)}
        )
    show("fit", [row], args.json, dataset=describe(split, args.dataset), solved_by=model.solved_by)


if __name__ == "__main__":
    main()
