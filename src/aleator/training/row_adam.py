"""AdamW that updates only the rows in use. The cost of a step does not grow with the catalogue."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_ROWS = 1024  # rows to update at a time, so that their state stays in the cache


class RowAdam:
    """AdamW (Kingma and Ba, 2015; Loshchilov and Hutter, 2019) over the rows of matrices of equal height.

    A row that is not in use for t steps has zero gradients in these steps. Its moments and weights then decay by factors
    to the power t, and momentum moves the row by a geometric series. So its updates can wait. A row catches up when it
    is next in use (`rows`), or before all rows are read (`settle`). Only the bias correction differs from AdamW: all
    deferred steps take the present one.
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
        self.first = [torch.zeros_like(p) for p in parameters]  # first moments
        self.second = [torch.zeros_like(p) for p in parameters]  # second moments
        self.last = torch.zeros(len(parameters[0]), dtype=torch.int64, device=parameters[0].device)  # last step by row
        self.steps = 0
        self.index = self.last[:0]  # the rows in use
        # rows and gradients; the memory is reused, since fresh memory is slow on a CPU
        self.buffers = [p[:0] for p in (*parameters, *parameters)]

    def rows(self, index: Tensor) -> list[Tensor]:
        """The rows `index` of every matrix, then buffers of the same shapes for their gradients.

        Each row may be in `index` only once. The caller fills the gradients before `step`.
        """
        self._catch_up(index)
        self.index, n = index, len(index)
        if n > len(self.buffers[0]):
            self.buffers = [p.new_empty((n + n // 8, p.shape[1])) for p in (*self.parameters, *self.parameters)]
        rows = [b[:n] for b in self.buffers]
        for parameter, row in zip(self.parameters, rows, strict=False):
            torch.index_select(parameter, 0, index, out=row)
        return rows

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Do nothing: gradients are overwritten in each step."""

    def step(self) -> None:
        """Update the rows that `rows` last returned, by their gradients."""
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
                denominator = v.sqrt_().div_(correction2).add_(self.eps)
                p.mul_(1 - self.lr * self.weight_decay).addcdiv_(m, denominator, value=-self.lr / correction1)
                matrix.index_copy_(0, index, p)

    def settle(self) -> None:
        """Apply the deferred updates of every row."""
        self._catch_up(torch.arange(len(self.last), device=self.last.device))

    def tensors(self) -> dict[str, Tensor]:
        """All that it knows beside the parameters. Updates that wait go on waiting."""
        of_parameters = {f"{n}.{i}": t for n in ("first", "second") for i, t in enumerate(getattr(self, n))}
        return of_parameters | {"last": self.last, "steps": torch.tensor(self.steps)}

    def set_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take over what `tensors` returned."""
        self.steps = int(tensors["steps"])
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])

    def _corrections(self) -> tuple[float, float]:
        """The bias corrections of the first moment and of the root of the second."""
        beta1, beta2 = self.betas
        return 1 - beta1**self.steps, math.sqrt(1 - beta2**self.steps)

    def _catch_up(self, index: Tensor) -> None:
        """Apply the deferred updates of the rows `index`."""
        index = index[self.last[index] < self.steps]
        beta1, beta2 = self.betas
        kept = 1 - self.lr * self.weight_decay  # what one step of weight decay leaves of a weight
        ratio = beta1 / math.sqrt(beta2) / kept  # of two steps of the geometric series
        for start in range(0, len(index), _ROWS):
            part = index[start : start + _ROWS]
            correction1, correction2 = self._corrections()
            gap = (self.steps - self.last[part]).to(self.parameters[0].dtype)[:, None]  # steps to catch up
            # the sum of the geometric series, before the weight decay of all these steps is applied to it
            moved = ratio * (1 - ratio**gap) / (1 - ratio) * (self.lr / correction1)
            for matrix, first, second in zip(self.parameters, self.first, self.second, strict=True):
                p, m, v = (t.index_select(0, part) for t in (matrix, first, second))
                direction = m / v.sqrt().div_(correction2).add_(self.eps)
                p.sub_(direction.mul_(moved)).mul_(kept**gap)
                matrix.index_copy_(0, part, p)
                first.index_copy_(0, part, m.mul_(beta1**gap))
                second.index_copy_(0, part, v.mul_(beta2**gap))
            self.last[part] = self.steps
