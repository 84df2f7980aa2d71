"""The uncertainty on the scale of the label: a monotone map of the log-variance onto the squared residual.

The objective gives s up to its regularisation, its floor and the expectations that it was trained on. What is reported
as uncertainty is therefore fitted afterwards, on pairs that neither part has seen. Items are still ranked by s.

All pairs of a sample of users count at their natural frequency. The squared residual about the model's r is (1 - r)^2 on
a held-out pair and r^2 on an unobserved one. Held-out pairs stand for all observed pairs, so they are weighted up. The
standard deviation of a label between 0 and 1 is at most 0.5 (Popoviciu, 1935), and so is the map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.models.calibration import Map, Sample, isotonic

MOST = 0.5  # the largest standard deviation of a label between 0 and 1
_AT_A_TIME = 128  # users of a batch
_SCORES = 1 << 25  # most scores of a batch: it has fewer users, where the catalogue is very large
_USERS, _ITEMS = 2048, 2048  # most users, and most items of the unobserved pairs, that a map is fitted on

Score = Callable[[Users], tuple[Tensor, Tensor]]  # takes a batch, returns r and s, [B, n_items] each


class LabelScale:
    """sigma as a rising function of s. Beyond the largest and smallest s that it was fitted on, it is constant."""

    def __init__(self, map: Map) -> None:
        self.map = map
        self.lowest, self.highest = float(map.x[0]), float(map.x[-1])
        self.least, self.most = float(map.y[0]), min(float(map.y[-1]), MOST**2)

    def __call__(self, s: Tensor) -> Tensor:
        return self.map(s.clamp(self.lowest, self.highest)).clamp(self.least, self.most).sqrt()

    def tensors(self) -> dict[str, Tensor]:
        return {"scale.x": self.map.x, "scale.y": self.map.y}


@torch.no_grad()
def fit_label_scale(score: Score, fitted: Histories, held: Histories, seed: int) -> LabelScale:
    """The map of s onto the label's scale, from the pairs `held` that were held out of `fitted`."""
    x, y = isotonic(squared_residuals(score, fitted, held, seed), by_label=True)
    return LabelScale(Map(*(torch.as_tensor(part, dtype=torch.float64, device=fitted.device) for part in (x, y))))


def squared_residuals(score: Score, fitted: Histories, held: Histories, seed: int) -> Iterator[Sample]:
    """s, weights and squared residuals of the pairs of a random sample of users, except for the pairs in `fitted`.

    All held-out pairs of these users are taken. The unobserved pairs are taken on a random sample of the items.
    """
    draw = torch.Generator().manual_seed(seed)
    who = ((fitted.host_size > 0) | (held.host_size > 0)).nonzero().squeeze(1)
    who = who[torch.randperm(len(who), generator=draw)[:_USERS]].sort().values
    items = torch.randperm(fitted.n_items, generator=draw)[:_ITEMS].to(fitted.device)
    each = fitted.n_items / len(items)  # unobserved pairs that a sampled one stands for
    up = 1 + int(fitted.host_size[who].sum()) / max(int(held.host_size[who].sum()), 1)  # observed pairs, likewise
    for index in pieces(who, max(min(_AT_A_TIME, _SCORES // fitted.n_items), 1)):
        users, left = fitted.batch(index), held.batch(index)
        r, s = score(users)
        weight = torch.full_like(r, each)
        for pairs in (users, left):
            weight[pairs.row, pairs.item] = 0
        counted = weight[:, items] > 0
        yield tuple(part[:, items][counted] for part in (s, weight, r.square()))  # type: ignore[misc]
        observed = left.row, left.item
        yield s[observed], torch.full_like(r[observed], up), (1 - r[observed]).square()
