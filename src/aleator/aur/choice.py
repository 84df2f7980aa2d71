"""The choice of lam on held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from aleator.evaluation.held_out import HeldOut, Parts

Select = Literal["balanced", "overall"]


@dataclass(frozen=True)
class Choice:
    """The chosen lam, its value, and the curve that it was chosen from: mean Recalls on held-out pairs by lam."""

    lam: float
    value: float
    curve: list[dict[str, float]]


def choose_lam(held_out: HeldOut, parts: Parts, lams: Sequence[float], select: Select) -> Choice:
    """The lam that maximises `select` on held-out pairs. Of equal ones it is the highest, which is the safest.

    "overall" is the mean Recall@20. "balanced" is the mean tail-absolute Recall@50, among those lams that lose nothing
    overall: their mean Recall@20 is above that of the bare model (lam = 1) by at least the standard error of the
    difference over users. lam = 1 itself is always allowed.
    """
    lams = sorted({*lams, 1.0})
    with torch.no_grad():
        overall, tail = held_out.recall_of_blends(parts, lams)
    gain = overall - overall[-1]
    error = gain.std(dim=1, correction=min(gain.shape[1] - 1, 1)) / gain.shape[1] ** 0.5
    allowed = gain.mean(1) >= error
    allowed[-1] = True
    mean_overall, mean_tail = overall.mean(1), tail.nanmean(1).nan_to_num()
    goal = mean_overall if select == "overall" else mean_tail.masked_fill(~allowed, -torch.inf)
    best = len(lams) - 1 - int(goal.flip(0).argmax())
    curve = [
        {"lam": lam, "recall@20": float(a), "tail_recall@50": float(b)}
        for lam, a, b in zip(lams, mean_overall, mean_tail, strict=True)
    ]
    return Choice(lams[best], float(goal[best]), curve)
