"""The fast paths on a GPU against the float64 reference on the CPU. Skipped where there is no GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.device import BUDGETS
from aleator.kernels.least_squares import least_squares
from aleator.uncertainty import FactorEstimator, Objective
from aleator.uncertainty.step import Tables

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CPU, GPU = torch.device("cpu"), torch.device("cuda")
N_USERS, N_ITEMS, DIM = 96, 1500, 64


class Fixed:
    """Expectations that are given: r [n_users, n_items]."""

    def __init__(self, r: Tensor) -> None:
        self.r = r

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        rows = self.r[users.index]
        return rows if items is None else rows[:, items]

    def score_pairs(self, users: Users) -> Tensor:
        return self.r[users.index[users.row], users.item]


def loss_and_gradient(
    device: torch.device, dtype: torch.dtype, precision: Any, objective: Objective, items: Tensor | None, **options: Any
) -> tuple[float, list[Tensor]]:
    """Of one and the same batch, on a device and in a type."""
    draw = torch.Generator().manual_seed(0)
    z, q = (0.15 * torch.randn(N_ITEMS, DIM, generator=draw, dtype=torch.float64) for _ in range(2))
    r = 0.2 * torch.rand(N_USERS, N_ITEMS, generator=draw, dtype=torch.float64)
    taken = (np.random.default_rng(0).random((N_USERS, N_ITEMS)) < 0.02).astype(np.float32)
    made = FactorEstimator(dim=DIM, precision=precision, **options)
    made.z, made.q = (t.to(device, dtype) for t in (z, q))
    tables = Tables(made.z, made.q, torch.zeros_like(made.z), torch.zeros_like(made.q))
    users = Histories(sp.csr_matrix(taken), device).batch(torch.arange(N_USERS))
    where = None if items is None else items.to(device)
    loss = made.step(users, Fixed(r.to(device, dtype)), objective, tables, N_ITEMS, where)
    return loss.item(), [tables.dz.double().cpu(), tables.dq.double().cpu()]


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 2e-6), ("bf16", 6e-3)])
@pytest.mark.parametrize("objective", [Objective(), Objective(2.0, floor=0.01)])
@pytest.mark.parametrize("activation", ["linear", "tanh"])
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("block", [1 << 14, 1 << 29])
def test_loss_and_gradient_equal_the_reference(
    precision: str,
    tolerance: float,
    objective: Objective,
    activation: Any,
    sampled: bool,
    block: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(BUDGETS, "cuda", replace(BUDGETS["cuda"], loss_pairs=block))
    items = torch.arange(0, N_ITEMS, 3) if sampled else None
    exact, wanted = loss_and_gradient(CPU, torch.float64, "float32", objective, items, activation=activation)
    loss, found = loss_and_gradient(GPU, torch.float32, precision, objective, items, activation=activation)
    assert loss == pytest.approx(exact, rel=tolerance)
    for mine, theirs in zip(found, wanted, strict=True):
        assert float((mine - theirs).norm() / theirs.norm()) < tolerance


@pytest.mark.parametrize("shape", [(1, 1), (3, 5000), (777, 1001)])
@pytest.mark.parametrize("floor", [0.0, 0.01])
def test_the_compiled_pass_equals_the_objective_pair_by_pair(shape: tuple[int, int], floor: float) -> None:
    pytest.importorskip("triton")
    draw, objective = torch.Generator().manual_seed(0), Objective(1.0, 0.02, 0.003, floor)
    r, s = (torch.randn(shape, generator=draw, dtype=torch.float64) for _ in range(2))
    loss, slope = objective.block(r.float().to(GPU), s.float().to(GPU), shape[1], 1.0, torch.float32)
    torch.testing.assert_close(slope.double().cpu(), objective.slope(r, s), rtol=2e-5, atol=2e-5)
    assert loss.item() == pytest.approx(objective.pairs(r, s).sum().item(), rel=1e-5)


@pytest.mark.parametrize("dim", [16, 1024])
def test_least_squares_is_solved_at_any_size(dim: int) -> None:
    """1024 factors are where other libraries' solvers on a GPU have failed."""
    factors = 0.1 * torch.randn(2000, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    taken = sp.csr_matrix((np.random.default_rng(0).random((40, 2000)) < 0.02).astype(np.float32))
    exact = least_squares(factors, Histories(taken, CPU), 0.1, 0.05)
    found = least_squares(factors.float().to(GPU), Histories(taken, GPU), 0.1, 0.05)
    assert float((found.double().cpu() - exact).norm() / exact.norm()) < 1e-4
