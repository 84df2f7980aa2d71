"""Scores onto the scale of the label, by a monotone map that keeps the order of the items.

The map minimises the same weighted squared error as the models of the expectation: weight 1 on observed pairs (Y = 1),
`mu` on the others (Y = 0). It is fitted on training pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Histories, Users, pieces
from aleator.device import budget

Calibrate = Literal["none", "linear", "isotonic"]
Block = Callable[[Users], Tensor]  # raw scores [B, n_items]
Knots = tuple[Any, Any]  # x and y
Sample = tuple[Tensor, Tensor, Tensor]  # raw scores, weights and labels, of one shape
_USERS = 2048  # a map of a few numbers needs no more
_TOTAL = 1 << 25  # nor more pairs than that
_BINS = 1024


class Map:
    """Piecewise linear through knots (x ascending, y not falling; float64).

    Beyond them it goes on as steeply as at its end, but no more so than on the whole: two knots close together at an end
    would take a score far beyond them anywhere.
    """

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x.double(), y.double()
        slope = self.y.diff() / self.x.diff()  # that of large scores is tiny: float32 would lose it
        mean = (self.y[-1] - self.y[0]) / (self.x[-1] - self.x[0])
        self.slope = torch.cat([slope[:1].minimum(mean), slope, slope[-1:].minimum(mean)])
        self.line = None if len(x) > 2 else (float(mean), float(self.y[0] - mean * self.x[0]))

    @property
    def rises(self) -> bool:
        """Whether it tells scores apart at all."""
        return bool(self.y[-1] > self.y[0])

    def __call__(self, scores: Tensor) -> Tensor:
        if self.line is not None:
            return scores.mul(self.line[0]).add_(self.line[1])
        x, y, slope = (part.to(scores.dtype) for part in (self.x, self.y, self.slope))
        place = torch.searchsorted(x, scores.contiguous())  # how many knots are below
        knot = (place - 1).clamp_min_(0)
        found = y[knot] + slope[place] * (scores - x[knot])
        return torch.minimum(found, F.pad(y, (0, 1), value=torch.inf)[place])  # what rounding lifts over the next knot


def fit_map(samples: Iterable[Sample], kind: Calibrate, device: torch.device) -> Map | None:
    """The map of `kind` that takes the scores of the samples nearest to the labels; None where there is none to make."""
    if kind == "none":
        return None
    knots = (_linear if kind == "linear" else _isotonic)(samples)
    return Map(*(torch.as_tensor(part, dtype=torch.float64, device=device) for part in knots))


def _linear(samples: Iterable[Sample]) -> Knots:
    """Weighted least squares of the label on the score; a falling line would turn the order round and is made flat."""
    sums = torch.zeros(5, dtype=torch.float64)  # of w, w x, w x^2, w Y, w x Y
    for scores, weight, label in samples:
        x, w, wy = scores.double(), weight.double(), (weight * label).double()
        sums += torch.stack([w.sum(), (w * x).sum(), (w * x * x).sum(), wy.sum(), (wy * x).sum()]).cpu()
    n, sx, sxx, sy, sxy = sums.tolist()
    spread = sxx - sx * sx / n
    slope = max((sxy - sx * sy / n) / spread, 0.0) if spread > 1e-12 * max(sxx, 1e-300) else 0.0
    level = (sy - slope * sx) / n
    return [0.0, 1.0], [level, level + slope]


def _isotonic(samples: Iterable[Sample]) -> Knots:
    """Isotonic regression of the label on the score in bins, joined at the centres of its steps: no two bins tie.

    Where the line would fall it is flat as well: what steps are left of a turned order are noise at its ends.
    """
    x, w, y = (
        torch.cat([part.flatten() for part in parts]).double().cpu().numpy() for parts in zip(*samples, strict=True)
    )
    mean = np.average(y, weights=w)
    if not (w * (x - np.average(x, weights=w)) * (y - mean)).sum() > 0:
        return [0.0, 1.0], [mean, mean]
    order = np.argsort(x, kind="stable")
    x, w, y = x[order], w[order], y[order]
    mass = np.cumsum(w)
    edge = np.searchsorted(mass, np.linspace(0, mass[-1], _BINS + 1)[1:-1])
    first = np.unique(np.r_[0, np.searchsorted(x, x[np.minimum(edge, len(x) - 1)])])  # equal scores share a bin
    weight = np.add.reduceat(w, first)
    centre = np.add.reduceat(w * x, first) / weight
    step = isotonic_regression(np.add.reduceat(w * y, first) / weight, weights=weight)
    begin = step.blocks[:-1]
    joined = np.add.reduceat(weight, begin)
    knots, place = np.unique((np.add.reduceat(weight * centre, begin) / joined).astype(np.float32), return_index=True)
    level = step.x[begin][place]
    return (knots, level) if len(knots) > 1 else ([0.0, 1.0], [mean, mean])


def samples(block: Block, histories: Histories, mu: float, seed: int, known: Tensor | None = None) -> Iterator[Sample]:
    """Raw scores, weights and labels of some users (of those `known`, a mask) and all items, a part at a time."""
    who = (histories.host_size > 0 if known is None else (histories.host_size > 0) & known.cpu()).nonzero().squeeze(1)
    most = min(_USERS, max(_TOTAL // histories.n_items, 1))
    draw = torch.randperm(len(who), generator=torch.Generator().manual_seed(seed))[:most]
    size = max(budget(histories.device).calibration_scores // histories.n_items, 1)
    for index in pieces(who[draw].sort().values, size):
        users = histories.batch(index, trained=True)
        scores = block(users)
        weight = torch.full_like(scores, mu).index_put_((users.row, users.item), users.weight.to(scores.dtype))
        label = torch.zeros_like(scores).index_put_((users.row, users.item), scores.new_ones(()))
        yield scores, weight, label
