"""The maps onto the label's scale: what they minimise, and that they keep the order of the items."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.isotonic import IsotonicRegression
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.data.interactions import Interactions
from aleator.device import BUDGETS
from aleator.models import calibration
from aleator.models.calibration import Calibrate, Map, fit_map, samples

CPU = torch.device("cpu")
MU = 0.3
both = pytest.mark.parametrize("kind", ["linear", "isotonic"])


@pytest.fixture(scope="module")
def data() -> Interactions:
    """40 users and 30 items with weights; the chance of a pair is an S-shaped function of `raw`."""
    rng = np.random.default_rng(0)
    taken = rng.random((40, 30)) < 1 / (1 + np.exp(-4 * (raw().numpy() / 5 - 2.5)))
    taken[np.arange(40), np.arange(40) % 30] = True
    user, item = np.nonzero(taken)
    return Interactions.of(user, item, weight=rng.choice([0.5, 1.0, 2.0], len(user)))


def raw() -> Tensor:
    """[40, 30] scores far off the label's scale."""
    return 5 * torch.randn(40, 30, generator=torch.Generator().manual_seed(1)) + 7


def block(users: Users) -> Tensor:
    return raw()[users.index]


def literal(data: Interactions) -> tuple[Any, Any, Any]:
    """Scores, weights and labels of all pairs, one after the other, in float64."""
    assert data.weight is not None
    pairs = {(int(u), int(i)): float(w) for u, i, w in zip(data.user, data.item, data.weight, strict=True)}
    cells = [(u, i) for u in range(40) for i in range(30)]
    x = np.array([float(raw()[cell]) for cell in cells])
    return x, np.array([pairs.get(c, MU) for c in cells]), np.array([float(c in pairs) for c in cells])


def fitted(data: Interactions, kind: Calibrate, score: Any = block) -> Map:
    made = fit_map(samples(score, Histories(data.csr, CPU), MU, seed=0), kind, CPU)
    assert made is not None
    return made


def error(scores: Tensor, data: Interactions) -> float:
    _, weight, label = literal(data)
    return float((weight * (scores.double().numpy().ravel() - label) ** 2).sum())


def test_the_line_is_that_of_weighted_least_squares(data: Interactions) -> None:
    x, weight, label = literal(data)
    root = np.sqrt(weight)
    (level, slope), *_ = np.linalg.lstsq(np.stack([root, root * x], 1), root * label)
    torch.testing.assert_close(
        fitted(data, "linear")(raw().double()), level + slope * raw().double(), rtol=1e-6, atol=1e-7
    )


def test_the_steps_are_those_of_isotonic_regression(data: Interactions) -> None:
    """Through the centre of each step; sklearn's is another implementation of it."""
    x, weight, label = literal(data)
    level = IsotonicRegression().fit_transform(x, label, sample_weight=weight)
    centres = [np.average(x[level == v], weights=weight[level == v]) for v in np.unique(level)]
    made = fitted(data, "isotonic")
    np.testing.assert_allclose(made.x, centres, rtol=1e-6)
    np.testing.assert_allclose(made(torch.tensor(centres)), np.unique(level), atol=1e-6)


@both
def test_a_map_takes_scores_nearer_to_the_labels_and_keeps_their_order(data: Interactions, kind: Calibrate) -> None:
    made, scores = fitted(data, kind), raw()
    _, weight, label = literal(data)
    constant = np.full((40, 30), np.average(label, weights=weight))
    assert error(made(scores), data) < 0.9 * error(torch.from_numpy(constant), data) < error(scores, data)
    order = scores.flatten().argsort()
    assert (made(scores).flatten()[order].diff() > 0).all()


def test_steps_come_nearer_than_a_line_where_the_truth_is_no_line(data: Interactions) -> None:
    assert error(fitted(data, "isotonic")(raw()), data) < 0.95 * error(fitted(data, "linear")(raw()), data)


@both
def test_what_is_already_on_the_labels_scale_is_left_nearly_as_it_is(data: Interactions, kind: Calibrate) -> None:
    made = fitted(data, kind)
    again = fitted(data, kind, lambda users: made(block(users)))
    assert abs(error(again(made(raw())), data) / error(made(raw()), data) - 1) < 0.01


@both
def test_scores_that_fall_with_the_label_give_a_flat_map_and_not_a_turned_one(
    data: Interactions, kind: Calibrate
) -> None:
    made = fitted(data, kind, lambda users: -block(users))
    flat = made(-raw())
    _, weight, label = literal(data)
    torch.testing.assert_close(flat, torch.full_like(flat, np.average(label, weights=weight)), rtol=1e-5, atol=1e-5)
    assert not made.rises
    assert fitted(data, kind).rises


