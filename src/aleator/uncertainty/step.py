"""One training step of an estimator: the loss of a batch of users, and its gradient by hand.

The loss is a sum over pairs with s_ui = <p_u, q_i>, so its slope g = dL/ds is known for each pair. No autograd graph is
needed:  dL/dp = g q  and  dL/dq = g' p.  From top to bottom:

factor_step   The step of the factor estimator: from histories to p, the loss of all pairs, and back to z and q.
              Where ranks share out the items, each computes the loss of its own. p and dL/dp are summed over them.
PairLoss      The loss of all pairs in p and q: observed pairs, and the others in blocks or on a sample of the items.
Objective     The formula, in objective.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.device import budget
from aleator.kernels.ragged import add_by_item, add_cross, history_sum, pair_products, row_dots, triton_kernels
from aleator.training.draws import per_pair
from aleator.training.slices import WHOLE, Slice, apart
from aleator.uncertainty.base import Expectation
from aleator.uncertainty.objective import Objective

Activation = Callable[[Tensor], Tensor]
PAIRS_AT_A_TIME = 1 << 14  # observed pairs of a block, if each has a p of its own
_ALIGNED = 64  # matrix products on a GPU are fast if their sides are multiples of this
_MM_TAKES_DTYPE = "dtype" in torch.ops.aten.mm.overloads()  # type: ignore[no-untyped-call]  # PyTorch 2.8 and later


@dataclass(frozen=True)
class Tables:
    """z and q, and their gradients, which a step overwrites. They have all rows, or only those of the items `used`."""

    z: Tensor
    q: Tensor
    dz: Tensor
    dq: Tensor
    used: Tensor | None = None  # sorted ids of the rows; None for all items
    own: Slice = field(default=WHOLE, kw_only=True)  # the items that this rank has, and counts from the first of them

    def place(self, items: Tensor) -> Tensor:
        """The rows of `items` in the tables."""
        return items if self.used is None else torch.searchsorted(self.used, items)


class _OfSlice:
    """The expectations of the items of a slice, of a batch of all users and pairs."""

    def __init__(self, expectation: Expectation, users: Users, which: Tensor, own: Slice) -> None:
        self.expectation, self.users, self.which, self.own = expectation, users, which, own

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        assert items is not None, "the items of a block"
        with apart():
            return self.expectation.score_block(self.users, items + self.own.first)

    def score_pairs(self, users: Users) -> Tensor:
        return self.expectation.score_pairs(self.users)[self.which]


@torch.no_grad()
def factor_step(
    tables: Tables,
    users: Users,
    keep: Tensor,
    expectation: Expectation,
    objective: Objective,
    n_items: int,
    items: Tensor | None = None,
    *,
    activation: Activation | None = None,
    self_exclude: bool = True,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The objective summed over the users and all `n_items`, or estimated from the `items` (sorted).

    The gradient of its mean over the users is written into the tables. `keep` [n] says which items of the histories are
    summed. An `activation` of None is the identity. `dtype` is that of products with all items.

    With `self_exclude`, s of an observed pair leaves the pair's own item out of the history, which then has one item
    less. Without an activation, that subtracts a number from s and multiplies the rest. With one, each observed pair has
    a p of its own.
    """
    mine, which = tables.own.pairs(users)  # the pairs whose items this rank has
    here, scale = replace(mine, item=tables.place(mine.item)), scales(users, keep)
    hidden = tables.own.sum(history_sum(tables.z, here, keep[which])).mul_(scale[:, None])
    p = hidden if activation is None else activation(hidden)
    without = shorter(scale, keep, users)[which] if self_exclude else None
    keep = keep[which]
    own = keep * scale[mine.row]  # the share of z_i in the p of a user who has i in the history
    alone = self_exclude and activation is not None
    less = row_dots(tables.z, tables.q)[here.item] * own if self_exclude and not alone else None
    pairs = PairLoss(
        mine,
        p,
        tables.q,
        expectation if isinstance(which, slice) else _OfSlice(expectation, users, which, tables.own),
        objective,
        buffer=tables.dq,
        place=tables.place,
        dtype=dtype,
        less=less,
        times=None if alone else without,
    )
    sampled = None if items is None else (tables.own.places(items), len(items))
    loss = pairs.backward(n_items, *(sampled or ()), with_observed=not alone)
    tables.dz.zero_()
    dhidden = torch.zeros_like(p)
    if alone:
        assert activation is not None
        assert without is not None
        loss += _each_without_itself(pairs, tables, here, hidden, dhidden, own, without, activation)
    dhidden += _through(activation, hidden, pairs.dp)
    tables.own.sum(dhidden)
    add_by_item(tables.dz, dhidden.mul_(scale[:, None]), here, keep)
    if less is not None:
        weight = torch.zeros_like(tables.q[:, 0]).index_add_(0, here.item, pairs.slopes * -own)
        add_cross(tables.z, tables.q, weight, tables.dz, pairs.dq, tables.dq)
    elif pairs.dq is not tables.dq:
        tables.dq.copy_(pairs.dq)
    return loss.to(p.dtype)


