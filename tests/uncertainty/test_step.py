"""A step of the estimator on a GPU against the float64 reference on the CPU. Skipped where there is no GPU.

The steps on a CPU are tested with the estimator that they belong to, in test_factor.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories
from aleator.device import BUDGETS
from aleator.uncertainty import FactorEstimator, Objective
from aleator.uncertainty.step import Tables

from .fixed import Fixed

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CPU, GPU = torch.device("cpu"), torch.device("cuda")
N_USERS, N_ITEMS, DIM = 96, 1500, 64


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
