"""The paper's objective of the uncertainty estimator.

L = sum over pairs of w (  (r - Y)^2 / e^s  +  beta s  +  gamma s^2  ),   w = alpha where Y = 1 and 1 where Y = 0.

`pairs` is the formula and `slope` its derivative in s. Observed pairs are few, and training calls both for them.
Unobserved pairs are many: `block` computes the same in one pass, and a Triton kernel does so on a GPU. `reference` is
the literal sum, which tests compare all of them with.

Beside the paper, `floor` is added to e^s, and w of an observed pair is multiplied by the pair's weight.

It is the negative log posterior of the log-variance s under Y ~ N(r, e^s / K) and a Gaussian prior on s, divided by
K / 2. So beta = 1 / K, and sigma^2 = e^s / K is on the scale of the squared residual.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from aleator.kernels.ragged import triton_kernels


@dataclass(frozen=True)
class Objective:
    """The objective, with alpha, beta and gamma of the paper."""

    alpha: float = 1.0
    beta: float = 0.01
    gamma: float = 0.001
    floor: float = 0.0  # added to e^s; 0 in the paper, 1e-3 in its released program

    @property
    def k(self) -> float:
        """K = 1 / beta, the scale of the variance."""
        return 1 / self.beta

    def pairs(self, residual: Tensor, s: Tensor) -> Tensor:
        """The loss of each pair, without its weight. `residual` is r - Y."""
        # With a floor, a sigmoid computes 1 / (e^s + floor). Its derivative stays finite if e^s overflows.
        precision = torch.exp(-s) if self.floor == 0 else torch.sigmoid(math.log(self.floor) - s) / self.floor
        return residual.square() * precision + self.beta * s + self.gamma * s.square()

    def slope(self, residual: Tensor, s: Tensor) -> Tensor:
        """The derivative of `pairs` by s."""
        precision = 1 / (torch.exp(s) + self.floor)
        return self.beta + 2 * self.gamma * s - residual.square() * precision * (1 - self.floor * precision)

    def block(self, r: Tensor, s: Tensor, n: int, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The summed loss of a block of unobserved pairs, and `scale` times the slope of each pair.

        It takes one pass over memory. r and s are [B, width] and may be overwritten. Only the first `n` columns count.
        The others are padding.
        """
        if s.is_cuda and triton_kernels() is not None:
            made: tuple[Tensor, Tensor] = triton_kernels().objective(
                r, s, n, scale, self.beta, self.gamma, self.floor, dtype
            )
            return made
        wide = torch.promote_types(s.dtype, torch.float32)
        r, s = r.to(wide), s.to(wide)
        precision = torch.exp(s).add_(self.floor).reciprocal_()
        fit = r.square_().mul_(precision)
        loss = fit.sum(dtype=torch.float64) + self.beta * s.sum(dtype=torch.float64)
        loss += self.gamma * torch.linalg.vector_norm(s, dtype=torch.float64).square()
        falling = fit.addcmul_(fit, precision, value=-self.floor)
        slope = s.mul_(2 * self.gamma * scale).add_(self.beta * scale).sub_(falling, alpha=scale)
        return loss, slope.to(dtype)

    def reference(self, r: Tensor, y: Tensor, s: Tensor, weight: Tensor | float = 1.0) -> Tensor:
        """The objective of a dense block, as the paper writes it. Every fast path is tested against this."""
        w = torch.where(y == 1, self.alpha * weight, torch.ones_like(y))
        return (w * ((r - y) ** 2 / (torch.exp(s) + self.floor) + self.beta * s + self.gamma * s**2)).sum()
