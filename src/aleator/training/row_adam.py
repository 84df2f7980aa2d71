"""AdamW that updates only the rows in use. The cost of a step does not grow with the catalogue."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from aleator.batches import pieces

_ROWS = 1024  # rows to update at a time, so that their state stays in the cache


class RowAdam:
    """AdamW (Kingma and Ba, 2015; Loshchilov and Hutter, 2019) over the rows of matrices of equal height.

    A row that is not in use for t steps has zero gradients in these steps. Its moments and weights then decay by factors
    to the power t, and momentum moves the row by a geometric series. So its updates can wait. A row catches up when it
    is next in use (`rows`), or before all rows are read (`settle`). Only the bias correction differs from AdamW: all
    deferred steps take the present one.

    `lean` keeps the first moments in bfloat16, and the second ones factored (`Factored`). Its state is then a quarter of
    that of AdamW.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        *,
        lr: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        lean: bool = False,
    ) -> None:
        self.lr, self.weight_decay, self.betas, self.eps = lr, weight_decay, betas, eps
        self.parameters = list(parameters)
        self.first = [torch.zeros_like(p, dtype=torch.bfloat16 if lean else p.dtype) for p in parameters]
        self.second = [(Factored if lean else Second)(p, betas[1]) for p in parameters]
        self.last = torch.zeros(len(parameters[0]), dtype=torch.int64, device=parameters[0].device)  # last step by row
        self.steps = 0
        self.index = self.last[:0]  # the rows in use
        self.whole = False  # whether these are all rows, and are updated in place
        # rows and gradients; the memory is reused, since fresh memory is slow on a CPU
        self.buffers = [p[:0] for p in (*parameters, *parameters)]

    def rows(self, index: Tensor | None) -> list[Tensor]:
        """The rows `index` of every matrix, then buffers of the same shapes for their gradients.

        Each row may be in `index` only once. None stands for all rows: they are the matrices, and no copies. The caller
        fills the gradients before `step`.
        """
        before, self.whole = self.whole, index is None
        index = torch.arange(len(self.last), device=self.last.device) if index is None else index
        self._catch_up(index)
        self.index, n = index, len(index)
        if self.whole:
            gradients = self.buffers[len(self.parameters) :] if before else map(torch.empty_like, self.parameters)
            self.buffers = [*self.parameters, *gradients]
            return self.buffers
        if before or n > len(self.buffers[0]):
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
        beta1, (correction1, correction2) = self.betas[0], self._corrections()
        gradients = self.buffers[len(self.parameters) :]
        for matrix, first, second, row, gradient in zip(
            self.parameters, self.first, self.second, self.buffers, gradients, strict=False
        ):
            second.begin(gradient[: len(self.index)])
            for start in range(0, len(self.index), _ROWS):
                index = self.index[start : start + _ROWS]
                p, g = (t[start : start + len(index)] for t in (row, gradient))
                m = first.index_select(0, index).to(p.dtype).lerp_(g, 1 - beta1)
                first.index_copy_(0, index, m.to(first.dtype))
                denominator = second.moved(index, g).sqrt_().div_(correction2).add_(self.eps)
                p.mul_(1 - self.lr * self.weight_decay).addcdiv_(m, denominator, value=-self.lr / correction1)
                if not self.whole:
                    matrix.index_copy_(0, index, p)

    def settle(self) -> None:
        """Apply the deferred updates of every row."""
        self._catch_up(torch.arange(len(self.last), device=self.last.device))

    def tensors(self) -> dict[str, Tensor]:
        """All that it knows beside the parameters. Updates that wait go on waiting."""
        first = {f"first.{i}": tensor for i, tensor in enumerate(self.first)}
        second = {f"{name}.{i}": t for i, each in enumerate(self.second) for name, t in each.tensors().items()}
        return first | second | {"last": self.last, "steps": torch.tensor(self.steps)}

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
                p, m = matrix.index_select(0, part), first.index_select(0, part).to(matrix.dtype)
                direction = m / second.of(part).sqrt_().div_(correction2).add_(self.eps)
                p.sub_(direction.mul_(moved)).mul_(kept**gap)
                matrix.index_copy_(0, part, p)
                first.index_copy_(0, part, m.mul_(beta1**gap).to(first.dtype))
                second.decay(part, beta2**gap)
            self.last[part] = self.steps


class Second:
    """The second moments of a matrix, one for each number."""

    def __init__(self, matrix: Tensor, beta: float) -> None:
        self.table, self.beta = torch.zeros_like(matrix), beta

    def begin(self, gradient: Tensor) -> None:
        """See the gradients of all rows in use, before the step of any of them."""

    def moved(self, index: Tensor, gradient: Tensor) -> Tensor:
        """Move those of the rows `index` by their gradients. Returns a copy of them."""
        found = self.table.index_select(0, index).mul_(self.beta).addcmul_(gradient, gradient, value=1 - self.beta)
        self.table.index_copy_(0, index, found)
        return found

    def of(self, index: Tensor) -> Tensor:
        """A copy of those of the rows `index`."""
        return self.table.index_select(0, index)

    def decay(self, index: Tensor, factor: Tensor) -> None:
        """Multiply those of the rows `index` by their factors [n, 1]."""
        self.table.index_copy_(0, index, self.table.index_select(0, index).mul_(factor))

    def tensors(self) -> dict[str, Tensor]:
        """Its state by name."""
        return {"second": self.table}


class Factored(Second):
    """Second moments as products: a number for each row, and one for each column (Shazeer and Stern, 2018).

    That of a row is the mean of the row. Those of the columns are relative to their mean.
    """

    def __init__(self, matrix: Tensor, beta: float) -> None:
        self.table, self.beta = matrix.new_zeros((len(matrix), 1)), beta
        self.columns = matrix.new_zeros((1, matrix.shape[1]))

    def begin(self, gradient: Tensor) -> None:
        squares = torch.zeros_like(self.columns)
        for rows in pieces(gradient, _ROWS):
            squares += rows.square().sum(0, keepdim=True)
        self.columns.mul_(self.beta).add_(squares, alpha=(1 - self.beta) / max(len(gradient), 1))

    def moved(self, index: Tensor, gradient: Tensor) -> Tensor:
        rows = self.table.index_select(0, index).mul_(self.beta)
        rows.add_(gradient.square().mean(1, keepdim=True), alpha=1 - self.beta)
        self.table.index_copy_(0, index, rows)
        return rows * self._relative()

    def of(self, index: Tensor) -> Tensor:
        return self.table.index_select(0, index) * self._relative()

    def _relative(self) -> Tensor:
        return self.columns / self.columns.mean().clamp_min(torch.finfo(self.columns.dtype).tiny)

    def tensors(self) -> dict[str, Tensor]:
        return {"second": self.table, "columns": self.columns}
