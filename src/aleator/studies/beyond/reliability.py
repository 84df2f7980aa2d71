"""Beyond the paper: reliability. Is the predicted variance of a label its mean squared residual?

All pairs count at their natural frequency. The squared residual about the expectation r is r^2 on an unobserved pair, and
(1 - r)^2 on an observed one. Test pairs stand for all observed pairs, since neither part has seen them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from aleator.aur import AUR
from aleator.aur.label_scale import MOST, squared_residuals
from aleator.batches import Histories
from aleator.data.splits import Split
from aleator.studies import records
from aleator.studies.methods import Method, under_aur
from aleator.studies.records import Figures, Measured, Record
from aleator.studies.report.cells import Cell, Shown, number
from aleator.studies.report.tables import Block, Table, mean_of, seeds_of
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen

METHODS = tuple(map(under_aur, ("MF", "FISM")))
BINS, TOP = 10, 0.01

Values = NDArray[np.float64]


def cells(bench: Workbench) -> list[Method]:
    return [Method(name) for name in METHODS]


def pairs(aur: AUR, split: Split, seed: int) -> tuple[Values, Values, Values]:
    """Predicted sigma^2, weights and squared residuals of a sample of pairs, ascending in sigma^2.

    Pairs of equal sigma^2 get the mean of their squared residuals, so that their order does not matter.
    """
    held = Histories(split.test.csr, aur.torch_device)
    with torch.no_grad():
        samples = list(squared_residuals(aur.parts, aur.histories, held, seed))
    sigma, weight, residual = (
        torch.cat([part.flatten() for part in parts]).double().cpu().numpy() for parts in zip(*samples, strict=True)
    )
    value, place = np.unique(sigma, return_inverse=True)
    mass: Values = np.bincount(place, weight).astype(np.float64)
    mean = np.bincount(place, weight * residual) / mass
    return value**2, mass, mean


def bins(sigma2: Values, mass: Values, residual: Values) -> Figures:
    """The mean prediction and the mean squared residual of ten bins of equal counts and of the top 1 %, and of all.

    The values ascend. A value whose mass lies in two bins counts in each by its share.
    """
    end = np.cumsum(mass) / mass.sum()
    start = np.r_[0.0, end[:-1]]
    edges = {f"bin {n + 1}": (n / BINS, (n + 1) / BINS) for n in range(BINS)} | {"top 1 %": (1 - TOP, 1.0)}
    found: Figures = {}
    for name, (low, high) in edges.items():
        share = np.clip(np.minimum(end, high) - np.maximum(start, low), 0, None)
        found[name] = {
            "predicted": float(np.average(sigma2, weights=share)),
            "measured": float(np.average(residual, weights=share)),
        }
    above = mass[np.sqrt(sigma2) > MOST + 1e-6].sum() / mass.sum()
    found["all"] = {
        "predicted": float(np.average(sigma2, weights=mass)),
        "measured": float(np.average(residual, weights=mass)),
        "share_above_half": float(above),
        "largest_sigma": float(np.sqrt(sigma2[-1])),
    }
    return found


def measure(bench: Workbench, method: Method) -> Measured:
    aur = bench.fit(method)
    assert isinstance(aur, AUR)
    metrics = bins(*pairs(aur, bench.split, bench.seed))
    return {"metrics": metrics, "chosen": chosen(aur), "config": aur.options()}


def show(rows: Sequence[Record]) -> list[Block]:
    tables: list[Block] = []
    for method, runs in seeds_of(rows).items():
        lines: list[list[Cell]] = []
        for name in runs[0]["metrics"]:
            predicted, measured = (mean_of(runs, name, column) for column in ("predicted", "measured"))
            ratio = predicted / measured if measured else None
            lines.append([name, *(Shown(f"{v:.3g}", v) for v in (predicted, measured)), number(ratio, ".2f")])
        above, largest = (mean_of(runs, "all", column) for column in ("share_above_half", "largest_sigma"))
        caption = (
            f"{records.about(rows)}, {method}, {len(runs)} seeds: the predicted variance and the mean squared residual "
            "of pairs at their natural frequency, in ten bins of equal counts by the prediction, and in its top 1 %. A "
            f"ratio of 1 is right on average. {above:.2%} of the pairs have an uncertainty above {MOST}; the largest is "
            f"{largest:.3g}."
        )
        tables.append(Table(["pairs", "mean sigma^2", "mean squared residual", "ratio"], lines, caption))
    return tables


STUDY = Study(
    name="beyond",
    part="reliability",
    title="Beyond: the uncertainty on the scale of the label",
    question="Is the predicted variance of a label close to its mean squared residual, from the lowest to the highest?",
    cells=cells,
    measure=measure,
    show=show,
    plain=True,
    applies=lambda bench: bench.world is None and not bench.recipe.on_test,
)
