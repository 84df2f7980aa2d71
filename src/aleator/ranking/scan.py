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

from aleator.batches import Users, pieces
from aleator.kernels.ragged import row_products
from aleator.ranking.derived import Derived
from aleator.ranking.top import top_k

_BLOCK, _SMALL = (
    32,
    8,
)  # items of a block, which is skipped or kept by its highest product: of a large and a small catalogue
_LARGE = 16384  # items of a large catalogue
_TURNED = range(48, 129, 16)  # dimensions that are turned together: one of these numbers, the one with the fewest zeros
_LOW = torch.iinfo(torch.int32).min  # the product of an item that is not a candidate
_MANY = 0.02  # if a larger share of the items remains, a plain product with all of them is as quick
_ALONE = 0.3  # added to that share for one user, whose product is no quicker for each item
_AT_ONCE = 1024  # items that are rounded at a time
_ROWS = 64  # users at a time, whose products are all computed
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

    product: Tensor  # [B, n_blocks, block] int32
    unit: Tensor  # [B, n_blocks]
    error: Tensor  # [B, n_blocks]


class Scan:
    """The item factors [n_items, dim] of inner products, and a copy of them in 8 bits.

    Items of similar norm share a block, so that one unit suits all of them. Before the rounding, dimensions are shuffled
    and rotated at random in groups, which spreads large entries over the dimensions of a group.
    """

    def __init__(self, table: Tensor) -> None:
        self.table = table
        n_items, dim = table.shape
        self.block = _BLOCK if n_items >= _LARGE else _SMALL
        self.order = torch.linalg.vector_norm(table, dim=1).argsort(descending=True, stable=True)
        self.place = torch.empty_like(self.order)
        self.place[self.order] = torch.arange(n_items)
        draw = torch.Generator().manual_seed(0)
        # PyTorch errs with a single dimension, so there are at least 16
        group = min(_TURNED, key=lambda size: (-dim % size, -size)) if dim >= _TURNED[0] else dim + -dim % 16
        self.shuffled = torch.randperm(dim, generator=draw)
        self.short = -dim % group  # zeros that fill up the last group
        self.rotation: Tensor = torch.linalg.qr(torch.randn(group, group, generator=draw)).Q
        n_blocks = -(-n_items // self.block)
        self.unit, self.norm, self.lost = (table.new_empty(n_blocks) for _ in range(3))
        low = torch.zeros((n_blocks * self.block, dim + self.short), dtype=torch.int8)
        for blocks in pieces(torch.arange(n_blocks), _AT_ONCE // self.block):  # they stay in the cache
            rows = slice(int(blocks[0]) * self.block, (int(blocks[-1]) + 1) * self.block)
            turned = self._turned(table[self.order[rows]])
            turned = F.pad(turned, (0, 0, 0, -len(turned) % self.block)).view(len(blocks), self.block, -1)
            unit = turned.abs().amax((1, 2)).clamp_min_(1e-30) / 127
            rounded = (turned / unit[:, None, None]).round_()
            low[rows] = rounded.flatten(0, 1).to(torch.int8)
            self.unit[blocks], self.norm[blocks] = unit, torch.linalg.vector_norm(turned, dim=2).amax(1)
            self.lost[blocks] = torch.linalg.vector_norm(turned.sub_(rounded.mul_(unit[:, None, None])), dim=2).amax(1)
        self.low = low.T
        self.by_norm = _SLACK * self.norm + self.lost
        self.buffer = torch.empty((0, self.low.shape[1]), dtype=torch.int32)
        self.barred: Derived[Tensor] = Derived(self._barred)

    def _turned(self, x: Tensor) -> Tensor:
        """The rows of x [n, dim] with their dimensions shuffled, rotated and filled up. Inner products stay."""
        group = len(self.rotation)
        return (F.pad(x[:, self.shuffled], (0, self.short)).view(-1, group) @ self.rotation).view(len(x), -1)

    def top(
        self, x: Tensor, k: int, seen: Users | None, candidates: Sequence[Tensor | None] = (None,)
    ) -> list[tuple[Tensor, Tensor]]:
        """The k best of each set of candidates, as `ranking.top.best` returns them. x [B, dim] are factors of users.

        A score is what `row_products` computes, which does not depend on the other users and items.
        """
        found = self.rounded(x)
        flat = found.product.flatten(1)
        flat[:, len(self.order) :] = _LOW
        if seen is not None:
            flat[seen.row, self.place[seen.item]] = _LOW
        last = len(candidates) - 1  # the products are not needed after it
        return [self._top(x, self._allowed(found, mask, at == last), k) for at, mask in enumerate(candidates)]

    def rounded(self, x: Tensor) -> Rounded:
        """The products of x [B, dim] with all items. The next call overwrites them."""
        turned = self._turned(x)
        unit = torch.linalg.vector_norm(turned, torch.inf, 1, keepdim=True).clamp_min_(1e-30).div_(127)
        low = (turned / unit).round_()
        norm = torch.linalg.vector_norm(turned, dim=1, keepdim=True)
        lost = torch.linalg.vector_norm(turned.sub_(low * unit), dim=1, keepdim=True)
        # lost |y| + (|x| + lost) lost of y + slack |x| |y|
        error = torch.addmm(norm * self.by_norm, lost, (self.norm + self.lost)[None])
        if len(self.buffer) < len(x):
            self.buffer = torch.empty((len(x), self.low.shape[1]), dtype=torch.int32)
        found = self.buffer[: len(x)]
        torch._int_mm(low.to(torch.int8), self.low, out=found)
        return Rounded(found.view(len(x), -1, self.block), unit * self.unit, error)

    def _barred(self, mask: Tensor) -> Tensor:
        """The places of the items outside `mask`."""
        return (~mask[self.order]).nonzero().squeeze(1)

    def _allowed(self, found: Rounded, mask: Tensor | None, last: bool) -> Rounded:
        """The products with those of items outside `mask` set to the lowest integer. None allows all items."""
        if mask is None:
            return found
        product = found.product if last else found.product.clone()
        product.flatten(1).index_fill_(1, self.barred(mask), _LOW)
        return found._replace(product=product)

    def _top(self, x: Tensor, found: Rounded, k: int) -> tuple[Tensor, Tensor]:
        """The k best items of each user, from the rounded products."""
        product, unit, error = found
        highest = product.amax(2)
        likely = (highest * unit).masked_fill_(highest == _LOW, -torch.inf)  # the best of each block
        # two lower bounds, from the k blocks that look best: on the k-th best rounded product, and on the k-th best one
        most, first = likely.topk(min(k, likely.shape[1]), sorted=False)
        promising, at_least = most.amin(1, keepdim=True), (most - error.gather(1, first)).amin(1, keepdim=True)
        if k > likely.shape[1]:
            promising, at_least = (bound.fill_(-torch.inf) for bound in (promising, at_least))
        # the blocks that can reach it, and inside them the items that can
        cell = (likely + error >= at_least).logical_and_(highest > _LOW).flatten().nonzero().squeeze(1)
        row, first_place = cell // likely.shape[1], cell % likely.shape[1] * self.block
        inside, off = product.view(-1, self.block).index_select(0, cell), error.take(cell)
        near = inside * unit.take(cell)[:, None]
        least = at_least.squeeze(1).index_select(0, row) - off
        place = (near >= least[:, None]).logical_and_(inside > _LOW).flatten().nonzero().squeeze(1)
        if len(place) > (_MANY + _ALONE / max(len(x), 1)) * product.numel():
            return self._by_products(x, product, k)
        at, near = place // self.block, near.take(place)
        item = self.order.take(first_place.take(at) + place % self.block)
        row, off = row.take(at), off.take(at)
        # the exact products of the promising items give a higher bound, which few of the others can reach
        chosen = near >= promising.take(row)
        values, items = self._exact(x, row[chosen], item[chosen], k)
        at_least = values.topk(k, sorted=False).values.amin(1)
        chosen = (near + off >= at_least.take(row)).logical_and_(~chosen)
        more, more_items = self._exact(x, row[chosen], item[chosen])
        return top_k(torch.cat([values, more], 1), k, torch.cat([items, more_items], 1))

    def _by_products(self, x: Tensor, product: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The same where the bounds tell little: from all products in float32, which are off by less than the slack."""
        found = []
        for rows, low in zip(pieces(x, _ROWS), pieces(product.flatten(1), _ROWS), strict=True):
            near = (rows @ self.table.T).masked_fill_(low[:, self.place] == _LOW, -torch.inf)
            norms = (torch.linalg.vector_norm(part, dim=1) for part in (rows, self.table))
            off = _SLACK * torch.outer(*norms)
            at_least = (near - off).topk(k, sorted=False).values.amin(1, keepdim=True)
            row, item = (near + off >= at_least).logical_and_(near > -torch.inf).nonzero(as_tuple=True)
            values, items = self._exact(rows, row, item, k)
            found.append(top_k(values, k, items))
        values, items = (torch.cat(parts) for parts in zip(*found, strict=True))
        return values, items

    def _exact(self, x: Tensor, row: Tensor, item: Tensor, least: int = 1) -> tuple[Tensor, Tensor]:
        """The products of the pairs (row, item), by rows that ascend, and their items: [B, at least `least`] each.

        Rows are filled up with products of minus infinity.
        """
        values = row_products(x, row, self.table, item)
        if len(x) == 1:
            short = (0, max(least - len(item), 0))
            return F.pad(values, short, value=-torch.inf)[None], F.pad(item, short, value=-1)[None]
        edges = torch.searchsorted(row, torch.arange(len(x) + 1))
        width = max(int(edges.diff().max()), least)
        cell = torch.arange(len(row)) + (torch.arange(0, len(x) * width, width) - edges[:-1]).take(row)
        filled, items = x.new_full((len(x), width), -torch.inf), item.new_full((len(x), width), -1)
        filled.put_(cell, values)
        items.put_(cell, item)
        return filled, items
