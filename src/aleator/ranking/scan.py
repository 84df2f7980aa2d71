"""Exact top-k of inner products on a CPU, many times faster than computing all of them in float32.

The products are first computed in 8-bit integers for all items, with a bound on the error (Cauchy-Schwarz on what
rounding lost). Blocks of items whose bounds are below the k-th best are skipped. The few items that remain are scored
exactly, so the result is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Users
from aleator.kernels.ragged import row_products
from aleator.ranking.top import top_k

_BLOCK = 32  # items of a block, which is skipped or kept by its highest product
_SEEDS = 64  # blocks that give a first bound on the k-th best product
_LOW = torch.iinfo(torch.int32).min  # the product of an item that is not a candidate
_MANY = 0.02  # if a larger share of the items remains, scoring everything is as quick
_SLACK = 1e-4  # of |x| |y|: more than the rounding error of a float32 sum


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


class Rounded(NamedTuple):
    """Inner products of users with all items, in blocks of items: integers times a unit, with a bound on their error."""

    product: Tensor  # [B, n_blocks, 32] int32
    unit: Tensor  # [B, n_blocks]
    error: Tensor  # [B, n_blocks]


class Scan:
    """The item factors [n_items, dim] of inner products, and a copy of them in 8 bits.

    Items of similar norm share a block, so that one unit suits all of them. A random rotation before the rounding
    spreads large entries over all dimensions.
    """

    def __init__(self, table: Tensor) -> None:
        self.table = table
        n_items, dim = table.shape
        self.order = torch.linalg.vector_norm(table, dim=1).argsort(descending=True, stable=True)
        self.place = torch.empty_like(self.order)
        self.place[self.order] = torch.arange(n_items)
        draw = torch.Generator().manual_seed(0)
        self.turn: Tensor = torch.linalg.qr(torch.randn(dim, dim, generator=draw)).Q
        self.short = -dim % 16  # zeros that fill up the dimensions, since PyTorch errs with a single dimension
        turned = F.pad(table[self.order] @ self.turn, (0, 0, 0, -n_items % _BLOCK)).view(-1, _BLOCK, dim)
        self.unit = turned.abs().amax((1, 2)).clamp_min_(1e-30) / 127
        low = (turned / self.unit[:, None, None]).round_()
        self.norm = torch.linalg.vector_norm(turned, dim=2).amax(1)
        self.lost = torch.linalg.vector_norm(turned.sub_(low * self.unit[:, None, None]), dim=2).amax(1)
        self.low = F.pad(low.to(torch.int8).flatten(0, 1), (0, self.short)).T
        self.buffer = torch.empty((0, self.low.shape[1]), dtype=torch.int32)

    def top(
        self, x: Tensor, k: int, seen: Users | None, candidates: Sequence[Tensor | None] = (None,)
    ) -> list[tuple[Tensor, Tensor]]:
        """The k best of each set of candidates, as `ranking.top.best` returns them. x [B, dim] are factors of users."""
        found = self.rounded(x)
        flat = found.product.flatten(1)
        flat[:, len(self.order) :] = _LOW
        if seen is not None:
            flat[seen.row, self.place[seen.item]] = _LOW
        return [self._top(x, self._allowed(found, mask), k) for mask in candidates]

    def rounded(self, x: Tensor) -> Rounded:
        """The products of x [B, dim] with all items. The next call overwrites them."""
        turned = x @ self.turn
        unit = turned.abs().amax(1, keepdim=True).clamp_min(1e-30) / 127
        low = (turned / unit).round_()
        norm = torch.linalg.vector_norm(turned, dim=1, keepdim=True)
        lost = torch.linalg.vector_norm(turned.sub_(low * unit), dim=1, keepdim=True)
        error = lost * self.norm + (norm + lost) * self.lost + _SLACK * norm * self.norm
        if len(self.buffer) < len(x):
            self.buffer = torch.empty((len(x), self.low.shape[1]), dtype=torch.int32)
        found = self.buffer[: len(x)]
        torch._int_mm(F.pad(low.to(torch.int8), (0, self.short)), self.low, out=found)
        return Rounded(found.view(len(x), -1, _BLOCK), unit * self.unit, error)

    def _allowed(self, found: Rounded, mask: Tensor | None) -> Rounded:
        """The products with those of items outside `mask` set to the lowest integer. None allows all items."""
        if mask is None:
            return found
        n_blocks = found.product.shape[1]
        barred = F.pad(~mask[self.order], (0, n_blocks * _BLOCK - len(mask))).view(n_blocks, _BLOCK)
        return found._replace(product=found.product.masked_fill(barred, _LOW))

    def _top(self, x: Tensor, found: Rounded, k: int) -> tuple[Tensor, Tensor]:
        """The k best items of each user, from the rounded products."""
        product, unit, error = found
        # `at_least`: a lower bound on the k-th best product, from the most promising blocks
        highest = product.amax(2)
        likely = _scaled(highest, unit)
        first = likely.topk(min(_SEEDS, likely.shape[1]), sorted=False).indices
        seeds = product.gather(1, first[:, :, None].expand(-1, -1, _BLOCK))
        floor = _scaled(seeds, unit.gather(1, first)[:, :, None]) - error.gather(1, first)[:, :, None]
        floor = floor.flatten(1)
        at_least = floor.new_full((len(floor),), -torch.inf)
        if floor.shape[1] >= k:
            at_least = floor.topk(k, sorted=False).values.amin(1)
        # the blocks that can reach it, and inside them the items that can
        row, block = ((likely + error >= at_least[:, None]) & (highest > _LOW)).nonzero(as_tuple=True)
        inside = product[row, block]
        reach = inside * unit[row, block, None] + error[row, block, None]
        at, column = ((reach >= at_least[row, None]) & (inside > _LOW)).nonzero(as_tuple=True)
        row, item = row[at], self.order[block[at] * _BLOCK + column]
        if len(item) > _MANY * product.numel():
            barred = product.flatten(1)[:, self.place] == _LOW
            return top_k((x @ self.table.T).masked_fill_(barred, -torch.inf), k)
        # exact products of what is left, sorted by user and item so that ties go to the lower id
        by_item = (row * len(self.order) + item).argsort()
        row, item = row[by_item], item[by_item]
        return _ragged_top_k(row_products(x, row, self.table, item), row, item, len(x), k)


def _scaled(product: Tensor, unit: Tensor) -> Tensor:
    """The products as numbers, minus infinity for items that are no candidates."""
    return (product * unit).masked_fill_(product == _LOW, -torch.inf)


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
