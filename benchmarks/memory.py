"""Peak memory and seconds of the main jobs, each in a fresh process.

    python benchmarks/memory.py [--dataset yelp2018 --data-root FOLDER] [--jobs fit-mf evaluate-mf] [--json FILE]

load            import the library and load the data; every other job does this too, so it is the reference
fit-mf          fit MF by ALS
fit-aur         fit MF and the estimator for --epochs epochs, choose lam, refit both
evaluate-mf     evaluate MF under three protocols at 20 and 50
evaluate-aur    evaluate the AUR in the same way
recommend       find the top 50 of every user by the AUR

Memory is the largest resident set of the process. Seconds are those of the job alone. The evaluations and the
recommendation load a model that a fit has saved. "device" is the largest memory of torch on a GPU.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import MB, Row, arguments, describe, open_data, peak_memory, show, timed, top_for_all

import aleator as al

JOBS = ("fit-mf", "fit-aur", "evaluate-mf", "evaluate-aur", "recommend")


def work(job: str, folder: str, options: dict[str, Any]) -> dict[str, Any]:
    """Run one job in this process. Models are saved in `folder` and loaded from there."""
    args = argparse.Namespace(**options)
    split = open_data(args)
    models = {kind: Path(folder) / kind for kind in ("mf", "aur")}
    told: dict[str, Any] = {"seconds": 0.0}
    if job == "load":
        told["dataset"] = describe(split, args.dataset)
    elif job == "recommend":
        told["seconds"], _ = timed(partial(top_for_all, al.load_model(models["aur"], args.device), args.k))
    else:
        verb, kind = job.split("-")
        if verb == "fit":
            model = al.MF(dim=args.dim, device=args.device)
            estimator = al.FactorEstimator(dim=args.estimator_dim, max_epochs=args.epochs)
            made = model if kind == "mf" else al.AUR(model, estimator=estimator, device=args.device)
            told["seconds"], fitted = timed(partial(made.fit, split))
            fitted.save(models[kind])
        else:
            told["seconds"], _ = timed(partial(al.evaluate, al.load_model(models[kind], args.device), split))
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        told["device_mb"] = torch.cuda.max_memory_allocated() / MB
    return told


def main() -> None:
    parser = arguments(__doc__, users=20_000, items=10_000)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS, help="jobs to measure; all by default")
    parser.add_argument("--epochs", type=int, default=3, help="number of epochs of the estimator")
    parser.add_argument("--estimator-dim", type=int, default=1024)
    parser.add_argument("--k", type=int, default=50)
    args = parser.parse_args()
    options = {name: str(value) if isinstance(value, Path) else value for name, value in vars(args).items()}
    needed = {f"fit-{'mf' if job == 'evaluate-mf' else 'aur'}" for job in args.jobs if not job.startswith("fit")}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        run = partial(peak_memory, work, folder=folder, options=options)
        base = run(job="load")
        rows.append(Row("load", base.megabytes, unit="MB"))
        for job in JOBS:
            if job not in args.jobs and job not in needed:
                continue
            peak = run(job=job)
            more = {"seconds": peak.result["seconds"], "above load": peak.megabytes - base.megabytes}
            if "device_mb" in peak.result:
                more["device"] = peak.result["device_mb"]
            rows.append(Row(job, peak.megabytes, base.megabytes, "load", "MB", more))
    show("memory", rows, args.json, dataset=base.result["dataset"])


if __name__ == "__main__":
    main()
