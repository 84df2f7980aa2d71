"""The training loops of the AUR paper's released program, rewritten as a reference for the speed benchmarks.

No line of the program itself is here. This is our own code. It follows a description of what the program does, and the
paper's formulas (Wang et al., 2023: the backbone's objective with shared negatives, the estimator's objective). What it
takes over from the program:

- Batches have 32 users. At each step, their rows of the interaction matrix are made dense on the host and sent to the
  device.
- Adam updates all parameters with a learning rate of 1e-4 and dense gradients. All parameters start as N(0, 0.01).
- MF scores all items. Each batch has one set of floor(mu * n_items) negatives, drawn on the host. The loss is the squared
  error through a dense mask, without L2.
- The estimator multiplies the dense history with Z [n_items, 1024] and divides by sqrt(n). It has no activation, takes
  all items, and has e^s + 1e-3 in the loss.
- Everything is float32 without TF32.

If the description leaves a choice, we took the faster one. The mask is made on the device, the loss is read once per
epoch, and no step prints or logs. A drawn negative that is a positive keeps its label 1 and counts once. The loss is the
paper's sum over the batch. The program itself was once measured on an H200 at Amazon-Book's size (52,643 users, 91,599
items, 2,380,730 pairs). An epoch took 44 s for MF and 18.8 s for the estimator.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from aleator.batches import Users

BATCH = 32  # users
LR = 1e-4
INIT = 0.01  # standard deviation of the initial parameters
FLOOR = 1e-3  # added to e^s
WARM_STEPS = 3  # not timed, so that the start of the libraries does not count

Ints = NDArray[np.int64]


def mf_loss(scores: Tensor, y: Tensor, negatives: Tensor) -> Tensor:
    """Sum of the squared errors of the positives of y [B, n_items] and of the columns `negatives`."""
    mask = y.clone()
    mask[:, negatives] = 1
    return (mask * (scores - y).square()).sum()


def estimator_loss(
    s: Tensor, r: Tensor, y: Tensor, alpha: float = 1.0, beta: float = 0.01, gamma: float = 0.001
) -> Tensor:
    """Sum of the objective over all pairs of a batch, [B, n_items] each. Positives have the weight `alpha`."""
    weight = alpha * y + (1 - y)
    return (weight * ((r - y).square() / (torch.exp(s) + FLOOR) + beta * s + gamma * s.square())).sum()


class Loop(ABC):
    """A training loop: parameters, their optimiser, and a step on a batch of users."""

    def __init__(
        self, csr: sp.csr_matrix, shapes: list[tuple[int, int]], device: torch.device, seed: int, dtype: torch.dtype
    ) -> None:
        self.device, self.dtype = device, dtype
        self.csr = sp.csr_matrix((np.ones(csr.nnz, np.float32), csr.indices, csr.indptr), shape=csr.shape)
        self.rng = np.random.default_rng(seed)
        draw = torch.Generator().manual_seed(seed)
        self.parameters = [
            (INIT * torch.randn(shape, generator=draw, dtype=dtype)).to(device).requires_grad_() for shape in shapes
        ]
        self.optimizer = torch.optim.Adam(self.parameters, lr=LR)

    @abstractmethod
    def loss(self, who: Ints, y: Tensor) -> Tensor:
        """The loss of the users `who`. Their interactions are y [B, n_items]."""

    @abstractmethod
    def score_block(self, users: Users) -> Tensor:
        """The scores to rank by, [B, n_items]."""

    def dense(self, who: Ints) -> Tensor:
        """The rows of the users, [B, n_items], made dense on the host and sent to the device."""
        return torch.from_numpy(self.csr[who].toarray()).to(self.device, self.dtype)

    def step(self, who: Ints) -> Tensor:
        """Do one step of Adam on a batch. Returns the loss."""
        loss = self.loss(who, self.dense(who))
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def epoch(self, steps: int | None = None) -> tuple[float, float]:
        """Seconds of an epoch, and the mean loss of a user. With `steps`, only so many run and the rest is inferred."""
        assert torch.get_float32_matmul_precision() == "highest", "the released program does not use TF32"
        n_users = self.csr.shape[0]
        start = time.perf_counter()
        order = self.rng.permutation(n_users)
        batches = [order[first : first + BATCH] for first in range(0, n_users, BATCH)]
        run = batches[:steps]
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for who in run:
            total += self.step(who)
        loss = float(total) / sum(map(len, run))  # reading it waits for the device
        return (time.perf_counter() - start) * len(batches) / len(run), loss

    def train(self, check: Callable[[], float], check_every: int = 2, epochs: int = 1000, patience: int = 10) -> None:
        """Run epochs until `patience` checks in a row find nothing better. `check` gives the metric, and may raise."""
        best, stale = -np.inf, 0
        for epoch in range(1, epochs + 1):
            self.epoch()
            if epoch % check_every == 0 or epoch == epochs:
                value = check()
                best, stale = (value, 0) if value > best else (best, stale + 1)
                if stale >= patience:
                    break


class MFLoop(Loop):
    """The backbone MF: r = <x_u, y_i>."""

    def __init__(
        self,
        csr: sp.csr_matrix,
        device: torch.device,
        *,
        dim: int = 128,
        mu: float = 0.1,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(csr, [(n, dim) for n in csr.shape], device, seed, dtype)
        self.n_negatives = int(mu * csr.shape[1])

    def loss(self, who: Ints, y: Tensor) -> Tensor:
        x, items = self.parameters
        negatives = self.rng.choice(len(items), self.n_negatives, replace=False)
        scores = x[torch.from_numpy(who).to(self.device)] @ items.T
        return mf_loss(scores, y, torch.from_numpy(negatives).to(self.device))

    def score_block(self, users: Users) -> Tensor:
        x, items = self.parameters
        return x[users.index] @ items.T


class EstimatorLoop(Loop):
    """The uncertainty estimator on frozen factors: s = <p_u, q_i>, p_u = sum of z_i over the history / sqrt(n)."""

    def __init__(
        self,
        csr: sp.csr_matrix,
        user_factors: Tensor,
        item_factors: Tensor,
        device: torch.device,
        *,
        dim: int = 1024,
        alpha: float = 1.0,
        beta: float = 0.01,
        gamma: float = 0.001,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(csr, [(csr.shape[1], dim)] * 2, device, seed, dtype)
        self.user_factors, self.item_factors = user_factors.to(device, dtype), item_factors.to(device, dtype)
        self.weights = {"alpha": alpha, "beta": beta, "gamma": gamma}

    def log_variance(self, y: Tensor) -> Tensor:
        """The log-variance s [B, n_items] of the histories y [B, n_items]."""
        z, q = self.parameters
        p = y @ z / y.sum(1, keepdim=True).clamp_min(1).sqrt()
        return p @ q.T

    def loss(self, who: Ints, y: Tensor) -> Tensor:
        with torch.no_grad():
            r = self.user_factors[torch.from_numpy(who).to(self.device)] @ self.item_factors.T
        return estimator_loss(self.log_variance(y), r, y, **self.weights)

    def score_block(self, users: Users) -> Tensor:
        y = torch.zeros((len(users), self.csr.shape[1]), dtype=self.dtype, device=self.device)
        y[users.row, users.item] = 1
        return self.log_variance(y)


def mf_epoch(
    csr: sp.csr_matrix, device: torch.device, *, steps: int | None = None, mu: float = 0.1, seed: int = 0
) -> tuple[float, float]:
    """Seconds of an epoch of MF, and its loss. With `steps`, the seconds are inferred from so many steps."""
    return _warm_epoch(MFLoop(csr, device, mu=mu, seed=seed), steps)


def estimator_epoch(
    csr: sp.csr_matrix,
    user_factors: Tensor,
    item_factors: Tensor,
    device: torch.device,
    *,
    steps: int | None = None,
    seed: int = 0,
) -> tuple[float, float]:
    """Seconds of an epoch of the estimator, and its loss. With `steps`, the seconds are inferred from so many steps."""
    return _warm_epoch(EstimatorLoop(csr, user_factors, item_factors, device, seed=seed), steps)


def _warm_epoch(loop: Loop, steps: int | None) -> tuple[float, float]:
    loop.epoch(WARM_STEPS)
    return loop.epoch(steps)
