"""Least squares: against numpy's solver, one user at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from aleator.batches import Histories
from aleator.device import BUDGETS
from aleator.kernels.least_squares import approach, history_terms, least_squares, leave_one_out, refine

from .weights import CPU, Matrix, weights


def each(n: int, l2: float) -> torch.Tensor:
    """A penalty for each row, around `l2`."""
    return l2 * torch.from_numpy(np.random.default_rng(5).uniform(0.5, 2, n))


def solved(factors: Matrix, weight: Matrix, mu: float, l2: torch.Tensor) -> Matrix:
    """The normal equations written out for each user."""
    found = []
    for row, penalty in zip(weight.astype(np.float64), l2.tolist(), strict=True):
        w, y = np.where(row > 0, row, mu), (row > 0).astype(float)
        normal = (factors * w[:, None]).T @ factors + penalty * np.eye(factors.shape[1])
        found.append(np.linalg.solve(normal, factors.T @ (w * y)))
    return np.array(found)


@pytest.mark.parametrize(("mu", "l2"), [(0.1, 0.005), (1.0, 0.1), (0.01, 1.0), (0.5, 0.0)])
@pytest.mark.parametrize("dim", [1, 5])
def test_each_user_is_solved_exactly(mu: float, l2: float, dim: int) -> None:
    weight = weights(9, 14)
    factors = np.random.default_rng(1).normal(size=(14, dim))
    users = Histories(sp.csr_matrix(weight), CPU).batch(torch.arange(9))
    found = least_squares(torch.from_numpy(factors), Histories.of_users(users, len(factors)), mu, each(9, l2))
    np.testing.assert_allclose(found.numpy(), solved(factors, weight, mu, each(9, l2)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("mu", "l2"), [(0.1, 0.005), (1.0, 0.1), (0.01, 1.0)])
def test_conjugate_gradients_come_nearer_with_each_step_and_arrive(mu: float, l2: float) -> None:
    weight = weights(23, 14)
    factors = torch.from_numpy(np.random.default_rng(1).normal(size=(14, 4)))
    rows = Histories(sp.csr_matrix(weight), CPU)
    exact, start = least_squares(factors, rows, mu, each(23, l2)), torch.zeros(23, 4, dtype=torch.float64)
    found = [approach(start, factors, rows.batch(torch.arange(23)), mu, each(23, l2), n) for n in (1, 2, 4)]
    errors = [float((x - exact).norm() / exact.norm()) for x in found]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-9  # as many steps as dimensions
    again = approach(exact, factors, rows.batch(torch.arange(23)), mu, each(23, l2), 3)
    torch.testing.assert_close(again, exact)  # what is solved stays


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("mu", "l2"), [(0.1, 0.005), (1.0, 0.1), (0.01, 1.0), (0.1, 0.0), (0.0, 0.5)])
@pytest.mark.parametrize("numbers", [1, 1 << 20])
def test_refined_rows_score_as_if_they_were_solved_exactly(
    mu: float, l2: float, dtype: torch.dtype, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGETS, "cpu", replace(BUDGETS["cpu"], product_numbers=numbers))
    weight, factors = weights(40, 30), torch.from_numpy(np.random.default_rng(1).normal(size=(30, 9)))
    start = torch.from_numpy(np.random.default_rng(2).normal(size=(40, 9)))
    rows = Histories(sp.csr_matrix(weight), CPU)
    found = refine(start.to(dtype), factors.to(dtype), rows, mu, each(40, l2).to(dtype))
    exact = least_squares(factors, rows, mu, each(40, l2))
    close = 2e-5 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(found.double() @ factors.T, exact @ factors.T, atol=close, rtol=0)
    assert (found[rows.size == 0] == 0).all()


def test_steps_reach_the_solution_without_a_matrix_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = torch.from_numpy(np.random.default_rng(1).normal(size=(30, 9)).astype(np.float32))
    rows, l2 = Histories(sp.csr_matrix(weights(40, 30)), CPU), each(40, 0.05).float()
    exact = least_squares(factors, rows, 0.1, l2)
    monkeypatch.setattr("aleator.kernels.least_squares._Problem", None)
    torch.testing.assert_close(refine(torch.zeros_like(exact), factors, rows, 0.1, l2), exact, atol=1e-5, rtol=0)


def test_rows_that_steps_do_not_solve_are_solved_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aleator.kernels.least_squares._MOST_STEPS", 1)
    factors = torch.from_numpy(np.random.default_rng(1).normal(size=(30, 9)))
    rows = Histories(sp.csr_matrix(weights(40, 30)), CPU)
    start = torch.zeros(40, 9, dtype=torch.float64)
    exact = least_squares(factors, rows, 0.1, each(40, 0.05))
    torch.testing.assert_close(refine(start, factors, rows, 0.1, each(40, 0.05)), exact)


def test_the_solution_is_the_minimum_of_the_objective() -> None:
    weight, mu, l2 = weights(4, 10), 0.2, 0.05
    factors = torch.from_numpy(np.random.default_rng(2).normal(size=(10, 3)))
    users = Histories(sp.csr_matrix(weight), CPU).batch(torch.arange(4))
    x = least_squares(factors, Histories.of_users(users, len(factors)), mu, each(4, l2)).requires_grad_()
    w = torch.from_numpy(np.where(weight > 0, weight.astype(np.float64), mu))
    label = torch.from_numpy((weight > 0).astype(float))
    loss = (w * (x @ factors.T - label) ** 2).sum() + (each(4, l2)[:, None] * x.square()).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.zeros_like(x), atol=1e-9, rtol=0)


@pytest.mark.parametrize("cells", [1, 200, 1 << 26])
def test_all_rows_at_once_equal_one_by_one_whatever_the_batches(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUDGETS, "cpu", replace(BUDGETS["cpu"], least_squares_numbers=cells))
    weight = weights(23, 14)
    factors = np.random.default_rng(1).normal(size=(14, 4))
    found = least_squares(torch.from_numpy(factors), Histories(sp.csr_matrix(weight), CPU), 0.1, each(23, 0.005))
    np.testing.assert_allclose(found.numpy(), solved(factors, weight, 0.1, each(23, 0.005)), rtol=1e-8, atol=1e-12)
    assert (found[2] == 0).all()


def test_rows_that_all_are_empty_are_zero() -> None:
    rows = Histories(sp.csr_matrix((3, 5), dtype=np.float32), CPU)
    assert (least_squares(torch.ones(5, 2), rows, 0.1, torch.full((3,), 0.1)) == 0).all()


def test_no_users_have_no_solutions() -> None:
    rows = Histories.of_lists([[1]], 5, CPU)
    nobody = Histories.of_users(rows.batch(torch.arange(0)), 5)
    assert least_squares(torch.ones(5, 2), nobody, 0.1, torch.zeros(0)).shape == (0, 2)


def test_more_dimensions_than_items_without_a_penalty_still_have_a_finite_solution() -> None:
    """The normal matrix is singular: any minimiser will do, an error of the linear algebra will not."""
    factors = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32))
    found = least_squares(factors, Histories.of_lists([[0, 2], [1]], 4, CPU), 0.1, torch.zeros(2))
    torch.testing.assert_close(found @ factors.T, torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 0]]), atol=0.01, rtol=0)


@pytest.mark.parametrize(("mu", "l2"), [(0.1, 0.005), (1.0, 0.1), (0.01, 1.0)])
def test_leaving_one_out_is_solving_again_with_that_pair_unobserved(mu: float, l2: float) -> None:
    weight = weights(9, 14)
    factors = np.random.default_rng(1).normal(size=(14, 4))
    users = Histories(sp.csr_matrix(weight), CPU).batch(torch.tensor([7, 0, 2, 3, 5]))
    found = leave_one_out(torch.from_numpy(factors), Histories.of_users(users, 14), mu, each(5, l2)).numpy()
    for place, (row, item) in enumerate(zip(users.row.tolist(), users.item.tolist(), strict=True)):
        left = weight[users.index[row]].copy()
        left[item] = 0
        again = solved(factors, left[None], mu, each(5, l2)[row : row + 1])[0]
        assert found[place] == pytest.approx(again @ factors[item], rel=1e-8)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dim", [16, 1024])
def test_a_gpu_solves_them_at_any_size(dim: int) -> None:
    """1024 factors are where other libraries' solvers on a GPU have failed."""
    gpu = torch.device("cuda")
    factors = 0.1 * torch.randn(2000, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    taken = sp.csr_matrix((np.random.default_rng(0).random((40, 2000)) < 0.02).astype(np.float32))
    exact = least_squares(factors, Histories(taken, CPU), 0.1, each(40, 0.05))
    found = least_squares(factors.float().to(gpu), Histories(taken, gpu), 0.1, each(40, 0.05).float().to(gpu))
    assert float((found.double().cpu() - exact).norm() / exact.norm()) < 1e-4


@pytest.mark.parametrize(("mu", "l2"), [(0.1, 0.005), (1.0, 0.1), (0.5, 0.0)])
def test_the_terms_of_a_score_are_those_of_the_normal_equations_and_add_up_to_it(mu: float, l2: float) -> None:
    weight, penalty = weights(9, 14).astype(np.float64), each(9, l2)
    y = np.random.default_rng(1).normal(size=(14, 5))
    rows = Histories(sp.csr_matrix(weight), CPU)
    items = torch.from_numpy(np.random.default_rng(2).integers(0, 14, (9, 3)))
    found = history_terms(torch.from_numpy(y), rows, mu, penalty, items).numpy()
    users = rows.batch(torch.arange(9))
    for n, (user, j) in enumerate(zip(users.row.tolist(), users.item.tolist(), strict=True)):
        w = np.where(weight[user] > 0, weight[user], mu)
        inverse = np.linalg.inv((y * w[:, None]).T @ y + float(penalty[user]) * np.eye(5))
        np.testing.assert_allclose(found[n], weight[user, j] * y[j] @ inverse @ y[items[user]].T, rtol=1e-7, atol=1e-10)
    sums = np.zeros((9, 3))
    np.add.at(sums, users.row.numpy(), found)
    x = solved(y, weight, mu, penalty)
    np.testing.assert_allclose(sums, (x[:, None] * y[items.numpy()]).sum(2), rtol=1e-7, atol=1e-10)
