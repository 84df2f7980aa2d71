"""AdamW that touches only the rows in use, so that a step costs the same whatever the catalogue."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_ROWS = 1024  # handled at a time: their state stays in the cache


class RowAdam:
    """AdamW (Kingma and Ba, 2015; Loshchilov and Hutter, 2019) over the rows of matrices of equal height.

    A row that is not in use for t steps has zero gradients there, so what AdamW would have done to it is known: moments
    and weights decay by powers of t, and momentum moves the row by a geometric series. It catches up with that when it
    is next in use (`rows`) or read by somebody else (`settle`). The bias corrections of those steps are taken as the
    present ones: the only difference to AdamW.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        *,
        lr: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.lr, self.weight_decay, self.betas, self.eps = lr, weight_decay, betas, eps
        self.parameters = list(parameters)
        self.first, self.second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
        self.last = torch.zeros(len(parameters[0]), dtype=torch.int64, device=parameters[0].device)
        self.steps = 0
        self.index = self.last[:0]
        self.buffers = [p[:0] for p in (*parameters, *parameters)]  # kept: fresh memory is slow on a CPU

    def rows(self, index: Tensor) -> list[Tensor]:
        """The rows `index` (each once) of every matrix, then a place for the gradient of each, to fill before `step`."""
        self._catch_up(index)
        self.index, n = index, len(index)
        if n > len(self.buffers[0]):
            self.buffers = [p.new_empty((n + n // 8, p.shape[1])) for p in (*self.parameters, *self.parameters)]
        rows = [b[:n] for b in self.buffers]
        for parameter, row in zip(self.parameters, rows, strict=False):
            torch.index_select(parameter, 0, index, out=row)
        return rows

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Nothing to do: gradients are written anew for each step."""

    def step(self) -> None:
        """Move the rows that were last asked for by their gradients."""
        self.steps += 1
        self.last[self.index] = self.steps
        (beta1, beta2), (correction1, correction2) = self.betas, self._corrections()
        gradients = self.buffers[len(self.parameters) :]
        for matrix, first, second, row, gradient in zip(
            self.parameters, self.first, self.second, self.buffers, gradients, strict=False
        ):
            for start in range(0, len(self.index), _ROWS):
                index = self.index[start : start + _ROWS]
                p, g = (t[start : start + len(index)] for t in (row, gradient))
                m = first.index_select(0, index).lerp_(g, 1 - beta1)
                v = second.index_select(0, index).mul_(beta2).addcmul_(g, g, value=1 - beta2)
                first.index_copy_(0, index, m)
                second.index_copy_(0, index, v)
                bottom = v.sqrt_().div_(correction2).add_(self.eps)
                p.mul_(1 - self.lr * self.weight_decay).addcdiv_(m, bottom, value=-self.lr / correction1)
                matrix.index_copy_(0, index, p)

    def settle(self) -> None:
        """Bring every row to the present."""
        self._catch_up(torch.arange(len(self.last), device=self.last.device))

    def _corrections(self) -> tuple[float, float]:
        beta1, beta2 = self.betas
        return 1 - beta1**self.steps, math.sqrt(1 - beta2**self.steps)

    def _catch_up(self, index: Tensor) -> None:
        index = index[self.last[index] < self.steps]
        beta1, beta2 = self.betas
        kept = 1 - self.lr * self.weight_decay
        ratio = beta1 / math.sqrt(beta2) / kept
        for start in range(0, len(index), _ROWS):
            part = index[start : start + _ROWS]
            correction1, correction2 = self._corrections()
            gap = (self.steps - self.last[part]).to(self.parameters[0].dtype)[:, None]
            moved = ratio * (1 - ratio**gap) / (1 - ratio) * (self.lr / correction1)  # before it decays as the rest
            for matrix, first, second in zip(self.parameters, self.first, self.second, strict=True):
                p, m, v = (t.index_select(0, part) for t in (matrix, first, second))
                p.sub_((m / v.sqrt().div_(correction2).add_(self.eps)).mul_(moved)).mul_(kept**gap)
                matrix.index_copy_(0, part, p)
                first.index_copy_(0, part, m.mul_(beta1**gap))
                second.index_copy_(0, part, v.mul_(beta2**gap))
            self.last[part] = self.steps
