"""The objective over a block of users x items and its gradient by hand, in bounded memory.

The loss is a sum over pairs, so its slope g = dL/ds is known pair by pair and no graph is kept:  dL/dp = g q  and
dL/dq = g' p.  A block is made, used for both products and forgotten. The products may be in bfloat16, and so what lies in
memory between them; they accumulate in float32, and the slope is computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from aleator.kernels.ragged import triton_kernels
from aleator.uncertainty.objective import Objective

BLOCK = {"cpu": 1 << 20, "cuda": 1 << 29}  # pairs of a block: they fit the cache of a CPU, and keep a GPU busy
_ALIGNED = 64  # products are fast on a GPU when sides are multiples of that
Expected = Callable[[Tensor], Tensor]  # columns -> r [B, len(columns)], which may be overwritten
Observed = Callable[[Tensor, Tensor | slice], tuple[Tensor, Tensor]]  # (s, which pairs) -> their loss and their slopes


def block_loss(
    p: Tensor,
    q: Tensor,
    expected: Expected,
    objective: Objective,
    pairs: tuple[Tensor, Tensor],
    observed: Observed | None,
    scale: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of all pairs of p [B, dim] and q [n, dim], and `scale` times its gradients in p and in q.

    `observed` gives the loss and the (scaled) slopes of the observed `pairs` (row, column); without it they are left out.
    """
    low_p, dp, dq = p.to(dtype), torch.zeros_like(p), []
    total = torch.zeros((), dtype=torch.float64, device=p.device)
    size = max(BLOCK[p.device.type] // max(len(p), 1), 1)
    for first, last, which, row, column in _chunks(len(q), size, *pairs):
        n = last - first
        width = n + (-n % _ALIGNED if p.is_cuda and triton_kernels() is not None else 0)
        items = q.new_zeros((width, q.shape[1]), dtype=dtype)
        items[:n] = q[first:last]
        s = low_p @ items.T
        with torch.autocast(p.device.type, dtype, enabled=dtype == torch.bfloat16):
            r = expected(torch.arange(first, first + width, device=p.device).clamp_max_(last - 1))
        known = None if observed is None else observed(s[row, column].to(p.dtype), which)
        s[row, column], r[row, column] = 0, 0  # with r = s = 0 the loss of an unobserved pair vanishes
        loss, slope = _loss_and_slope(objective, r, s, n, scale, dtype)
        total += loss
        if known is None:
            slope[row, column] = 0
        else:
            total += known[0]
            slope[row, column] = known[1].to(dtype)
        dp += _product(slope, items, p.dtype)
        dq.append(_product(slope.T, low_p, p.dtype)[:n])
    return total, dp, dq[0] if len(dq) == 1 else torch.cat(dq)


def _chunks(
    n: int, size: int, row: Tensor, column: Tensor
) -> Iterator[tuple[int, int, Tensor | slice, Tensor, Tensor]]:
    """Ranges of columns, each with the pairs inside it: which they are, their rows, their columns from its first on."""
    if n <= size:
        yield 0, n, slice(None), row, column
        return
    column, which = column.sort(stable=True)
    row = row[which]
    edges = [*range(0, n, size), n]
    ends = torch.searchsorted(column, torch.tensor(edges, device=column.device)).tolist()
    for first, last, a, b in zip(edges, edges[1:], ends, ends[1:], strict=False):
        yield first, last, which[a:b], row[a:b], column[a:b] - first


def _product(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """a @ b, in `dtype` where the device can accumulate into it (PyTorch 2.8 and later on a GPU)."""
    if a.dtype != dtype and a.is_cuda and hasattr(torch.ops.aten.mm, "dtype"):
        return torch.mm(a, b, out_dtype=dtype)
    return (a @ b).to(dtype)


def _loss_and_slope(
    objective: Objective, r: Tensor, s: Tensor, n: int, scale: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The loss of unobserved pairs summed, and `scale` times its slope in each s; r and s may be overwritten.

    There are `n` columns; more of them fill up the block.
    """
    beta, gamma, floor = objective.beta, objective.gamma, objective.floor
    if s.is_cuda and triton_kernels() is not None:
        made: tuple[Tensor, Tensor] = triton_kernels().objective(r, s, n, scale, beta, gamma, floor, dtype)
        return made
    wide = torch.promote_types(s.dtype, torch.float32)
    r, s = r.to(wide), s.to(wide)
    precision = torch.exp(s).add_(floor).reciprocal_()
    part = r.square_().mul_(precision)
    loss = part.sum(dtype=torch.float64) + beta * s.sum(dtype=torch.float64)
    loss += gamma * torch.linalg.vector_norm(s, dtype=torch.float64).square()
    falling = part.addcmul_(part, precision, value=-floor)
    slope = s.mul_(2 * gamma * scale).add_(beta * scale).sub_(falling, alpha=scale)
    return loss, slope.to(dtype)
