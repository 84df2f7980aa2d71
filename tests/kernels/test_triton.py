"""The compiled pass of the loss on a GPU: against the objective, pair by pair. Skipped where there is no GPU."""

from __future__ import annotations

import pytest
import torch

from aleator.uncertainty import Objective

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = torch.device("cuda")


@pytest.mark.parametrize("shape", [(1, 1), (3, 5000), (777, 1001)])
@pytest.mark.parametrize("floor", [0.0, 0.01])
def test_the_compiled_pass_equals_the_objective_pair_by_pair(shape: tuple[int, int], floor: float) -> None:
    pytest.importorskip("triton")
    draw, objective = torch.Generator().manual_seed(0), Objective(1.0, 0.02, 0.003, floor)
    r, s = (torch.randn(shape, generator=draw, dtype=torch.float64) for _ in range(2))
    loss, slope = objective.block(r.float().to(GPU), s.float().to(GPU), shape[1], 1.0, torch.float32)
    torch.testing.assert_close(slope.double().cpu(), objective.slope(r, s), rtol=2e-5, atol=2e-5)
    assert loss.item() == pytest.approx(objective.pairs(r, s).sum().item(), rel=1e-5)
