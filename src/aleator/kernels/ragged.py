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

_NARROW = 256  # dimensions up to which `index_add_` is faster on a GPU


@cache
def triton_kernels() -> Any:
    """The module of Triton kernels, or None if Triton is not installed."""
    try:
        from aleator.kernels import triton
    except ImportError:
        return None
    return triton


def history_sum(table: Tensor, users: Users, weight: Tensor) -> Tensor:
    """The rows of `table` [n_items, dim] summed over each history with `weight` [n]. Differentiable in `table`.

    Returns [B, dim].
    """
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
    """Add to the row of each item in `into` [n_items, dim] the rows of its users in `table` [B, dim], times `weight` [n].

    This is the transpose of `history_sum`.
    """
    if into.is_cuda and into.shape[1] <= _NARROW:
        # this moves more memory but launches fewer kernels
        into.index_add_(0, users.item, table[users.row] * weight[:, None])
        return
    item, order = users.item.sort(stable=True)
    edges = torch.searchsorted(item, torch.arange(len(into) + 1, device=item.device))
    _add_bags(into, table, users.row[order], edges, weight[order])


def _edges(size: Tensor) -> Tensor:
    """[B + 1] the row pointer of a CSR matrix, from the sizes [B] of its rows."""
    return F.pad(size.cumsum(0), (1, 0))


@torch.no_grad()
def _add_bags(into: Tensor, table: Tensor, index: Tensor, edges: Tensor, weight: Tensor) -> None:
    """Add to row b of `into` the rows index[edges[b] : edges[b + 1]] of `table`, weighted.

    They are added in order, so that results are the same to the bit.
    """
    weight = weight.to(table.dtype)
    if into.is_cuda and triton_kernels() is not None:
        triton_kernels().add_bags(into, table, index, edges, weight)
        return
    step = budget(into.device).added_rows
    ends = [*edges[::step].tolist(), len(index)] if len(into) > step else [0, len(index)]
    for first, (start, end) in zip(range(0, len(into), step), pairwise(ends), strict=False):
        part = into[first : first + step]
        offsets = edges[first : first + len(part)] - start
        part += F.embedding_bag(index[start:end], table, offsets, mode="sum", per_sample_weights=weight[start:end])


def row_dots(a: Tensor, b: Tensor) -> Tensor:
    """<a_i, b_i> for each row i, [n]."""
    if a.is_cuda and triton_kernels() is not None:
        dots: Tensor = triton_kernels().row_dots(a, b)
        return dots
    size = max(budget(a.device).product_numbers // a.shape[1], 1)
    return torch.cat([(x * y).sum(1) for x, y in zip(pieces(a, size), pieces(b, size), strict=True)])


def add_cross(z: Tensor, q: Tensor, weight: Tensor, dz: Tensor, rest: Tensor, dq: Tensor) -> None:
    """dz += weight q and dq = rest + weight z, row by row, in place: it adds the gradient of weight <z, q>."""
    if z.is_cuda and triton_kernels() is not None:
        triton_kernels().cross(z, q, weight, dz, rest, dq)
        return
    dz.addcmul_(q, weight[:, None])
    torch.addcmul(rest, z, weight[:, None], out=dq)


def pair_products(p: Tensor, q: Tensor, users: Users) -> Tensor:
    """<p_u, q_i> of each user of the batch and each item of the history, [n]. Differentiable in p and q."""
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


def history_products(z: Tensor, q: Tensor, users: Users, items: Tensor) -> Tensor:
    """<z_j, q_i> of each item j of each history and each of the user's own items i (dense ids [B, k]), [n, k]."""
    histories = torch.split(users.item, users.size.tolist())
    found = [z[history] @ q[own].T for history, own in zip(histories, items, strict=True)]
    return torch.cat([z.new_empty((0, items.shape[1])), *found])


def row_products(p: Tensor, row: Tensor, q: Tensor, item: Tensor) -> Tensor:
    """<p_row, q_item> of each pair, [n]. `row` must ascend. On a CPU, it does not depend on the other pairs."""
    if not p.is_cuda and len(item) <= len(p) * len(q):  # a sparse matrix cannot have more entries than cells
        return _sampled_product(p, torch.searchsorted(row, torch.arange(len(p) + 1)), q, item)
    size = max(BUDGETS["cuda"].product_numbers // p.shape[1], 1)
    parts = zip(pieces(row, size), pieces(item, size), strict=True)
    return torch.cat([torch.einsum("nd,nd->n", p[rows], q[items]) for rows, items in parts])


def _sampled_product(p: Tensor, edges: Tensor, q: Tensor, item: Tensor) -> Tensor:
    """The entries of p q' at the places of a sparse matrix, [n]. It does not copy rows of p and q for each pair.

    `edges` [n_rows + 1] say where the entries of each row begin, and `item` holds their columns.
    """
    if not len(item):
        return p.new_empty(0)
    _hush()
    shape, zeros = (len(p), len(q)), p.new_zeros(len(item))
    places = torch.sparse_csr_tensor(edges, item, zeros, size=shape, check_invariants=False)
    found: Tensor = torch.sparse.sampled_addmm(places, p, q.T, beta=0.0).values()
    return found


@cache
def _hush() -> None:
    """Let PyTorch warn, unheard, that sparse CSR tensors are in beta. It warns once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.sparse_csr_tensor(
            torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64), torch.tensor([]), size=(1, 1)
        )