@both
@pytest.mark.parametrize("value", [0.0, 3.0, -1e6])
def test_scores_that_are_all_the_same_give_the_mean_label(data: Interactions, kind: Calibrate, value: float) -> None:
    made = fitted(data, kind, lambda users: torch.full((len(users), 30), value))
    _, weight, label = literal(data)
    assert made(torch.tensor([value])).item() == pytest.approx(np.average(label, weights=weight), rel=1e-5)


@both
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_the_scores_does_not_matter(data: Interactions, kind: Calibrate, unit: float) -> None:
    """Slopes of 1e-7 and of 1e5 beside levels of about 1: float32 alone would lose the former."""
    other = fitted(data, kind, lambda users: unit * block(users))
    torch.testing.assert_close(other(unit * raw()), fitted(data, kind)(raw()), rtol=1e-4, atol=1e-4)


@both
def test_a_heavier_pair_pulls_the_map_to_itself(kind: Calibrate) -> None:
    scores = torch.tensor([[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0]])
    at_2 = []
    for weight in (1.0, 50.0):
        data = Interactions.of([0, 0, 1], [2, 3, 0], weight=[weight, 1.0, 1.0])
        padded = Interactions.of([*data.user, 1], [*data.item, 1], weight=[*data.csr.tocoo().data[[0, 1, 2]], 1e-3])
        made = fitted(padded, kind, lambda users: scores[users.index])
        at_2.append(made(torch.tensor([2.0])).item())
    assert at_2[1] > at_2[0] + 0.1


numbers = st.integers(-(10**6), 10**6).map(lambda n: np.float32(n * 1e-4))


@settings(max_examples=40)
@given(
    arrays(np.float32, st.integers(2, 40), elements=numbers, unique=True),
    arrays(np.float32, 60, elements=st.floats(-200, 200, width=32)),
    st.integers(0, 2**32 - 1),
)
def test_no_map_through_rising_knots_turns_an_order_round(knots: Any, scores: Any, seed: int) -> None:
    x = np.sort(knots).astype(np.float64)
    y = np.sort(np.random.default_rng(seed).random(len(x)))
    near = np.nextafter(knots, np.float32(np.inf)), np.nextafter(knots, np.float32(-np.inf))  # where segments meet
    asked = torch.from_numpy(np.sort(np.concatenate([scores, knots, *near])))
    found = Map(torch.from_numpy(x), torch.from_numpy(y))(asked)
    assert torch.isfinite(found).all()
    assert (found.diff() >= 0).all()
    inside = Map(torch.from_numpy(x), torch.from_numpy(y))(torch.from_numpy(x))
    np.testing.assert_allclose(inside, y, atol=1e-9)


def test_an_outlier_beyond_two_close_knots_stays_in_bounds() -> None:
    made = Map(torch.tensor([0.0, 0.001, 1.0, 1.001]), torch.tensor([0.0, 0.3, 0.7, 1.0]))
    assert made(torch.tensor([-1.0, 2.0])).tolist() == pytest.approx([-1.0, 2.0], abs=0.01)


@settings(max_examples=40)
@given(arrays(np.float32, (4, 6), elements=st.sampled_from([1.0, np.nextafter(np.float32(1), np.float32(2)), 5.0])))
def test_scores_as_near_to_each_other_as_floats_can_be_are_mapped_to_numbers(scores: Any) -> None:
    data = Interactions.of([0, 1, 2, 3, 0, 1], [0, 1, 2, 3, 4, 5])
    made = fitted(data, "isotonic", lambda users: torch.from_numpy(scores)[users.index])
    assert torch.isfinite(made(torch.from_numpy(scores))).all()


def test_without_a_map_nothing_is_looked_at(data: Interactions) -> None:
    def never() -> Any:
        raise AssertionError
        yield

    assert fit_map(never(), "none", CPU) is None


def test_samples_are_the_pairs_of_users_with_a_history_and_of_those_known(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Histories(data.take(data.user != 4).csr, CPU)
    known = torch.arange(40) % 2 == 0
    monkeypatch.setitem(BUDGETS, "cpu", replace(BUDGETS["cpu"], calibration_scores=30 * 7))  # 7 users at a time
    parts = list(samples(block, rows, MU, 0, known))
    expected = [u for u in range(0, 40, 2) if u != 4]
    assert [len(part[0]) for part in parts] == [7, 7, 5]
    scores, weight, label = (torch.cat(part) for part in zip(*parts, strict=True))
    assert torch.equal(scores, raw()[expected])
    dense = torch.from_numpy(data.csr.toarray())[expected]
    assert torch.equal(label, (dense > 0).float())
    assert torch.equal(weight, torch.where(dense > 0, dense, MU))


def test_so_many_pairs_are_looked_at_as_it_takes_and_no_more(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Histories(data.csr, CPU)
    monkeypatch.setattr(calibration, "_TOTAL", 30 * 11)
    (one, same, other) = (torch.cat([s for s, *_ in samples(block, rows, MU, seed)]) for seed in (0, 0, 1))
    assert one.shape == (11, 30)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
