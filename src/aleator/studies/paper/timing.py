"""What it costs: seconds an epoch of the model and of the estimator, and the multiply-accumulates of one user."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence

import torch

from aleator.aur import AUR
from aleator.data.interactions import Interactions
from aleator.models import MF, LightGCN, MultVAE
from aleator.models.base import Model
from aleator.studies.methods import Method, make
from aleator.studies.paper.main import BACKBONES
from aleator.studies.published import figure, published
from aleator.studies.report.tables import Block, Cell, Row, Table, interval
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, chosen
from aleator.uncertainty import FactorEstimator

EPOCHS, QUICK_EPOCHS = 10, 3
SHARING = 32  # users of a batch of the paper, who share a propagation of LightGCN
SWEEPS = 3  # of ALS, in what is timed less what every fit does


def cells(bench: Bench) -> list[Method]:
    return [Method(f"{bare}-AUR") for bare in BACKBONES]


def model_macc(model: Model, n_items: int, pairs: int) -> float:
    """Multiply-accumulates of the scores of one user, counted as the paper does.

    These are products with all items, for LightGCN a share of the propagation over `pairs` (both ways, each layer), and
    for MultVAE a dense input of all items and both heads of the Gaussian. The paper's printed figure for LightGCN on
    Amazon-Book follows only where the test pairs are counted too; here `pairs` are the training pairs.
    """
    if isinstance(model, MultVAE):
        return 2 * n_items * model.hidden + 3 * model.hidden * model.dim
    assert isinstance(model, MF | LightGCN)
    spread = model.layers * 2 * pairs * model.dim / SHARING if isinstance(model, LightGCN) else 0
    return model.dim * n_items + spread


def estimator_macc(estimator: FactorEstimator, n_items: int, pairs_per_user: float) -> float:
    """The same for the log-variances of one user: the sum over the history, and products with all items."""
    return estimator.dim * (n_items + pairs_per_user)


def sweep_seconds(model: MF, data: Interactions, n: int) -> list[float]:
    """Seconds of a sweep of ALS over users and items, n times: fits of some more sweeps, less fits of one."""

    def seconds(sweeps: int) -> float:
        run = copy.copy(model)
        run.iterations = sweeps
        start = time.perf_counter()
        run.train(data)
        if model.torch_device.type == "cuda":
            torch.cuda.synchronize(model.torch_device)
        return time.perf_counter() - start

    return [(seconds(1 + SWEEPS) - seconds(1)) / SWEEPS for _ in range(n)]


def epoch_seconds(system: AUR, data: Interactions, n: int) -> tuple[list[float], list[float]]:
    """Seconds of n epochs of the model and of the estimator, without checks, after one that is not counted."""
    model, estimator = system.model, system.estimator
    model.train(data, epochs=n + 1)
    if isinstance(model, MF) and model.solver == "als":
        model_seconds = sweep_seconds(model, data, n)
    else:
        assert model.log is not None
        model_seconds = model.log.seconds[1:]
    system.data = data
    estimator.train(system.histories, model, system.objective, epochs=n + 1)
    assert estimator.log is not None
    return model_seconds, estimator.log.seconds[1:]


def measure(bench: Bench, method: Method) -> Row:
    system = make(
        method,
        bench.split,
        bench.dataset,
        recipe=bench.recipe,
        seed=bench.seed,
        device=bench.device,
        quick=bench.quick,
    )
    assert isinstance(system, AUR)
    model, estimator = system.model, system.estimator
    assert isinstance(estimator, FactorEstimator)
    data, epochs = bench.split.everything, QUICK_EPOCHS if bench.quick else EPOCHS
    of_model, of_estimator = epoch_seconds(system, data, epochs)
    (model_mean, model_half), (estimator_mean, estimator_half) = interval(of_model), interval(of_estimator)
    per_user = len(data) / max(int((system.histories.host_size > 0).sum()), 1)
    cost = {
        "macc_1e6": model_macc(model, data.n_items, len(data)) / 1e6,
        "estimator_macc_1e6": estimator_macc(estimator, data.n_items, per_user) / 1e6,
        "model_seconds": model_mean,
        "model_half_width": model_half,
        "estimator_seconds": estimator_mean,
        "estimator_half_width": estimator_half,
    }
    return {
        "metrics": {"cost": cost},
        "epochs": epochs,
        "solver": f"als by {model.solved_by}" if isinstance(model, MF) and model.solver == "als" else "adam",
        "sampled_items": estimator.sample_size(data.n_items, system.torch_device),  # 0: all of them
        "chosen": chosen(system),
        "config": system.options(),
    }


def show(rows: Sequence[Row]) -> list[Block]:
    dataset, recipe = rows[0]["dataset"], rows[0]["recipe"]
    names = ("macc_1e6", "model_seconds", "estimator_seconds")
    printed = ["published MACC", "published model (s)", "published estimator (s)"]
    known = bool(published("time", dataset))
    lines: list[list[Cell]] = []
    for row in rows:
        cost, bare = row["metrics"]["cost"], Method(row["method"]).backbone
        seconds = (
            f"{cost[f'{part}_seconds']:.4f} ±{cost[f'{part}_half_width']:.4f}" for part in ("model", "estimator")
        )
        line: list[Cell] = [bare, f"{cost['macc_1e6']:.4g}", f"{cost['estimator_macc_1e6']:.4g}", *seconds]
        theirs = (figure("time", dataset, bare, "cost", name) for name in names)
        line += [None if value is None else f"{value:g}" for value in theirs] if known else []
        lines.append([*line, row["solver"], str(row["sampled_items"] or "all")])
    heads = ["model", "MACC (1e6)", "estimator MACC (1e6)", "model (s)", "estimator (s)", *(printed if known else [])]
    machines = "; ".join({_machine(row): None for row in rows})
    caption = (
        f"{dataset}, recipe {recipe}: seconds an epoch, mean of {rows[0]['epochs']} ± half the width of its 95 % "
        f"interval, on {machines}; the paper's machine was an RTX 2080 Ti. An epoch of ALS is one sweep over users and "
        "items, and few are needed. The estimator's epoch holds the scores of the frozen model; where it trains on "
        "sampled items, its epoch does not pass over all pairs. MACC: multiply-accumulates for one user, by formula."
    )
    return [Table([*heads, "model trained by", "items a step"], lines, caption)]


def _machine(row: Row) -> str:
    machine = row["machine"]
    return f"{machine['cores']} cores ({machine['processor']}), {machine['device']}"


STUDY = Study(
    name="time",
    title="Time cost",
    question="What does an epoch of the estimator cost beside one of the model?",
    cells=cells,
    measure=measure,
    show=show,
    seeds=False,
)