def kept(users: Users, dropout: float, draw: torch.Generator | None, dtype: torch.dtype) -> Tensor:
    """[n] 1 for each history item that is summed, 0 for one that dropout leaves out. Without `draw` none is left out."""
    if dropout == 0 or draw is None:
        return torch.ones(len(users.item), dtype=dtype, device=users.item.device)
    drawn = per_pair(torch.rand, users, generator=draw)
    return (drawn >= dropout).to(dtype)


def history(z: Tensor, users: Users, keep: Tensor, own: Slice = WHOLE) -> tuple[Tensor, Tensor]:
    """The sum of z over each history [B, dim], and 1 / sqrt of the number of summed items [B]."""
    pairs, which = own.pairs(users)
    return own.sum(history_sum(z, pairs, keep[which])), scales(users, keep)


def scales(users: Users, keep: Tensor) -> Tensor:
    """[B] 1 / sqrt of the number of summed items of each history."""
    count = torch.zeros(len(users), dtype=keep.dtype, device=keep.device).index_add_(0, users.row, keep)
    return count.clamp_min(1).rsqrt()


def shorter(scale: Tensor, keep: Tensor, users: Users) -> Tensor:
    """[n] sqrt(n_u / (n_u - 1)) for each item of a history of n_u summed items: what taking the item out multiplies.

    `scale` [B] is 1 / sqrt(n_u). It is 0 where the item is the only one, and 1 where dropout left the item out.
    """
    share = keep * scale.square()[users.row]  # 1 / n_u
    return torch.where(share < 1, (1 - share).clamp_min(torch.finfo(share.dtype).tiny).rsqrt(), 0)


def _each_without_itself(
    pairs: PairLoss,
    tables: Tables,
    here: Users,
    hidden: Tensor,
    dhidden: Tensor,
    own: Tensor,
    without: Tensor,
    activation: Activation,
) -> Tensor:
    """The loss of the observed pairs if each has a p of its own, some pairs at a time. It adds their gradients."""
    total = torch.zeros((), dtype=torch.float64, device=hidden.device)
    for first in range(0, len(own), PAIRS_AT_A_TIME):
        some = slice(first, first + PAIRS_AT_A_TIME)
        row, item, share, times = here.row[some], here.item[some], own[some, None], without[some, None]
        theirs, rest = tables.q[item], (hidden[row] - share * tables.z[item]) * times
        p = activation(rest)
        loss, slope = pairs.observed((p * theirs).sum(1), some)
        drest = _through(activation, rest, slope[:, None] * theirs).mul_(times)
        dhidden.index_add_(0, row, drest)
        tables.dz.index_add_(0, item, drest.mul_(-share))
        pairs.dq.index_add_(0, item, p.mul_(slope[:, None]))
        total += loss
    return total


def _through(activation: Activation | None, x: Tensor, grad: Tensor) -> Tensor:
    """dL/dx, if dL/d activation(x) is `grad`."""
    if activation is None:
        return grad
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(activation(x), x, grad)[0]


