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
    """A choice of lam."""

    lam: float
    curve: list[dict[str, float]]  # mean Recalls on held-out pairs at each lam


def choose_lam(held_out: HeldOut, parts: Parts, lams: Sequence[float], select: Select) -> Choice:
    """The lam that is best on held-out pairs. Of equally good ones it is the highest, which is the safest.

    "overall" maximises the mean Recall@20. "balanced" maximises the mean tail-absolute Recall@50 (tail items among the
    first 50 of all items) among the lams that gain overall. Such a lam has a higher mean Recall@20 than the bare model
    (lam = 1), by at least the standard error of the difference over users. lam = 1 itself is always allowed.
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
    return Choice(lams[best], curve)
