"""Beyond the paper: confidence. Is an item as often among a user's next items as the confidence says?

The event is that a listed item is among the user's test items. Its size is their number. The control is popularity, with
a confidence that is learned in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from aleator.aur import AUR
from aleator.aur.confidence import Confidence, Score, fit_confidence, lists
from aleator.data.splits import Split
from aleator.evaluation.held_out import HeldOut
from aleator.models import Popularity
from aleator.recipe import Recipe
from aleator.studies import records
from aleator.studies.methods import DEFAULT, Method, under_aur
from aleator.studies.records import Figures, Measured, Record
from aleator.studies.report.cells import Cell, Shown, number
from aleator.studies.report.tables import Block, Table, count, mean_of, seeds_of
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, chosen

METHODS = (under_aur("MF"), DEFAULT)
BINS = 15
SCORES = {"ece": "calibration error", "brier": "Brier score", "log_loss": "log loss"}
CONTROL = "popularity"


def cells(bench: Workbench) -> list[Method]:
    return [Method(name) for name in METHODS]


def measure(bench: Workbench, method: Method) -> Measured:
    aur = bench.fit(method)
    assert isinstance(aur, AUR)
    held_out = aur.hold_out(bench.split.everything, bench.split.test, times=10**6)  # everyone
    metrics = judged(aur.chance, aur.score_block, held_out, "confidence")
    control, chance = calibrated_popularity(bench.split, bench.recipe, bench.seed, bench.device)
    metrics |= {CONTROL: judged(chance, control.score_block, held_out, CONTROL)[CONTROL]}
    return {"metrics": metrics, "chosen": chosen(aur), "config": aur.options()}


def calibrated_popularity(split: Split, recipe: Recipe, seed: int, device: str) -> tuple[Popularity, Confidence | None]:
    """Popularity with a confidence that is learned on the validation part, then fitted on all training pairs."""
    model = Popularity(device=device, seed=seed)
    fitted, held = recipe.divide(split, 0.1, seed)
    model.fit_pairs(fitted)
    chance = fit_confidence(model.score_block, model.hold_out(fitted, held, times=4))
    model.fit_pairs(split.everything)
    return model, chance


@torch.no_grad()
def judged(chance: Confidence | None, score: Score, held_out: HeldOut, name: str) -> Figures:
    """How well a confidence fits the lists of all users: its scores under `name`, and bins of equal counts."""
    scores, hits, n_next = (torch.cat(part) for part in zip(*lists(score, held_out), strict=True))
    listed = scores.isfinite()
    if chance is None:
        return {name: dict.fromkeys(SCORES)}
    p, y = chance(scores, n_next[:, None])[listed].double(), hits[listed].double()
    order = p.argsort()
    bins = list(zip(p[order].tensor_split(BINS), y[order].tensor_split(BINS), strict=True))
    ece = sum(float((a.mean() - b.mean()).abs()) * len(a) for a, b in bins) / len(p)
    found: Figures = {name: {"ece": ece, "brier": float((p - y).square().mean()), "log_loss": _log_loss(p, y)}}
    for place, (a, b) in enumerate(bins, 1):
        found[f"bin {place}"] = {"predicted": float(a.mean()), "measured": float(b.mean())}
    return found


def _log_loss(p: Tensor, y: Tensor) -> float:
    p = p.clamp(1e-6, 1 - 1e-6)
    return -float((y * p.log() + (1 - y) * (1 - p).log()).mean())


def show(rows: Sequence[Record]) -> list[Block]:
    found = seeds_of(rows)
    lines: list[list[Cell]] = []
    for method, runs in found.items():
        for name, told in (("confidence", method), (CONTROL, f"popularity beside {method}")):
            figures = (mean_of(runs, name, each) for each in SCORES)
            lines.append([told, *(Shown(f"{value:.4f}", value) for value in figures), count(len(runs))])
    caption = (
        f"{records.about(rows)}: the confidence of the first 50 items of each user, against the test part. See whether "
        f"it is right on average (calibration error, in {BINS} bins of equal counts), and whether it tells more than "
        "popularity whose confidence is learned in the same way (Brier score and log loss, lower is better)."
    )
    tables: list[Block] = [Table(["method", *SCORES.values(), "seeds"], lines, caption)]
    for method, runs in found.items():
        lines = []
        for name in (f"bin {place}" for place in range(1, BINS + 1)):
            if name in runs[0]["metrics"]:
                both = [mean_of(runs, name, each) for each in ("predicted", "measured")]
                ratio = both[0] / both[1] if both[1] else None
                lines.append([name, *(Shown(f"{v:.4f}", v) for v in both), number(ratio, ".2f")])
        told = f"{records.about(rows)}, {method}: the confidence, and the share of items that were taken, by bins."
        tables.append(Table(["items", "confidence", "taken", "ratio"], lines, told))
    return tables


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
