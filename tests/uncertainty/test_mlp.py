"""AUR-M: its loss and gradient against the literal formula, and what dropping the history does."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.data.simulate import World
from aleator.training.stop import Stop
from aleator.uncertainty import MLPEstimator, Objective
from aleator.uncertainty.step import PairLoss

from .fixed import Fixed

CPU = torch.device("cpu")


def small() -> tuple[MLPEstimator, Users, Tensor]:
    """An estimator in float64 with every weight away from 0, four histories, and their multi-hot matrix."""
    made = MLPEstimator(hidden=5)
    made._start(6, torch.device("cpu"))
    draw = torch.Generator().manual_seed(3)
    for name, value in made.tensors().items():
        drawn = torch.randn(value.shape, generator=draw, dtype=torch.float64)
        setattr(made, name, drawn.requires_grad_())
    lists = [[0, 2, 5], [1], [3, 4], [0, 1, 2, 3, 4]]
    users = Histories.of_lists(lists, 6, CPU).batch(torch.arange(4))
    hot = torch.zeros(4, 6, dtype=torch.float64)
    for row, items in enumerate(lists):
        hot[row, items] = 1
    return made, users, hot


def literal(made: MLPEstimator, hot: Tensor) -> Tensor:
    """s = W relu(W_2 relu(W_1 h + b_1) + b_2) + b, one user at a time."""
    rows = []
    for h in hot:
        first = torch.relu(made.w1.T @ (h / h.norm()) + made.b1)
        second = torch.relu(made.w2.T @ first + made.b2)
        rows.append(made.q[:, :-1] @ second + made.q[:, -1])
    return torch.stack(rows)


def test_the_log_variances_are_those_of_the_perceptron() -> None:
    made, users, hot = small()
    torch.testing.assert_close(made.log_variance(users), literal(made, hot))
    items = torch.tensor([5, 0])
    torch.testing.assert_close(made.log_variance(users, items), literal(made, hot)[:, items])
    torch.testing.assert_close(made.observed(users), literal(made, hot)[users.row, users.item])


@pytest.mark.parametrize("objective", [Objective(), Objective(2.0, 0.02, 0.005, 0.01)])
def test_the_loss_of_a_step_and_its_gradient_are_those_of_the_reference(objective: Objective) -> None:
    made, users, hot = small()
    r = 0.3 * torch.randn(4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    reference = objective.reference(r, hot, literal(made, hot))
    gradients = torch.autograd.grad(reference, made.parameters())
    p, q = made.user_factors(users), made.q
    part = PairLoss(users, p.detach(), q.detach(), Fixed(r), objective)
    assert float(part.backward(6)) == pytest.approx(float(reference), rel=1e-12)
    inner = torch.autograd.grad(p, made.parameters()[:-1], part.dp)
    for mine, theirs in zip([*inner, part.dq], gradients, strict=True):
        torch.testing.assert_close(mine * 4, theirs, rtol=1e-9, atol=1e-12)


def test_training_lowers_the_objective(world: World) -> None:
    histories = Histories(world.interactions.csr, CPU)
    r = torch.full((80, 50), 0.2)
    made = MLPEstimator(hidden=16, max_epochs=15, lr=0.01, history_dropout=0.0)
    made.learn(histories, Fixed(r), Objective(2.0, floor=0.01), Stop())
    assert made.log is not None
    assert made.log.rows[-1]["loss"] < 0.9 * made.log.rows[0]["loss"]


def test_dropping_the_history_is_noise_in_training_alone(world: World) -> None:
    histories = Histories(world.interactions.csr, CPU)
    made = {}
    for share in (0.0, 0.6):
        made[share] = MLPEstimator(hidden=8, max_epochs=2, lr=0.01, history_dropout=share)
        made[share].learn(histories, Fixed(torch.full((80, 50), 0.2)), Objective(floor=0.01), Stop())
    users = histories.batch(torch.arange(5))
    assert not torch.equal(made[0.0].log_variance(users), made[0.6].log_variance(users))
    assert torch.equal(made[0.6].log_variance(users), made[0.6].log_variance(users))
