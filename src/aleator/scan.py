"""Exact top-k of a blend on a CPU, many times faster than scoring everything in float32.

Expectation and log-variance are inner products, and the blend rises with both. So each is first computed in 8-bit
integers for all items, with a bound on how far that can be off (Cauchy-Schwarz on what rounding lost). Blocks of items
whose bounds are below the k-th best are skipped, and the few items that remain are scored exactly: nothing is
approximate in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.ranking import blend, top_k, uncertainty
from aleator.training.histories import Users
from aleator.training.kernels import row_products

_BLOCK = 64  # items whose highest score is looked at first
_SEEDS = 64  # blocks that are scored for a first bound
_LOW = torch.iinfo(torch.int32).min
_SLACK = 1e-4  # of |p| |q|: more than float32 sums can be off


@cache
def available() -> bool:
    """Whether this PyTorch multiplies 8-bit integers on this CPU without overflow."""
    if not hasattr(torch, "_int_mm"):
        return False
    draw = torch.Generator().manual_seed(0)
    a = torch.randint(120, 128, (32, 64), generator=draw).to(torch.int8)
    b = torch.randint(-127, 128, (64, 32), generator=draw).to(torch.int8)
    try:
        return torch.equal(torch._int_mm(a, b).long(), a.long() @ b.long())
    except RuntimeError:
        return False


@dataclass
class Scanned:
    """Integers [B, n] that times a unit [B, 1] are the products, off by at most an error [B, 1]."""

    product: Tensor
    unit: Tensor
    error: Tensor

    def allow(self, mask: Tensor | None) -> Scanned:
        """The same where only the items of `mask` count."""
        if mask is None:
            return self
        barred = F.pad(~mask, (0, self.product.shape[1] - len(mask)))
        return Scanned(self.product.masked_fill(barred, _LOW), self.unit, self.error)


class Side:
    """One inner product: the item factors, and the same in 8 bits."""

    def __init__(self, table: Tensor) -> None:
        self.table = table
        self.unit = float(table.abs().max().clamp_min(1e-30)) / 127
        low = (table / self.unit).round_()
        self.short = -table.shape[1] % _BLOCK  # zeros that fill up the dimensions: PyTorch errs at a single one
        self.lost = float(torch.linalg.vector_norm(table - low * self.unit, dim=1).max())
        self.norm = float(torch.linalg.vector_norm(table, dim=1).max())
        self.low = F.pad(low.to(torch.int8), (0, self.short, 0, -len(table) % _BLOCK)).T
        self.buffer = torch.empty((0, self.low.shape[1]), dtype=torch.int32)

    def scan(self, p: Tensor) -> Scanned:
        """The products of p [B, dim] with all items; the next call overwrites them."""
        unit = p.abs().amax(1, keepdim=True).clamp_min(1e-30) / 127
        low = (p / unit).round_()
        lost = torch.linalg.vector_norm(p - low * unit, dim=1, keepdim=True)
        norm = torch.linalg.vector_norm(p, dim=1, keepdim=True)
        error = lost * self.norm + (norm + lost) * self.lost + _SLACK * norm * self.norm
        if len(self.buffer) < len(p):
            self.buffer = torch.empty((len(p), self.low.shape[1]), dtype=torch.int32)
        found = self.buffer[: len(p)]
        torch._int_mm(F.pad(low.to(torch.int8), (0, self.short)), self.low, out=found)
        found[:, len(self.table) :] = _LOW
        return Scanned(found, unit * self.unit, error)


class Scan:
    """The blend of an expectation <x, y> and an uncertainty whose log-variance is <p, q>."""

    def __init__(self, y: Tensor, q: Tensor, k: float) -> None:
        self.sides = Side(y), Side(q)
        self.k = k  # K = 1 / beta, the scale of the variance

    def top(
        self,
        factors: tuple[Tensor, Tensor],
        lam: float,
        k: int,
        seen: Users | None,
        candidates: Sequence[Tensor | None] = (None,),
    ) -> list[tuple[Tensor, Tensor]]:
        """The k best of each set of candidates, as `ranking.best` gives them; `factors` are x and p of the users."""
        scanned: list[Scanned | None] = [
            side.scan(own) if share > 0 else None
            for side, own, share in zip(self.sides, factors, (lam, 1 - lam), strict=True)
        ]
        for found in scanned:
            if found is not None and seen is not None:
                found.product[seen.row, seen.item] = _LOW
        made = []
        for mask in candidates:
            allowed = [None if found is None else found.allow(mask) for found in scanned]
            made.append(self._top(allowed, factors, lam, k))
        return made

    def _top(
        self, scanned: Sequence[Scanned | None], factors: tuple[Tensor, Tensor], lam: float, k: int
    ) -> tuple[Tensor, Tensor]:
        in_blocks = [None if s is None else s.product.view(len(s.unit), -1, _BLOCK) for s in scanned]
        highest = [None if b is None else b.amax(2) for b in in_blocks]
        roof = self._bound(scanned, highest, lam, 1)
        first = roof.topk(min(_SEEDS, roof.shape[1])).indices
        seeds = [
            None if b is None else b.gather(1, first[:, :, None].expand(-1, -1, _BLOCK)).flatten(1) for b in in_blocks
        ]
        floor = self._bound(scanned, seeds, lam, -1)
        at_least = floor.topk(k).values[:, -1] if floor.shape[1] >= k else floor.new_full((len(floor),), -torch.inf)

        row, block = (roof >= at_least[:, None]).nonzero(as_tuple=True)
        inside = [None if b is None else b[row, block] for b in in_blocks]
        rows = [None if s is None else Scanned(s.product, s.unit[row], s.error[row]) for s in scanned]
        keep = self._bound(rows, inside, lam, 1) >= at_least[row, None]
        for found in inside:
            if found is not None:
                keep &= found > _LOW
        place, column = keep.nonzero(as_tuple=True)
        row, item = row[place], block[place] * _BLOCK + column
        values = blend(*self.parts(factors, row, item), lam)
        return _ragged_top_k(values, row, item, len(roof), k)

    def _bound(
        self, scanned: Sequence[Scanned | None], products: Sequence[Tensor | None], lam: float, sign: int
    ) -> Tensor:
        """How high (`sign` 1) or low (-1) the blend can be where the products are these."""
        parts = [
            None if s is None or found is None else found * s.unit + sign * s.error
            for s, found in zip(scanned, products, strict=True)
        ]
        r, s = parts
        if s is None:
            assert r is not None
            return r
        sigma = uncertainty(s, self.k)
        return sigma if r is None else blend(r, sigma, lam)

    def parts(self, factors: tuple[Tensor, Tensor], row: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
        """Expectation and uncertainty of each pair, exactly, [n] each."""
        r, s = (row_products(own, row, side.table, item) for own, side in zip(factors, self.sides, strict=True))
        return r, uncertainty(s, self.k)


def _ragged_top_k(values: Tensor, row: Tensor, item: Tensor, n_rows: int, k: int) -> tuple[Tensor, Tensor]:
    """The k highest of each row, given as (row, item) in order: values and items, [n_rows, k], -1 where they run out."""
    count = torch.bincount(row, minlength=n_rows)
    place = torch.arange(len(row)) - (count.cumsum(0) - count)[row]
    width = max(int(count.max()), k)
    padded, items = values.new_full((n_rows, width), -torch.inf), item.new_full((n_rows, width), -1)
    padded[row, place], items[row, place] = values, item
    best, column = top_k(padded, k)
    return best, items.gather(1, column.clamp_min(0)).masked_fill(column < 0, -1)
