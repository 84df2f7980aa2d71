"""Choosing lam on held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from aleator.evaluation.held_out import HeldOut, Parts

Select = Literal["balanced", "overall"]
FINE = tuple(round(0.02 * i, 2) for i in range(51))
PAPER = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class Choice:
    """The chosen lam, its value, and the curve it was chosen from: mean Recalls on held-out pairs by lam."""

    lam: float
    value: float
    curve: list[dict[str, float]]


def choose(check: HeldOut, parts: Parts, lams: Sequence[float], select: Select) -> Choice:
    """The lam that maximises `select`.

    "overall" is the mean Recall@20. "balanced" is the mean tail-absolute Recall@50 among those lams whose mean Recall@20
    is above the bare model's (lam = 1) by at least the standard error of the difference over users, so that "no worse"
    carries over to new data; lam = 1 itself is always allowed.
    """
    lams = sorted({*lams, 1.0})
    with torch.no_grad():
        overall, tail = check.recall_of_blends(parts, lams)
    gain = overall - overall[-1]
    allowed = gain.mean(1) >= gain.std(dim=1, correction=min(gain.shape[1] - 1, 1)) / gain.shape[1] ** 0.5
    allowed[-1] = True
    mean_overall, mean_tail = overall.mean(1), tail.nanmean(1).nan_to_num()
    goal = mean_overall if select == "overall" else mean_tail.masked_fill(~allowed, -torch.inf)
    best = len(lams) - 1 - int(goal.flip(0).argmax())  # of equal ones the safest
    curve = [
        {"lam": lam, "recall@20": float(a), "tail_recall@50": float(b)}
        for lam, a, b in zip(lams, mean_overall, mean_tail, strict=True)
    ]
    return Choice(lams[best], float(goal[best]), curve)
