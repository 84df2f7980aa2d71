"""Beyond the paper: confidence. Is an item as often among a user's next items as the confidence says?

The event is that a listed item is among the user's test items. Its size is their number. The control is a confidence of
the same items that is learned in the same way from their popularity alone.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from aleator.aur import AUR
from aleator.aur.confidence import Confidence, Lists, learn, lists
from aleator.data.interactions import Interactions
from aleator.evaluation.held_out import HeldOut
from aleator.models.cache import ModelCache
from aleator.studies import records
from aleator.studies.methods import DEFAULT, Method, under_aur
from aleator.studies.records import Figures, Measured, Record
from aleator.studies.report.cells import Cell, Shown, number
from aleator.studies.report.tables import Block, Picture, Table, count, mean_of, rule, seeds_of
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen

METHODS = (under_aur("MF"), DEFAULT)
BINS = 15
SCORES = {"ece": "calibration error", "brier": "Brier score", "log_loss": "log loss"}
CONTROL = "popularity"


def cells(bench: Workbench) -> list[Method]:
    return [Method(name) for name in METHODS]


def measure(bench: Workbench, method: Method) -> Measured:
    before = bench.fit(Method(method.name, {**method.settings, "refit": False}))
    assert isinstance(before, AUR)
    aur = refitted(before, bench.split.everything, bench.cache)
    tested = listed_of(aur, bench.split.everything, bench.split.test)
    judged_on = listed_of(before, *bench.recipe.divide(bench.split, before.valid, bench.seed))
    control = learn(popularity_of(judged_on, before), judged_on.hits, judged_on.n_next, ranked=False)
    metrics = {"confidence": scores_of(aur.chance, tested.scores, tested)}
    metrics |= {CONTROL: scores_of(control, popularity_of(tested, aur), tested)}
    metrics |= bins_of(aur.chance, tested)
    return {"metrics": metrics, "chosen": chosen(aur), "config": aur.options() | {"refit": True}}


def refitted(before: AUR, data: Interactions, cache: ModelCache | None = None) -> AUR:
    """What a fit with a refit would give, from a fit without one. All choices are made only once so."""
    aur = copy.copy(before)
    aur.model, aur.estimator = copy.copy(before.model), copy.copy(before.estimator)
    won = aur.blended
    aur._refit(won, data, cache)
    aur.spreads = won.spreads
    return aur


def listed_of(aur: AUR, fitted: Interactions, held: Interactions) -> Lists:
    """The lists of all users with held-out pairs."""
    found = lists(aur.score_block, HeldOut(fitted, held, aur.torch_device))
    assert found is not None, "a dataset has users with test pairs"
    return found


def popularity_of(found: Lists, aur: AUR) -> Tensor:
    """The logarithm of the popularity of the listed items. -inf where there is no item."""
    popularity = aur.histories.popularity[found.items].double().clamp_min(1).log()
    return popularity.masked_fill(found.scores.isinf(), -torch.inf)


def probabilities(chance: Confidence | None, scores: Tensor, found: Lists) -> tuple[Tensor, Tensor]:
    """The confidence of all listed items, and whether each was taken."""
    listed = scores.isfinite()
    given = torch.zeros_like(scores) if chance is None else chance(scores, found.n_next[:, None])
    return given[listed].double(), found.hits[listed].double()


def scores_of(chance: Confidence | None, scores: Tensor, found: Lists) -> dict[str, float | None]:
    """How well a confidence fits: see `SCORES`."""
    p, y = probabilities(chance, scores, found)
    gaps = [float((a.mean() - b.mean()).abs()) * len(a) for a, b in in_bins(p, y)]
    return {"ece": sum(gaps) / len(p), "brier": float((p - y).square().mean()), "log_loss": _log_loss(p, y)}


def bins_of(chance: Confidence | None, found: Lists) -> Figures:
    """The mean confidence and the share of items that were taken, in bins of equal counts."""
    bins = in_bins(*probabilities(chance, found.scores, found))
    return {
        f"bin {place}": {"predicted": float(a.mean()), "measured": float(b.mean())}
        for place, (a, b) in enumerate(bins, 1)
    }


def in_bins(p: Tensor, y: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Bins of equal counts, by the confidence."""
    order = p.argsort(stable=True)
    return list(zip(p[order].tensor_split(BINS), y[order].tensor_split(BINS), strict=True))


def _log_loss(p: Tensor, y: Tensor) -> float:
    p = p.clamp(1e-6, 1 - 1e-6)
    return -float((y * p.log() + (1 - y) * (1 - p).log()).mean())


def show(rows: Sequence[Record]) -> list[Block]:
    found = seeds_of(rows)
    lines: list[list[Cell]] = []
    for method, runs in found.items():
        for name, told in (("confidence", method), (CONTROL, f"{method}, from popularity alone")):
            figures = (mean_of(runs, name, each) for each in SCORES)
            lines.append([told, *(Shown(f"{value:.4f}", value) for value in figures), count(len(runs))])
    caption = (
        f"{records.about(rows)}: the confidence of the first 50 items of each user, against the test part. See whether "
        f"it is right on average (calibration error, in {BINS} bins of equal counts), and whether it tells more than "
        "a confidence of the same items that is learned from their popularity alone (Brier score and log loss, lower is "
        f"better). {rule(rows)}".rstrip()
    )
    tables: list[Block] = [Table(["method", *SCORES.values(), "seeds"], lines, caption), picture(rows)]
    for method, runs in found.items():
        lines = [
            [name, *(Shown(f"{v:.4f}", v) for v in both), number(both[0] / both[1] if both[1] else None, ".2f")]
            for name, both in curve(runs).items()
        ]
        told = f"{records.about(rows)}, {method}: the confidence, and the share of items that were taken, by bins."
        tables.append(Table(["items", "confidence", "taken", "ratio"], lines, told))
    return tables


def curve(runs: Sequence[Record]) -> dict[str, tuple[float, float]]:
    """The mean confidence and the share that was taken in each bin, means over seeds."""
    names = (f"bin {place}" for place in range(1, BINS + 1))
    known = (name for name in names if name in runs[0]["metrics"])
    return {name: (mean_of(runs, name, "predicted"), mean_of(runs, name, "measured")) for name in known}


def picture(rows: Sequence[Record]) -> Picture:
    """The reliability curve of each method."""
    from aleator.studies.report import plots

    curves = {method: list(curve(runs).values()) for method, runs in seeds_of(rows).items()}
    told = (
        f"{records.about(rows)}: the reliability curve. Each point is a bin of as many listed items. See how near it is "
        "to the dashed line, where as many items are taken as the confidence says."
    )
    figure = plots.reliability(curves, "confidence", "share of items that were taken")
    return Picture(figure, told, "Share of listed items that were taken, by confidence")


STUDY = Study(
    name="beyond",
    part="confidence",
    title="Beyond: the confidence",
    question="Is a recommended item as often among what its user takes next as the confidence says?",
    cells=cells,
    measure=measure,
    show=show,
    plain=True,
    applies=lambda bench: bench.world is None and not bench.recipe.on_test,
)
