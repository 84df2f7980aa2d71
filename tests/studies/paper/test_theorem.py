"""The corrected bound holds wherever it is looked at, could fail, and the printed step does."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import aleator as al
from aleator.studies.paper import theorem
from aleator.studies.records import Record
from aleator.studies.report.tables import Table
from aleator.studies.workbench import Workbench
from aleator.uncertainty.objective import Objective
from tests.studies.making import record

OBJECTIVE = Objective(beta=0.01, gamma=0.001)


@pytest.fixture(scope="module")
def row(split: al.Split) -> Record:
    bench = Workbench("tiny", replace(split, name="tiny"), device="cpu", quick=True)
    (method,) = theorem.cells(bench)
    return record(dataset="tiny", method=method.name, **theorem.measure(bench, method))


def tensor(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def gap(residual: Tensor, s: Tensor, objective: Objective = OBJECTIVE) -> Tensor:
    found = theorem.bound(residual, s, objective)
    return found["loss"] - found["kl"] - found["constant"]


def by_hand(residual: list[float], s: list[float], beta: float, gamma: float) -> dict[str, float]:
    """One user, item after item."""
    n, squared = len(s), [d * d for d in residual]
    total, norm = sum(squared), sum(math.exp(x) for x in s)
    p, q = [d / total for d in squared], [math.exp(x) / norm for x in s]
    first = 1 + 2 * math.log(total) - sum(a * math.log(d) for a, d in zip(p, squared, strict=True) if a > 0)
    rest = (n - 1) * beta**2 / (4 * gamma)
    return {
        "loss": sum(d / math.exp(x) + beta * x + gamma * x * x for d, x in zip(squared, s, strict=True)),
        "kl": sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0),
        "constant": first - math.log(n) - rest - (1 - beta) ** 2 / (4 * gamma),
        "printed": first - rest - (beta - math.log(n)) ** 2 / (4 * gamma),
        "log_sum": math.log(norm),
        "step": max(s) * math.log(n),
    }


def test_the_batch_equals_the_formulas_by_hand() -> None:
    draw = torch.Generator().manual_seed(0)
    residual, s = (torch.randn(5, 7, generator=draw, dtype=torch.float64) for _ in range(2))
    residual[2, 3] = residual[4, 0] = 0.0
    found = theorem.bound(residual, s, Objective(alpha=3.0, beta=0.2, gamma=0.05, floor=0.1))
    for user in range(5):
        expected = by_hand(residual[user].tolist(), s[user].tolist(), 0.2, 0.05)
        assert {name: float(values[user]) for name, values in found.items()} == pytest.approx(expected, rel=1e-12)


@given(
    pairs=st.lists(st.tuples(st.floats(-2, 2), st.floats(-20, 20)), min_size=1, max_size=8),
    beta=st.floats(1e-3, 2),
    gamma=st.floats(1e-4, 10),
)
def test_the_corrected_bound_holds(pairs: list[tuple[float, float]], beta: float, gamma: float) -> None:
    residual, s = tensor([0.5, *(d for d, _ in pairs)]), tensor([0.0, *(x for _, x in pairs)])
    found = theorem.bound(residual, s, Objective(beta=beta, gamma=gamma))
    slack = 1e-10 * max(float(value.abs()) for value in found.values())
    assert float(found["loss"] - found["kl"] - found["constant"]) >= -slack


def test_for_one_item_every_inequality_can_be_an_equality() -> None:
    objective = Objective(beta=0.2, gamma=0.5)
    s = tensor([(1 - 0.2) / (2 * 0.5)])
    residual = (s / 2).exp()  # its square is e^s
    assert float(gap(residual, s, objective)) == pytest.approx(0, abs=1e-12)
    assert float(gap(residual, s, objective)) < 1e-6  # a c that were larger by so little would fail
    assert float(gap(residual, s + 0.1, objective)) > 1e-6


def test_for_many_items_hardly_anything_can_be_added_to_c() -> None:
    objective = Objective(beta=0.01, gamma=1e4)  # the lowest points of all parabolas are near 0
    s = torch.zeros(1, 50, dtype=torch.float64)
    residual = torch.full_like(s, 50**-0.5)  # squares that sum to e^0
    assert 0 <= float(gap(residual, s, objective)) < 1e-4


def test_the_printed_step_fails_for_small_log_variances() -> None:
    residual = torch.full((1, 10), 0.3, dtype=torch.float64)
    for s, fails in ((-1.0, True), (0.1, True), (3.0, False)):
        found = theorem.bound(residual, torch.full_like(residual, s), OBJECTIVE)
        assert theorem.summary(found)["step_fails"] == float(fails)
        assert theorem.summary(found)["holds"] == 1


def test_the_printed_bound_can_fail_where_gamma_is_large() -> None:
    """Its constant is below the right one only where (ln n - beta)^2 >= (1 - beta)^2 + 4 gamma ln n."""
    s = torch.zeros(1, 10, dtype=torch.float64)
    residual = torch.full_like(s, 10**-0.5)
    for gamma, fails in ((1.0, True), (0.001, False)):
        found = theorem.summary(theorem.bound(residual, s, Objective(beta=0.01, gamma=gamma)))
        assert found["printed_fails"] == float(fails)
        assert (found["printed_constant"] > found["constant"]) is fails
        assert found["holds"] == 1


def test_the_lowest_loss_is_where_the_slope_vanishes() -> None:
    residual = tensor([0.0, 1e-8, 0.01, 0.3, 1.0, 5.0])
    for objective in (OBJECTIVE, Objective(beta=0.5, gamma=0.1), Objective(beta=0.01, gamma=1e-4)):
        s = theorem.lowest(residual, objective)
        assert torch.allclose(objective.slope(residual, s), torch.zeros_like(s), atol=1e-12)


def test_a_sample_of_users_is_even_and_whole_batches_are_seen(fitted_aur: al.AUR) -> None:
    everybody = torch.cat([users.index for users in theorem.batches(fitted_aur, 500)])
    assert everybody.tolist() == (fitted_aur.histories.host_size > 0).nonzero().squeeze(1).tolist()
    some = torch.cat([users.index for users in theorem.batches(fitted_aur, 10)])
    assert len(some) == 10
    assert (some[0], some[-1]) == (everybody[0], everybody[-1])


def test_the_loss_is_the_one_that_is_trained(fitted_aur: al.AUR) -> None:
    (users,) = theorem.batches(fitted_aur, 500)
    residual, s = theorem.residuals(fitted_aur, users)
    y = torch.zeros_like(s)
    y[users.row, users.item] = 1
    expected = Objective(beta=0.01, gamma=0.001).reference(residual + y, y, s)
    assert float(theorem.bound(residual, s, OBJECTIVE)["loss"].sum()) == pytest.approx(float(expected), rel=1e-10)
    assert torch.equal(s[users.row, users.item], fitted_aur.estimator.observed(users).double())


def test_the_record_says_that_the_bound_holds(row: Record) -> None:
    assert list(row["metrics"]) == ["trained", "lowest loss", "equal", "random 0.1", "random 1", "random 3"]
    metrics = {name: {key: value or 0.0 for key, value in of.items()} for name, of in row["metrics"].items()}
    for found in metrics.values():
        assert found["holds"] == 1
        assert found["smallest_gap"] > 0
        assert found["gap"] == pytest.approx(found["loss"] - found["kl"] - found["constant"])
    assert min(found["loss"] for found in metrics.values()) == metrics["lowest loss"]["loss"]
    assert row["metrics"]["random 0.1"]["step_fails"] == 1
    assert row["config"]["floor"] == 0
    json.dumps(row, allow_nan=False)


def test_the_table_says_what_holds_and_what_does_not(row: Record) -> None:
    (table,) = theorem.show([row])
    assert isinstance(table, Table)
    assert all(len(line) == len(table.columns) for line in table.rows)
    assert "What holds" in table.caption
    assert "What does not hold as printed" in table.caption
    assert "still holds" in table.caption
    few = theorem.show([row | {"items": 2}])[0]
    assert "not proved" in few.caption
