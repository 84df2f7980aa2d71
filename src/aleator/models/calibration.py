"""Calibration: a monotone map of scores onto the scale of the label. It keeps the order of the items.

The map minimises the same weighted squared error as the models of the expectation. The weight is 1 on observed pairs
(Y = 1) and `mu` on the others (Y = 0). It is fitted on training pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, Self

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Histories, Users, pieces
from aleator.checkpoint.checks import fit
from aleator.device import budget

Calibrate = Literal["none", "linear", "isotonic"]
Block = Callable[[Users], Tensor]  # takes a batch, returns raw scores [B, n_items]
Knots = tuple[Any, Any]  # x and y
Sample = tuple[Tensor, Tensor, Tensor]  # raw scores, weights and labels, of one shape
_USERS = 2048  # most users to fit a map on
_TOTAL = 1 << 25  # most pairs to fit a map on
_BINS = 1024  # bins of the isotonic regression


class Map:
    """A piecewise linear function through knots in float64: x ascends, and y never falls.

    Beyond the knots it continues with the slope of the last segment, or with the mean slope if that is lower. Otherwise
    two close knots at an end could map a score beyond them to a huge value.
    """

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x.double(), y.double()
        slope = self.y.diff() / self.x.diff()  # tiny if scores are large: float32 would lose it
        mean = (self.y[-1] - self.y[0]) / (self.x[-1] - self.x[0])
        self.slope = torch.cat([slope[:1].minimum(mean), slope, slope[-1:].minimum(mean)])
        self._parts: dict[torch.dtype, tuple[Tensor, ...]] = {}  # of the map in other types
        self.line = None if len(x) > 2 else (float(mean), float(self.y[0] - mean * self.x[0]))

    @classmethod
    def restore(cls, x: Tensor, y: Tensor) -> Self:
        """A map from the knots of a folder."""
        fit({"x": x, "y": y}, {"x": "[knots] float64", "y": "[knots] float64"})
        if len(x) < 2 or not bool((x.diff() > 0).all() & (y.diff() >= 0).all()):
            raise ValueError("the knots of a map do not ascend")
        return cls(x, y)

    @property
    def rises(self) -> bool:
        """Whether the map is not constant."""
        return bool(self.y[-1] > self.y[0])

    def __call__(self, scores: Tensor) -> Tensor:
        if self.line is not None:
            return scores.mul(self.line[0]).add_(self.line[1])
        x, y, slope, next_y = self._in(scores.dtype)
        place = torch.searchsorted(x, scores.contiguous())  # the number of knots below
        knot = (place - 1).clamp_min_(0)
        found = y[knot] + slope[place] * (scores - x[knot])
        return torch.minimum(found, next_y[place])  # rounding must not lift a score over the next knot

    def _in(self, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """x, y, the slopes, and y of the next knot at each place, in a type."""
        if dtype not in self._parts:
            x, y, slope = (part.to(dtype) for part in (self.x, self.y, self.slope))
            self._parts[dtype] = x, y, slope, F.pad(y, (0, 1), value=torch.inf)
        return self._parts[dtype]


def fit_map(samples: Iterable[Sample], kind: Calibrate, device: torch.device) -> Map | None:
    """The map of this kind that brings the scores of the samples closest to their labels. None for "none"."""
    if kind == "none":
        return None
    knots = (_linear if kind == "linear" else isotonic)(samples)
    return Map(*(torch.as_tensor(part, dtype=torch.float64, device=device) for part in knots))


def _linear(samples: Iterable[Sample]) -> Knots:
    """Weighted least squares of the label on the score.

    A falling line would reverse the order of the items, so it is made flat.
    """
    sums = torch.zeros(5, dtype=torch.float64)  # of w, w x, w x^2, w Y, w x Y
    for scores, weight, label in samples:
        x, w, wy = scores.double(), weight.double(), (weight * label).double()
        sums += torch.stack([w.sum(), (w * x).sum(), (w * x * x).sum(), wy.sum(), (wy * x).sum()]).cpu()
    sum_w, sum_x, sum_xx, sum_y, sum_xy = sums.tolist()
    variance = sum_xx - sum_x * sum_x / sum_w
    covariance = sum_xy - sum_x * sum_y / sum_w
    differ = variance > 1e-12 * max(sum_xx, 1e-300)  # otherwise all scores are the same, up to rounding
    slope = max(covariance / variance, 0.0) if differ else 0.0
    level = (sum_y - slope * sum_x) / sum_w
    return [0.0, 1.0], [level, level + slope]


def isotonic(samples: Iterable[Sample], *, by_label: bool = False) -> Knots:
    """Isotonic regression of the label on the score, in bins of equal weight.

    With `by_label`, a pair counts more in a bin if its label is high, so that bins are narrow where labels are high.

    Its steps are joined by lines between their centres, so that different scores stay different. If the linear map would
    fall, the map is flat: the steps of a reversed order are only noise at its ends.
    """
    parts = [torch.cat([part.flatten() for part in each]).double() for each in zip(*samples, strict=True)]
    order = parts[0].sort(stable=True).indices.cpu().numpy()  # a GPU sorts far quicker
    x, w, y = (part.cpu().numpy() for part in parts)
    mean = np.average(y, weights=w)
    flat = [0.0, 1.0], [mean, mean]
    covariance = (w * (x - np.average(x, weights=w)) * (y - mean)).sum()
    if not covariance > 0:
        return flat

    # bins of about equal weight; equal scores share a bin
    x, w, y = x[order], w[order], y[order]
    mass = np.cumsum(w / w.sum() + w * y / (w * y).sum() if by_label else w)
    edge = np.searchsorted(mass, np.linspace(0, mass[-1], _BINS + 1)[1:-1])
    first = np.unique(np.r_[0, np.searchsorted(x, x[np.minimum(edge, len(x) - 1)])])
    weight = np.add.reduceat(w, first)
    centre = np.add.reduceat(w * x, first) / weight
    label = np.add.reduceat(w * y, first) / weight

    # a step of the regression joins bins; a knot is the centre of a step
    steps = isotonic_regression(label, weights=weight)
    begin = steps.blocks[:-1]
    joined = np.add.reduceat(weight, begin)
    centres = np.add.reduceat(weight * centre, begin) / joined
    knots, place = np.unique(centres.astype(np.float32), return_index=True)
    return (knots, steps.x[begin][place]) if len(knots) > 1 else flat


def samples(block: Block, histories: Histories, mu: float, seed: int, known: Tensor | None = None) -> Iterator[Sample]:
    """Raw scores, weights and labels of a random sample of users against all items, in parts.

    `known` [n_users] is a mask of the users to draw from. By default all users with a history are.
    """
    able = histories.host_size > 0
    who = (able if known is None else able & known.cpu()).nonzero().squeeze(1)
    most = min(_USERS, max(_TOTAL // histories.n_items, 1))
    draw = torch.randperm(len(who), generator=torch.Generator().manual_seed(seed))[:most]
    size = max(budget(histories.device).calibration_scores // histories.n_items, 1)
    for index in pieces(who[draw].sort().values, size):
        users = histories.batch(index, trained=True)
        scores = block(users)
        weight = torch.full_like(scores, mu).index_put_((users.row, users.item), users.weight.to(scores.dtype))
        label = torch.zeros_like(scores).index_put_((users.row, users.item), scores.new_ones(()))
        yield scores, weight, label
