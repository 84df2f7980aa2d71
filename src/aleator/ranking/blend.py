"""The blend of expectation and uncertainty that items are ranked by: (lam * a + (1 - lam) * b) / popularity^d.

"linear"  a = r / c_r and b = s / c_s, where a spread c is the root of the mean within-user variance over unobserved
          pairs. The levels of users do not rank, so they do not count. It is linear in the log-variance s: no part can
          rule the other, and nothing overflows. If r and s are inner products, so is the blend.
"sigma"   a = r and b = sigma = sqrt(exp(s) / K), the paper's.

d is the discount of popularity, and 0 in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from aleator.device import budget

Blending = Literal["linear", "sigma"]
_FLAT = 1e-6  # a spread below this share of the root mean square is rounding
_LEAST = 1e-3  # a log-variance with a smaller spread is the same for all items, up to noise of the training


def uncertainty(log_variance: Tensor, k: float) -> Tensor:
    """sigma = sqrt(exp(s) / K), elementwise."""
    return torch.exp(0.5 * log_variance).div(math.sqrt(k))


def blend(one: Tensor, other: Tensor, lam: float) -> Tensor:
    """lam * a + (1 - lam) * b, elementwise. A high uncertainty raises an item: its zero may be wrong."""
    if lam == 1:
        return one.clone()  # an infinite uncertainty times 0 would be NaN
    return lam * one + (1 - lam) * other


def discounts(popularity: Tensor, power: float) -> Tensor:
    """1 / popularity^power. An item without an interaction counts as having one."""
    return popularity.clamp_min(1) ** -power


@dataclass(frozen=True)
class Spreads:
    """The spreads c_r and c_s of expectation and log-variance. A part whose spread is 0 is left out of the blend."""

    r: float
    s: float

    @property
    def shares(self) -> tuple[float, float]:
        """1 / c_r and 1 / c_s. 0 for a spread of 0."""
        return tuple(1 / c if c else 0.0 for c in (self.r, self.s))  # type: ignore[return-value]

    def scaled(self, r: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """The two parts of the linear blend."""
        of_r, of_s = self.shares
        return r * of_r, s * of_s

    def notes(self) -> list[str]:
        """What was left out of the blend, for people."""
        names = {"expectation": self.r, "uncertainty": self.s}
        return [
            f"the {name} does not rank the items of any user: it is not blended" for name, c in names.items() if not c
        ]


Parts = tuple[Tensor, Tensor, Tensor]  # r, s, and 1 for a pair that counts, [B, n] each


def spreads(parts: Iterable[Parts]) -> Spreads:
    """The spreads of r and s, from batches of both."""
    sums = torch.zeros(2, 3, dtype=torch.float64)  # of r and s: users, variances, mean squares
    for r, s, counted in _in_cache(parts):
        mask = counted.double()
        n = mask.sum(1)
        enough = n > 1
        for row, part in zip(sums, (r, s), strict=True):
            values = part.double() * mask
            mean = values.sum(1) / n.clamp_min(1)
            variance = ((values - mean[:, None] * mask).square().sum(1) / n.clamp_min(1))[enough]
            square = (values.square().sum(1) / n.clamp_min(1))[enough]
            row += torch.stack([enough.sum().double(), variance.sum(), square.sum()]).cpu()
    users, variances, squares = sums.T.tolist()
    of_r, of_s = (
        math.sqrt(v / n) if n and v > _FLAT**2 * q else 0.0 for n, v, q in zip(users, variances, squares, strict=True)
    )
    return Spreads(of_r, of_s if of_s >= _LEAST else 0.0)


def _in_cache(parts: Iterable[Parts]) -> Iterator[Parts]:
    """The same in smaller batches: on a CPU, tensors that fit into the cache are several times as fast."""
    for r, s, counted in parts:
        size = max(budget(r.device).product_numbers // r.shape[1], 1)
        for first in range(0, len(r), size):
            rows = slice(first, first + size)
            yield r[rows], s[rows], counted[rows]
