"""Exact top-k of a blend on a CPU, many times faster than scoring everything in float32.

Expectation and log-variance are inner products, and the blend rises with both. Each is first computed in 8-bit integers
for all items, with a bound on the error (Cauchy-Schwarz on what rounding lost). Blocks of items whose bounds are below
the k-th best are skipped. The few items that remain are scored exactly, so the result is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Users
from aleator.kernels.ragged import row_products
from aleator.ranking.blend import blend, uncertainty
from aleator.ranking.top import top_k

_BLOCK = 32  # items of a block, which is skipped or kept by its highest score
_SEEDS = 64  # blocks that give a first bound on the k-th best score
_LOW = torch.iinfo(torch.int32).min  # the product of an item that is not a candidate
_SLACK = 1e-4  # of |p| |q|: more than the rounding error of a float32 sum


@cache
def available() -> bool:
    """Whether this PyTorch multiplies 8-bit integers on this CPU without overflow."""
    draw = torch.Generator().manual_seed(0)
    a = torch.randint(120, 128, (32, 64), generator=draw).to(torch.int8)
    b = torch.randint(-127, 128, (64, 32), generator=draw).to(torch.int8)
    try:
        return torch.equal(torch._int_mm(a, b).long(), a.long() @ b.long())
    except (RuntimeError, AttributeError):
        return False


@dataclass
class Scanned:
    """Inner products of users and items: integers times a unit, with a bound on their error.

    The shape of `product` is [B, n_blocks, 32] for all items, or [n, 32] for some blocks. It has no 32 if it holds the
    highest product of each block. A unit and an error hold for a whole block.
    """

    product: Tensor  # int32
    unit: Tensor
    error: Tensor

    def highest(self) -> Scanned:
        """The highest product of each block."""
        return Scanned(self.product.amax(2), self.unit, self.error)

    def blocks(self, index: Tensor) -> Scanned:
        """n blocks of each user: those numbered `index` [B, n]."""
        wide = index[:, :, None].expand(-1, -1, _BLOCK)
        return Scanned(self.product.gather(1, wide), self.unit.gather(1, index), self.error.gather(1, index))

    def some(self, row: Tensor, block: Tensor) -> Scanned:
        """The blocks numbered `block` [n] of the users `row` [n]."""
        return Scanned(self.product[row, block], self.unit[row, block], self.error[row, block])

    def bound(self, sign: int) -> Tensor:
        """How high (`sign` 1) or how low (-1) the exact products can be. 0 gives an estimate of them."""
        within = self.product.ndim > self.unit.ndim
        unit, error = (t[..., None] if within else t for t in (self.unit, self.error))
        return self.product * unit + sign * error


class Side:
    """One inner product: the item factors, and a copy of them in 8 bits.

    A random rotation before the rounding spreads large entries over all dimensions.
    """

    def __init__(self, table: Tensor, order: Tensor) -> None:
        self.table = table
        dim = table.shape[1]
        draw = torch.Generator().manual_seed(0)
        self.turn: Tensor = torch.linalg.qr(torch.randn(dim, dim, generator=draw)).Q
        self.short = -dim % 16  # zeros that fill up the dimensions, since PyTorch errs with a single dimension
        turned = F.pad(table[order] @ self.turn, (0, 0, 0, -len(table) % _BLOCK)).view(-1, _BLOCK, dim)
        self.unit = turned.abs().amax((1, 2)).clamp_min_(1e-30) / 127
        low = (turned / self.unit[:, None, None]).round_()
        self.norm = torch.linalg.vector_norm(turned, dim=2).amax(1)
        self.lost = torch.linalg.vector_norm(turned.sub_(low * self.unit[:, None, None]), dim=2).amax(1)
        self.low = F.pad(low.to(torch.int8).flatten(0, 1), (0, self.short)).T
        self.buffer = torch.empty((0, self.low.shape[1]), dtype=torch.int32)

    def scan(self, p: Tensor) -> Scanned:
        """The products of p [B, dim] with all items. The next call overwrites them."""
        turned = p @ self.turn
        unit = turned.abs().amax(1, keepdim=True).clamp_min(1e-30) / 127
        low = (turned / unit).round_()
        norm = torch.linalg.vector_norm(turned, dim=1, keepdim=True)
        lost = torch.linalg.vector_norm(turned.sub_(low * unit), dim=1, keepdim=True)
        error = lost * self.norm + (norm + lost) * self.lost + _SLACK * norm * self.norm
        if len(self.buffer) < len(p):
            self.buffer = torch.empty((len(p), self.low.shape[1]), dtype=torch.int32)
        found = self.buffer[: len(p)]
        torch._int_mm(F.pad(low.to(torch.int8), (0, self.short)), self.low, out=found)
        return Scanned(found.view(len(p), -1, _BLOCK), unit * self.unit, error)


class Scan:
    """The blend of an expectation <x, y> and an uncertainty whose log-variance is <p, q>."""

    def __init__(self, y: Tensor, q: Tensor, k: float) -> None:
        # items of similar norm share a block, so that one unit suits all of them
        self.order = torch.linalg.vector_norm(q, dim=1).argsort(descending=True, stable=True)
        self.place = torch.empty_like(self.order)
        self.place[self.order] = torch.arange(len(q))
        self.sides = Side(y, self.order), Side(q, self.order)
        self.k = k  # K = 1 / beta, the scale of the variance

    def is_of(self, y: Tensor, q: Tensor) -> bool:
        """Whether it was made of these tensors."""
        return self.sides[0].table is y and self.sides[1].table is q

    def top(
        self,
        factors: tuple[Tensor, Tensor],
        lam: float,
        k: int,
        seen: Users | None,
        candidates: Sequence[Tensor | None] = (None,),
    ) -> list[tuple[Tensor, Tensor]]:
        """The k best of each set of candidates, as `ranking.top.best` returns them.

        `factors` are x and p of the users.
        """
        scanned = {
            name: side.scan(own)
            for name, side, own, share in zip("rs", self.sides, factors, (lam, 1 - lam), strict=True)
            if share > 0
        }
        for found in scanned.values():
            flat = found.product.flatten(1)
            flat[:, len(self.order) :] = _LOW
            if seen is not None:
                flat[seen.row, self.place[seen.item]] = _LOW
        return [self._top(self._allowed(scanned, mask), factors, lam, k) for mask in candidates]

    def _allowed(self, scanned: dict[str, Scanned], mask: Tensor | None) -> dict[str, Scanned]:
        """The products with those of items outside `mask` set to the lowest integer. None allows all items."""
        if mask is None:
            return scanned
        n_blocks = next(iter(scanned.values())).product.shape[1]
        barred = F.pad(~mask[self.order], (0, n_blocks * _BLOCK - len(mask))).view(n_blocks, _BLOCK)
        return {n: Scanned(f.product.masked_fill(barred, _LOW), f.unit, f.error) for n, f in scanned.items()}

    def _top(
        self, scanned: dict[str, Scanned], factors: tuple[Tensor, Tensor], lam: float, k: int
    ) -> tuple[Tensor, Tensor]:
        """The k best items of each user, from the scanned products."""
        # `at_least`: a lower bound on the k-th best score, from the most promising blocks
        highest = {n: f.highest() for n, f in scanned.items()}
        roof, likely = self._bound(highest, lam, 1), self._bound(highest, lam, 0)
        first = likely.topk(min(_SEEDS, likely.shape[1]), sorted=False).indices
        floor = self._bound({n: f.blocks(first) for n, f in scanned.items()}, lam, -1).flatten(1)
        at_least = (
            floor.topk(k, sorted=False).values.amin(1)
            if floor.shape[1] >= k
            else floor.new_full((len(floor),), -torch.inf)
        )
        # the blocks that can reach it, and inside them the items that can
        row, block = (roof >= at_least[:, None]).nonzero(as_tuple=True)
        inside = {n: f.some(row, block) for n, f in scanned.items()}
        keep = self._bound(inside, lam, 1) >= at_least[row, None]
        for found in inside.values():
            keep &= found.product > _LOW
        at, column = keep.nonzero(as_tuple=True)
        row, item = row[at], self.order[block[at] * _BLOCK + column]
        # exact scores of what is left, sorted by user and item so that ties go to the lower id
        by_item = (row * len(self.order) + item).argsort()
        row, item = row[by_item], item[by_item]
        exact = blend(*self.parts(factors, row, item), lam)
        return _ragged_top_k(exact, row, item, len(roof), k)

    def _bound(self, scanned: dict[str, Scanned], lam: float, sign: int) -> Tensor:
        """How high (`sign` 1) or how low (-1) the blend can be. 0 gives an estimate of it."""
        bounds = {name: found.bound(sign) for name, found in scanned.items()}
        if "s" not in bounds:
            return bounds["r"]
        sigma = uncertainty(bounds["s"], self.k)
        return blend(bounds["r"], sigma, lam) if "r" in bounds else sigma

    def parts(self, factors: tuple[Tensor, Tensor], row: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
        """The exact expectation and uncertainty of each pair, [n] each."""
        r, s = (row_products(own, row, side.table, item) for own, side in zip(factors, self.sides, strict=True))
        return r, uncertainty(s, self.k)


def _ragged_top_k(values: Tensor, row: Tensor, item: Tensor, n_rows: int, k: int) -> tuple[Tensor, Tensor]:
    """The k highest values of each row, and their items, [n_rows, k] each. Items are -1 where a row has fewer.

    `values` [n] belong to the pairs (row, item), which are sorted.
    """
    count = torch.bincount(row, minlength=n_rows)
    place = torch.arange(len(row)) - (count.cumsum(0) - count)[row]  # [n] the place of each pair within its row
    width = max(int(count.max()), k)
    padded = values.new_full((n_rows, width), -torch.inf)
    padded[row, place] = values
    items = item.new_full((n_rows, width), -1)
    items[row, place] = item
    best, column = top_k(padded, k)
    return best, items.gather(1, column.clamp_min(0)).masked_fill(column < 0, -1)