class PairLoss:
    """The objective of a batch in p [B, dim] and q, where s = <p_u, q_i>.

    There are two ways. One scores all items in blocks, with the observed pairs among them. The other scores the observed
    pairs one by one, and the others on a random sample of items, weighted up. That is an unbiased estimate, and its cost
    does not grow with the catalogue. All terms are sampled together. With exact terms for beta and gamma, training is far
    slower.

    After `backward`, `dp` and `dq` are the gradients of the mean over the users, and `slopes` [n] are the slopes in
    <p_u, q_i> of the observed pairs. With sampled items, `dq` is the `buffer` if one is given: fresh memory is slow. With
    all items it is a new tensor. `place` gives the rows of items in q. The s of an observed pair is (<p_u, q_i> - less)
    times, with `less` [n] and `times` [n] if given. `dtype` is that of products with the items and of the blocks between
    them, such as bfloat16. Sums and slopes are computed in float32.
    """

    def __init__(
        self,
        users: Users,
        p: Tensor,
        q: Tensor,
        expectation: Expectation,
        objective: Objective,
        *,
        buffer: Tensor | None = None,
        place: Callable[[Tensor], Tensor] = lambda items: items,
        dtype: torch.dtype | None = None,
        less: Tensor | None = None,
        times: Tensor | None = None,
    ) -> None:
        self.users, self.p, self.q, self.place, self.less, self.times = users, p, q, place, less, times
        self.expectation, self.objective = expectation, objective
        self.dtype = dtype or p.dtype
        self.buffer, self.dp, self.dq = buffer, torch.zeros_like(p), q[:0]  # dq is made by `backward`
        self.residual = expectation.score_pairs(users).to(p.dtype) - 1
        self.slopes = torch.empty_like(self.residual)

    @torch.no_grad()
    def backward(
        self, n_items: int, items: Tensor | None = None, sampled: int | None = None, *, with_observed: bool = True
    ) -> Tensor:
        """The objective summed over the users and all `n_items`, or estimated from the `items` (sorted).

        Where ranks share out the items, it is this rank's part of it, and `sampled` is the size of the whole sample.
        """
        if items is None:
            loss, self.dq = self._blocks(self.q, None, (self.users.row, self.users.item), 1.0, with_observed)
            return loss
        loss = self._on_sample(n_items / (sampled or len(items)), items)
        if with_observed:
            loss += self._one_by_one()
        return loss

    def observed(self, s: Tensor, which: Tensor | slice) -> tuple[Tensor, Tensor]:
        """The loss of the observed pairs `which` from their products, and the slopes of the mean over users.

        Slopes are kept.
        """
        if self.less is not None:
            s = s - self.less[which]
        if self.times is not None:
            s = s * self.times[which]
        weight, residual = self.objective.alpha * self.users.weight[which].to(s.dtype), self.residual[which]
        slope = self.objective.slope(residual, s) * weight / len(self.users)
        self.slopes[which] = slope = slope if self.times is None else slope * self.times[which]
        return (weight * self.objective.pairs(residual, s)).sum(dtype=torch.float64), slope

    def _on_sample(self, up: float, items: Tensor) -> Tensor:
        """The loss of the unobserved pairs, estimated from those with `items`. Each stands for `up` items."""
        place = self.place(items)
        loss, dq = self._blocks(self.q[place], items, self.users.among(items), up, with_observed=False)
        self.dq = (torch.empty_like(self.q) if self.buffer is None else self.buffer).zero_()
        self.dq.index_copy_(0, place, dq)
        return up * loss

    def _one_by_one(self) -> Tensor:
        """The loss of the observed pairs, without blocks."""
        users = replace(self.users, item=self.place(self.users.item))
        loss, slopes = self.observed(pair_products(self.p, self.q, users), slice(None))
        self.dp += history_sum(self.q, users, slopes)
        add_by_item(self.dq, self.p, users, slopes)
        return loss

    def _blocks(
        self, q: Tensor, items: Tensor | None, pairs: tuple[Tensor, Tensor], up: float, with_observed: bool
    ) -> tuple[Tensor, Tensor]:
        """The loss of all users and the rows of `q`, and its gradient in `q`. The rows are all items, or `items`.

        Each block of columns is computed once and used for both gradients. `pairs` are the rows and columns of the
        observed pairs. Their loss is left out unless `with_observed`. Gradients are multiplied by `up`.
        """
        assert items is None or not with_observed, "the observed pairs of a sample are scored one by one"
        p, scale = self.p, up / len(self.users)
        low_p, dp, dq = p.to(self.dtype), torch.zeros_like(p), []
        total = torch.zeros((), dtype=torch.float64, device=p.device)
        size = max(budget(p.device).loss_pairs // max(len(p), 1), 1)
        for chunk in _chunks(len(q), size, *pairs):
            n, row, column = chunk.last - chunk.first, chunk.row, chunk.column
            width = n + (-n % _ALIGNED if p.is_cuda and triton_kernels() is not None else 0)
            low_q = q.new_zeros((width, q.shape[1]), dtype=self.dtype)
            low_q[:n] = q[chunk.first : chunk.last]
            s = low_p @ low_q.T
            columns = torch.arange(chunk.first, chunk.first + width, device=p.device).clamp_max_(chunk.last - 1)
            with torch.autocast(p.device.type, self.dtype, enabled=self.dtype == torch.bfloat16):
                r = self.expectation.score_block(self.users, columns if items is None else items[columns])
            known = self.observed(s[row, column].to(p.dtype), chunk.which) if with_observed else None
            s[row, column], r[row, column] = 0, 0  # the loss of an unobserved pair with r = s = 0 is 0
            loss, slope = self.objective.block(r, s, n, scale, self.dtype)
            total += loss
            if known is None:
                slope[row, column] = 0
            else:
                total += known[0]
                slope[row, column] = known[1].to(self.dtype)
            dp += _product(slope, low_q, p.dtype)
            dq.append(_product(slope.T, low_p, p.dtype)[:n])
        self.dp += dp
        return total, dq[0] if len(dq) == 1 else torch.cat(dq)


class _Chunk(NamedTuple):
    """A range of columns, and the observed pairs inside it."""

    first: int
    last: int
    which: Tensor | slice  # the numbers of the observed pairs
    row: Tensor
    column: Tensor  # counted from `first`


def _chunks(n: int, size: int, row: Tensor, column: Tensor) -> Iterator[_Chunk]:
    """The columns 0 to n - 1 in ranges of at most `size`, with the observed pairs (row, column) of each range."""
    if n <= size:
        yield _Chunk(0, n, slice(None), row, column)
        return
    column, which = column.sort(stable=True)
    row = row[which]
    edges = [*range(0, n, size), n]
    ends = torch.searchsorted(column, torch.tensor(edges, device=column.device)).tolist()
    for first, last, a, b in zip(edges, edges[1:], ends, ends[1:], strict=False):
        yield _Chunk(first, last, which[a:b], row[a:b], column[a:b] - first)


def _product(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """a @ b as `dtype`. On a GPU it is accumulated in `dtype`, if PyTorch can do that."""
    if a.dtype != dtype and a.is_cuda and _MM_TAKES_DTYPE:
        return torch.mm(a, b, out_dtype=dtype)
    return (a @ b).to(dtype)
