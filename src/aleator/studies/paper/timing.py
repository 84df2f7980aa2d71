"""What AUR costs: seconds of an epoch of the model and of the estimator, and multiply-accumulates for one user."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from aleator.aur import AUR
from aleator.data.interactions import Interactions
from aleator.models import MF, LightGCN, MultVAE
from aleator.models.base import Model
from aleator.studies import records
from aleator.studies.methods import Method, under_aur
from aleator.studies.paper.main import BACKBONES
from aleator.studies.published import figure, published
from aleator.studies.records import Measured, Record
from aleator.studies.report.cells import Cell, number
from aleator.studies.report.tables import Block, Table, interval
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen
from aleator.training.stop import Stop
from aleator.uncertainty import FactorEstimator

EPOCHS, QUICK_EPOCHS = 10, 3
SHARING = 32  # users in a batch of the paper; they share one propagation of LightGCN
SWEEPS = 3  # a sweep of ALS is timed as a third of what three more of them cost


def cells(bench: Workbench) -> list[Method]:
    return [Method(under_aur(bare)) for bare in BACKBONES]


def model_macc(model: Model, n_items: int, pairs: int) -> float:
    """Multiply-accumulates of the scores of one user, counted as the paper does.

    These are products with all items. LightGCN adds a share of the propagation over `pairs` (both ways, each layer).
    MultVAE has a dense input of all items and both heads of the Gaussian. The paper's printed figure for LightGCN on
    Amazon-Book counts the test pairs too; here `pairs` are the training pairs.
    """
    if isinstance(model, MultVAE):
        return 2 * n_items * model.hidden + 3 * model.hidden * model.dim
    assert isinstance(model, MF | LightGCN)
    spread = model.layers * 2 * pairs * model.dim / SHARING if isinstance(model, LightGCN) else 0
    return model.dim * n_items + spread


def estimator_macc(estimator: FactorEstimator, n_items: int, pairs_per_user: float) -> float:
    """Multiply-accumulates of the log-variances of one user: the sum over the history, and products with all items."""
    return estimator.dim * (n_items + pairs_per_user)


def sweep_seconds(model: MF, data: Interactions, n: int) -> list[float]:
    """Seconds of a sweep of ALS over users and items, measured n times as the difference of two fits."""

    def seconds(sweeps: int) -> float:
        run = type(model)(**{**model.given, "iterations": sweeps})
        start = time.perf_counter()
        run.fit_pairs(data)
        if model.torch_device.type == "cuda":
            torch.cuda.synchronize(model.torch_device)
        return time.perf_counter() - start

    return [(seconds(1 + SWEEPS) - seconds(1)) / SWEEPS for _ in range(n)]


def epoch_seconds(system: AUR, data: Interactions, n: int) -> tuple[list[float], list[float]]:
    """Seconds of n epochs of the model and of the estimator without validation. The first epoch is not counted."""
    model, estimator = system.model, system.estimator
    model.fit_pairs(data, epochs=n + 1)
    if isinstance(model, MF) and model.solver == "als":
        model_seconds = sweep_seconds(model, data, n)
    else:
        assert model.log is not None
        model_seconds = model.log.seconds[1:]
    system.data = data
    estimator.learn(system.histories, model, system.objective, Stop(epochs=n + 1))
    assert estimator.log is not None
    return model_seconds, estimator.log.seconds[1:]


def measure(bench: Workbench, method: Method) -> Measured:
    system = bench.make(method)
    assert isinstance(system, AUR)
    model, estimator = system.model, system.estimator
    assert isinstance(estimator, FactorEstimator)
    data, epochs = bench.split.everything, QUICK_EPOCHS if bench.quick else EPOCHS
    of_model, of_estimator = epoch_seconds(system, data, epochs)
    (model_mean, model_half), (estimator_mean, estimator_half) = interval(of_model), interval(of_estimator)
    per_user = len(data) / max(int((system.histories.host_size > 0).sum()), 1)
    cost: dict[str, float | None] = {
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
        "sampled_items": estimator.sample_size(data.n_items, system.torch_device),
        "chosen": chosen(system),
        "config": system.options(),
    }


def show(rows: Sequence[Record]) -> list[Block]:
    dataset = rows[0]["dataset"]
    known = bool(published("time", dataset))
    lines: list[list[Cell]] = []
    for row in rows:
        cost, bare = row["metrics"]["cost"], Method(row["method"]).backbone
        line: list[Cell] = [bare, number(cost["macc_1e6"], ".4g"), number(cost["estimator_macc_1e6"], ".4g")]
        for part in ("model", "estimator"):
            line.append(number(cost[f"{part}_seconds"], ".4f", note=f"±{cost[f'{part}_half_width']:.4f}"))
        for name in ("macc_1e6", "model_seconds", "estimator_seconds") if known else ():
            line.append(number(figure("time", dataset, bare, "cost", name)))
        lines.append([*line, row["solver"], str(row["sampled_items"] or "all")])
    heads = ["model", "MACC (1e6)", "estimator MACC (1e6)", "model (s)", "estimator (s)"]
    heads += ["published MACC", "published model (s)", "published estimator (s)"] if known else []
    machines = "; ".join({_machine(row): None for row in rows})
    caption = (
        f"{records.about(rows)}: seconds of an epoch, as the mean of {rows[0]['epochs']} epochs ± half the width of its "
        f"95 % interval. See what the estimator adds to the model. Our machine: {machines}. The paper's machine: an "
        "RTX 2080 Ti. An epoch of ALS is one sweep over users and items, and few are needed. The estimator's epoch "
        "includes the scores of the frozen model. Where it trains on sampled items, its epoch does not pass over all "
        "pairs. MACC: multiply-accumulates for one user, by formula."
    )
    return [Table([*heads, "model trained by", "items a step"], lines, caption)]


def _machine(row: Record) -> str:
    machine = row["machine"]
    return f"{machine['cores']} cores ({machine.get('processor', 'unknown')}), {machine['device']}"


STUDY = Study(
    name="time",
    title="Time cost",
    question="What does an epoch of the estimator cost, compared with an epoch of the model?",
    cells=cells,
    measure=measure,
    show=show,
    seeds=False,
)
