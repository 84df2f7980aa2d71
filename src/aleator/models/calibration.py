"""Scores onto the scale of the label, by a monotone map that keeps the order of the items.

The map minimises the same weighted squared error as the models of the expectation: weight 1 on observed pairs (Y = 1),
`mu` on the others (Y = 0). It is fitted on training pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor

from aleator.training.histories import Histories, Users, pieces

Calibrate = Literal["none", "linear", "isotonic"]
Block = Callable[[Users], Tensor]  # raw scores [B, n_items]
_USERS = 2048  # a map of a few numbers needs no more
_CELLS = {"cpu": 1 << 23, "cuda": 1 << 28}
_BINS = 1024


class Map:
    """Piecewise linear through knots (x ascending, y not falling), and straight on beyond them."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __call__(self, scores: Tensor) -> Tensor:
        x, y = self.x.to(scores.dtype), self.y.to(scores.dtype)
        place = torch.searchsorted(x, scores.contiguous()).clamp_(1, len(x) - 1)
        slope = (y.diff() / x.diff())[place - 1]
        return y[place - 1] + slope * (scores - x[place - 1])


def fit_map(block: Block, histories: Histories, kind: Calibrate, mu: float, seed: int) -> Map | None:
    """The map of `kind` for the raw scores that `block` gives; None where there is none to make."""
    if kind == "none":
        return None
    return (_linear if kind == "linear" else _isotonic)(block, histories, mu, seed)


def _linear(block: Block, histories: Histories, mu: float, seed: int) -> Map:
    """Weighted least squares of the label on the score; a falling line would turn the order round and is made flat."""
    sums = torch.zeros(5, dtype=torch.float64)  # of w, w x, w x^2, w Y, w x Y
    for scores, weight, label in _samples(block, histories, mu, seed):
        x, w, wy = scores.double(), weight.double(), (weight * label).double()
        sums += torch.stack([w.sum(), (w * x).sum(), (w * x * x).sum(), wy.sum(), (wy * x).sum()]).cpu()
    n, sx, sxx, sy, sxy = sums.tolist()
    spread = sxx - sx * sx / n
    slope = max((sxy - sx * sy / n) / spread, 0.0) if spread > 1e-12 * max(sxx, 1e-300) else 0.0
    level = (sy - slope * sx) / n
    device = histories.device
    return Map(torch.tensor([0.0, 1.0], device=device), torch.tensor([level, level + slope], device=device))


def _isotonic(block: Block, histories: Histories, mu: float, seed: int) -> Map:
    """Isotonic regression of the label on the score in bins, joined at the centres of its steps: no two bins tie."""
    found = [(a.flatten(), w.flatten(), y.flatten()) for a, w, y in _samples(block, histories, mu, seed)]
    x, w, y = (torch.cat(part).double().cpu().numpy() for part in zip(*found, strict=True))
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
    knots = np.add.reduceat(weight * centre, begin) / joined
    level = step.x[begin]
    if len(knots) == 1:
        knots, level = np.r_[knots, knots + 1], np.r_[level, level]
    as_tensor = [torch.from_numpy(v).float().to(histories.device) for v in (knots, level)]
    return Map(*as_tensor)


def _samples(block: Block, histories: Histories, mu: float, seed: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Raw scores, weights and labels of some users and all items, [B, n_items] each, a part at a time."""
    who = (histories.host_size > 0).nonzero().squeeze(1)
    draw = torch.randperm(len(who), generator=torch.Generator().manual_seed(seed))[:_USERS]
    size = max(_CELLS[histories.device.type] // histories.n_items, 1)
    for index in pieces(who[draw].sort().values, size):
        users = histories.batch(index, trained=True)
        scores = block(users)
        weight = torch.full_like(scores, mu).index_put_((users.row, users.item), users.weight.to(scores.dtype))
        label = torch.zeros_like(scores).index_put_((users.row, users.item), scores.new_ones(()))
        yield scores, weight, label
