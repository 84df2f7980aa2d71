"""Jobs of the processes that tests start together: jobs.py JOB RANK SIZE OPTIONS prints what the job found, as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import aleator as al
from aleator.data.simulate import simulate
from aleator.errors import AleatorError
from aleator.models.base import Model
from aleator.ranks import here
from aleator.training import journal
from aleator.training.watch import Epoch
from aleator.uncertainty.factor import RANDOM_INIT

EPOCHS = 3


def world() -> al.Split:
    """The data that every process makes for itself."""
    data = simulate(n_users=90, n_items=64, per_user=120, skew=0.8, seed=1).interactions
    return data.split(valid=0.1, test=0.2, seed=0)


MODELS: dict[str, Callable[[], Model]] = {
    "multvae": lambda: al.MultVAE(hidden=8, dim=4, dropout=0.3, kl=0.1, max_epochs=EPOCHS, batch_size=23),
    "lightgcn": lambda: al.LightGCN(dim=8, layers=2, max_epochs=EPOCHS, batch_size=23),
    "lightgcn bpr": lambda: al.LightGCN(dim=8, layers=2, loss="bpr", max_epochs=EPOCHS, batch_size=23),
    "mf": lambda: al.MF(solver="adam", dim=8, max_epochs=EPOCHS, batch_size=23, l2=0.01, negatives="each"),
    "fism by users": lambda: al.FISM(dim=8, max_epochs=EPOCHS, batch_size=23, history_dropout=0.5),
    "fism": lambda: al.FISM(dim=8, max_epochs=EPOCHS, batch_size=23, history_dropout=0.5, shard="items"),
    "fism bias": lambda: al.FISM(dim=8, max_epochs=EPOCHS, batch_size=23, bias=True, shard="items"),
}


def estimator(**options: Any) -> al.FactorEstimator:
    return al.FactorEstimator(**{"dim": 8, "max_epochs": EPOCHS, "batch_size": 23, "precision": "float32"} | options)


def figures(model: Any, split: al.Split) -> dict[str, Any]:
    """Metrics of a model, some scores, and the bytes that were sent in its fit."""
    sent = here().sent
    report = al.evaluate(model, split, k=10)
    users = split.train.users.decode(torch.arange(20).numpy())
    means = {f"{protocol} {metric}@10": report.mean(protocol, f"{metric}@10") for protocol in
             ("overall", "tail_absolute", "tail_relative") for metric in ("recall", "ndcg")}  # fmt: skip
    return {"metrics": means, "scores": model.score(list(users)).tolist(), "sent": sent, "rank": here().rank}


def fit_model(folder: str, name: str) -> dict[str, Any]:
    """Fit a model for a fixed number of epochs."""
    split = world()
    model = MODELS[name]()
    model.fit_pairs(split.train, epochs=EPOCHS)
    return figures(model, split)


def fit_aur(folder: str, model: str = "", save: bool = False, checkpoint: bool = False, **options: Any) -> Any:
    """Fit an AUR with chosen epochs and lam."""
    split = world()
    below = MODELS[model]() if model else al.EASE()
    given = {"residuals": options.pop("residuals", "in-sample"), "unobserved": options.pop("unobserved", "constant")}
    aur = al.AUR(below, estimator=estimator(**options), **given)
    aur.fit(split, checkpoint=Path(folder) / "checkpoint" if checkpoint else None)
    own = {name: list(tensor.shape) for name, tensor in aur.estimator.tensors().items()}
    told = figures(aur, split) | {"lam": aur.lam_used, "shapes": own, "race": [r.setting for r in aur.race]}
    if save:
        aur.save(Path(folder) / "model")
    return told


JOBS: dict[str, Callable[..., Any]] = {"fit_model": fit_model, "fit_aur": fit_aur}


def main() -> None:
    job, rank, size, told = sys.argv[1:]
    options = json.loads(told)
    torch.set_num_threads(1)
    if int(size) > 1:
        store = f"file://{options['folder']}/store-{size}"
        dist.init_process_group(
            "gloo", init_method=store, rank=int(rank), world_size=int(size), timeout=timedelta(seconds=60)
        )
        from aleator.ranks import join

        join()
    try:
        print(json.dumps(JOBS[job](**options)))
    except AleatorError as error:
        print(f"error: {error}", file=sys.stderr)
        os._exit(2)


if __name__ == "__main__":
    main()
