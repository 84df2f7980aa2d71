"""The paper's objective: value, gradient, minimum, and what it becomes where the log-variance is fixed."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aleator.uncertainty.objective import Objective

OBJECTIVES = [Objective(), Objective(3.0, 0.02, 0.005, 0.0), Objective(2.0, 0.01, 0.001, 0.01)]


def block(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """r, y, s and weight [5, 8], in float64."""
    draw = torch.Generator().manual_seed(seed)
    r, s, w = (torch.randn(5, 8, generator=draw, dtype=torch.float64) for _ in range(3))
    y = (torch.rand(5, 8, generator=draw) < 0.3).double()
    return 0.3 * r, y, s, w.exp()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_reference_is_the_formula_pair_by_pair(objective: Objective) -> None:
    r, y, s, weight = block()
    total = 0.0
    for u in range(5):
        for i in range(8):
            w = objective.alpha * float(weight[u, i]) if y[u, i] == 1 else 1.0
            residual, log_variance = float(r[u, i] - y[u, i]), float(s[u, i])
            total += w * (
                residual**2 / (math.exp(log_variance) + objective.floor)
                + objective.beta * log_variance
                + objective.gamma * log_variance**2
            )
    assert float(objective.reference(r, y, s, weight)) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_pairs_summed_with_their_weights_are_the_reference(objective: Objective) -> None:
    r, y, s, weight = block()
    s.requires_grad_()
    fast = (torch.where(y == 1, objective.alpha * weight, 1.0) * objective.pairs(r - y, s)).sum()
    reference = objective.reference(r, y, s, weight)
    assert fast.item() == pytest.approx(reference.item(), rel=1e-12)
    mine, theirs = (torch.autograd.grad(value, s)[0] for value in (fast, reference))
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-14)


@given(st.floats(0.05, 2.0), st.floats(0.001, 0.5))
def test_without_the_prior_the_best_variance_is_the_squared_residual(residual: float, beta: float) -> None:
    """At the minimum of the loss, sigma^2 = e^s / K equals the squared residual: that is what K = 1 / beta means."""
    objective = Objective(beta=beta, gamma=0.0)
    s = torch.tensor(math.log(residual**2 * objective.k), dtype=torch.float64, requires_grad=True)
    loss = objective.pairs(torch.tensor(residual, dtype=torch.float64), s)
    assert float(torch.autograd.grad(loss, s)[0]) == pytest.approx(0, abs=1e-9)
    sigma_squared = float(torch.exp(s.detach())) / objective.k
    assert sigma_squared == pytest.approx(residual**2, rel=1e-9)
    for other in (-0.3, 0.3):
        assert float(objective.pairs(torch.tensor(residual, dtype=torch.float64), s.detach() + other)) > loss.item()


def test_a_larger_residual_has_a_larger_best_variance_also_with_the_prior() -> None:
    objective, grid = Objective(), torch.linspace(-12, 12, 4001, dtype=torch.float64)
    best = [float(grid[objective.pairs(torch.tensor(x), grid).argmin()]) for x in (0.05, 0.2, 0.5, 0.9)]
    assert best == sorted(best)
    assert len(set(best)) == 4


def test_with_the_log_variance_fixed_it_is_weighted_least_squares_in_the_expectation() -> None:
    """The paper's discussion: s = log(1 / c) leaves sum c (r - Y)^2 and a constant, in value and in gradient."""
    r, y, _, _ = block(1)
    c = torch.where(y == 1, 10.0, 0.1).double()
    objective, s = Objective(alpha=1.0, floor=0.0), torch.log(1 / c)
    other = (r + 0.1 * torch.randn(r.shape, generator=torch.Generator().manual_seed(2))).requires_grad_()
    r.requires_grad_()
    squares = [(c * (x - y) ** 2).sum() for x in (r, other)]
    values = [objective.reference(x, y, s) for x in (r, other)]
    assert (values[0] - values[1]).item() == pytest.approx((squares[0] - squares[1]).item(), rel=1e-9)
    constant = (objective.beta * s + objective.gamma * s**2).sum()
    assert values[0].item() == pytest.approx((squares[0] + constant).item(), rel=1e-12)
    mine, theirs = torch.autograd.grad(values[0], r)[0], torch.autograd.grad(squares[0], r)[0]
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=0)


def test_alpha_weighs_the_observed_pairs_alone() -> None:
    r, y, s, _ = block()
    once, twice = (Objective(alpha=alpha).reference(r, y, s) for alpha in (1.0, 2.0))
    observed = Objective().pairs(r - 1, s)[y == 1].sum()
    assert float(twice - once) == pytest.approx(float(observed), rel=1e-12)


def test_the_floor_bounds_the_weight_of_a_pair() -> None:
    far = torch.tensor(-50.0, dtype=torch.float64)
    loss = Objective(beta=0.01, gamma=0.0, floor=0.01).pairs(torch.ones((), dtype=torch.float64), far)
    assert float(loss) == pytest.approx(100 - 0.5, rel=1e-9)


@pytest.mark.parametrize("floor", [1e-3, 0.01])
def test_with_a_floor_the_derivative_is_finite_and_the_slope_for_any_log_variance(floor: float) -> None:
    objective, s = Objective(floor=floor), torch.tensor([-200.0, -3.0, 0.0, 60.0, 100.0, 500.0], requires_grad=True)
    residual = torch.linspace(-1, 1, len(s))
    objective.pairs(residual, s).sum().backward()  # type: ignore[no-untyped-call]
    assert s.grad is not None
    torch.testing.assert_close(s.grad, objective.slope(residual, s.detach()))
