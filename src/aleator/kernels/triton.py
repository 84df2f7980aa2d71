"""Triton kernels for a GPU, for what PyTorch is slower at. This module is imported only if Triton is installed."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 4096


@triton.jit  # type: ignore[untyped-decorator]
def _objective(  # type: ignore[no-untyped-def]
    r_at, s_at, slope_at, loss_at, n, width, scale, beta, gamma, floor, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < n
    place = row * width + column
    r = tl.load(r_at + place, mask=inside, other=0.0).to(tl.float32)
    s = tl.load(s_at + place, mask=inside, other=0.0).to(tl.float32)
    precision = 1.0 / (tl.exp(s) + floor)
    part = r * r * precision
    loss = part + s * (beta + gamma * s)
    slope = scale * (beta + 2.0 * gamma * s - part * (1.0 - floor * precision))
    slope = tl.where(inside, slope, 0.0).to(slope_at.dtype.element_ty)
    tl.store(slope_at + place, slope, mask=column < width)
    tl.store(loss_at + row * tl.num_programs(1) + tl.program_id(1), tl.sum(tl.where(inside, loss, 0.0), axis=0))


def objective(
    r: Tensor, s: Tensor, n: int, scale: float, beta: float, gamma: float, floor: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The sum of r^2 / (e^s + floor) + beta s + gamma s^2, and `scale` times its slope in each s.

    It takes one pass over memory. Only the first `n` columns count. The slopes of the others are 0.
    """
    r, slope = r.contiguous(), torch.empty_like(s, dtype=dtype)
    grid = (len(s), triton.cdiv(s.shape[1], _BLOCK))
    loss = torch.empty(grid, dtype=torch.float32, device=s.device)
    _objective[grid](r, s, slope, loss, n, s.shape[1], scale, beta, gamma, floor, block=_BLOCK, num_warps=8)
    return loss.sum(dtype=torch.float64), slope


@triton.jit  # type: ignore[untyped-decorator]
def _add_bags(  # type: ignore[no-untyped-def]
    into_at, table_at, index_at, edge_at, weight_at, dim, block: tl.constexpr
):
    bag = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < dim
    first, last = tl.load(edge_at + bag), tl.load(edge_at + bag + 1)
    total = tl.load(into_at + bag * dim + column, mask=inside, other=0.0)
    for k in range(first, last):
        row = tl.load(index_at + k)
        total += tl.load(weight_at + k) * tl.load(table_at + row * dim + column, mask=inside, other=0.0)
    tl.store(into_at + bag * dim + column, total, mask=inside)


def add_bags(into: Tensor, table: Tensor, index: Tensor, edges: Tensor, weight: Tensor) -> None:
    """Add to row b of `into` the rows index[edges[b] : edges[b + 1]] of `table`, weighted, in order."""
    dim = table.shape[1]
    block = min(triton.next_power_of_2(dim), 512)
    grid = (len(into), triton.cdiv(dim, block))
    _add_bags[grid](into, table.contiguous(), index, edges, weight, dim, block=block, num_warps=4)


@triton.jit  # type: ignore[untyped-decorator]
def _row_dots(a_at, b_at, out_at, dim, block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, block)
    a = tl.load(a_at + row * dim + column, mask=column < dim, other=0.0)
    b = tl.load(b_at + row * dim + column, mask=column < dim, other=0.0)
    tl.store(out_at + row, tl.sum(a * b, axis=0))


def row_dots(a: Tensor, b: Tensor) -> Tensor:
    """<a_i, b_i> for each row i, [n]."""
    made = a.new_empty(len(a))
    _row_dots[(len(a),)](a, b, made, a.shape[1], block=triton.next_power_of_2(a.shape[1]), num_warps=4)
    return made


@triton.jit  # type: ignore[untyped-decorator]
def _cross(  # type: ignore[no-untyped-def]
    z_at, q_at, weight_at, dz_at, rest_at, dq_at, dim, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, block)
    inside, place = column < dim, row * dim + column
    weight = tl.load(weight_at + row)
    dz = tl.load(dz_at + place, mask=inside) + weight * tl.load(q_at + place, mask=inside)
    dq = tl.load(rest_at + place, mask=inside) + weight * tl.load(z_at + place, mask=inside)
    tl.store(dz_at + place, dz, mask=inside)
    tl.store(dq_at + place, dq, mask=inside)


def cross(z: Tensor, q: Tensor, weight: Tensor, dz: Tensor, rest: Tensor, dq: Tensor) -> None:
    """dz += weight q and dq = rest + weight z, row by row, in place and in one pass over memory."""
    block = triton.next_power_of_2(z.shape[1])
    _cross[(len(z),)](z, q, weight, dz, rest, dq, z.shape[1], block=block, num_warps=4)
