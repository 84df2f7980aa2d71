"""Fast paths over ragged histories: sums over each history, and inner products at the observed pairs."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Users, pieces
from aleator.device import BUDGETS, budget

_NARROW = 256  # dimensions


@cache
def triton_kernels() -> Any:
    """The kernels for a GPU, or None where Triton is not installed."""
    try:
        from aleator.kernels import triton
    except ImportError:
        return None
    return triton


def history_sum(table: Tensor, users: Users, weight: Tensor) -> Tensor:
    """The rows of `table` [n_items, dim] summed over each history with `weight` [n], [B, dim]; autograd knows it."""
    summed: Tensor = _HistorySum.apply(table, users, weight)  # type: ignore[no-untyped-call]
    return summed


class _HistorySum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, users: Users, weight: Tensor) -> Tensor:
        ctx.users, ctx.weight, ctx.rows = users, weight, len(table)
        summed = table.new_zeros((len(users), table.shape[1]))
        _add_bags(summed, table, users.item, _edges(users.size), weight)
        return summed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        into = grads[0].new_zeros((ctx.rows, grads[0].shape[1]))
        add_by_item(into, grads[0].contiguous(), ctx.users, ctx.weight)
        return into, None, None


def add_by_item(into: Tensor, table: Tensor, users: Users, weight: Tensor) -> None:
    """Add to each row of `into` [n_items, dim] the rows of `table` [B, dim] of its users with `weight` [n]."""
    if into.is_cuda and into.shape[1] <= _NARROW:
        into.index_add_(0, users.item, table[users.row] * weight[:, None])  # less to start, if more to move
        return
    item, order = users.item.sort(stable=True)
    edges = torch.searchsorted(item, torch.arange(len(into) + 1, device=item.device))
    _add_bags(into, table, users.row[order], edges, weight[order])


def _edges(size: Tensor) -> Tensor:
    return F.pad(size.cumsum(0), (1, 0))


@torch.no_grad()
def _add_bags(into: Tensor, table: Tensor, index: Tensor, edges: Tensor, weight: Tensor) -> None:
    """Add to row b of `into` the rows index[edges[b] : edges[b + 1]] of `table`, weighted.

    They are added in order, so that the bits are the same each time.
    """
    weight = weight.to(table.dtype)
    if into.is_cuda and triton_kernels() is not None:
        triton_kernels().add_bags(into, table, index, edges, weight)
        return
    step = budget(into.device).added_rows
    ends = [*edges[::step].tolist(), len(index)] if len(into) > step else [0, len(index)]
    for first, (a, b) in zip(range(0, len(into), step), pairwise(ends), strict=False):
        part = into[first : first + step]
        starts = edges[first : first + len(part)] - a
        part += F.embedding_bag(index[a:b], table, starts, mode="sum", per_sample_weights=weight[a:b])


def row_dots(a: Tensor, b: Tensor) -> Tensor:
    """<a_i, b_i> of each row, [n]."""
    if a.is_cuda and triton_kernels() is not None:
        dots: Tensor = triton_kernels().row_dots(a, b)
        return dots
    size = max(budget(a.device).product_numbers // a.shape[1], 1)
    return torch.cat([(x * y).sum(1) for x, y in zip(pieces(a, size), pieces(b, size), strict=True)])


def add_cross(z: Tensor, q: Tensor, weight: Tensor, dz: Tensor, rest: Tensor, dq: Tensor) -> None:
    """dz += weight q and dq = rest + weight z, row by row: the gradient of weight <z, q>, besides what is there."""
    if z.is_cuda and triton_kernels() is not None:
        triton_kernels().cross(z, q, weight, dz, rest, dq)
        return
    dz.addcmul_(q, weight[:, None])
    torch.addcmul(rest, z, weight[:, None], out=dq)


def pair_products(p: Tensor, q: Tensor, users: Users) -> Tensor:
    """<p_u, q_i> of each user of the batch and each item of the history, [n]; autograd knows it."""
    products: Tensor = _PairProducts.apply(p, q, users)  # type: ignore[no-untyped-call]
    return products


class _PairProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor, users: Users) -> Tensor:
        ctx.save_for_backward(p, q)
        ctx.users = users
        return row_products(p, users.row, q, users.item)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        p, q = ctx.saved_tensors
        dp = history_sum(q, ctx.users, grads[0]) if ctx.needs_input_grad[0] else None
        dq = None
        if ctx.needs_input_grad[1]:
            dq = torch.zeros_like(q)
            add_by_item(dq, p, ctx.users, grads[0])
        return dp, dq, None


def row_products(p: Tensor, row: Tensor, q: Tensor, item: Tensor) -> Tensor:
    """<p_row, q_item> of each pair, [n]; `row` ascends."""
    if not p.is_cuda and len(item) <= len(p) * len(q):  # a sparse matrix has no more places than cells
        return _sampled_product(p, torch.bincount(row, minlength=len(p)), q, item)
    size = max(BUDGETS["cuda"].product_numbers // p.shape[1], 1)
    parts = zip(pieces(row, size), pieces(item, size), strict=True)
    return torch.cat([torch.einsum("nd,nd->n", p[rows], q[items]) for rows, items in parts])


def _sampled_product(p: Tensor, size: Tensor, q: Tensor, item: Tensor) -> Tensor:
    """The product at the places of a sparse matrix, without gathering its factors."""
    if not len(item):
        return p.new_empty(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # sparse matrices in rows are called a beta
        shape, nothing = (len(p), len(q)), p.new_zeros(len(item))
        places = torch.sparse_csr_tensor(_edges(size), item, nothing, size=shape, check_invariants=False)
        found: Tensor = torch.sparse.sampled_addmm(places, p, q.T, beta=0.0).values()
    return found
