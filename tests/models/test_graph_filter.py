"""GraphFilter: similarities by the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import aleator as al
from aleator.data.interactions import Interactions


@pytest.fixture
def small() -> Interactions:
    rng = np.random.default_rng(2)
    taken = rng.random((9, 6)) < 0.4
    taken[np.arange(9), np.arange(9) % 6] = True
    return Interactions.of(*np.nonzero(taken), weight=rng.choice([0.5, 1.0, 2.0], int(taken.sum())))


def literal(data: Interactions, a: float, b: float, p: float) -> NDArray[np.float64]:
    """(R~'R~)^p with R~ = D_u^-a R D_i^-b, pair by pair."""
    r = data.csr.toarray().astype(np.float64)
    n_users, n_items = r.shape
    users, items = [r[u].sum() for u in range(n_users)], [r[:, i].sum() for i in range(n_items)]
    normal = np.zeros_like(r)
    for u in range(n_users):
        for i in range(n_items):
            normal[u, i] = users[u] ** -a * r[u, i] * items[i] ** -b
    s = np.zeros((n_items, n_items))
    for i in range(n_items):
        for j in range(n_items):
            if i != j:
                s[i, j] = sum(normal[u, i] * normal[u, j] for u in range(n_users)) ** p
    return s


@pytest.mark.parametrize(("a", "b", "p"), [(0.5, 0.5, 1.0), (0.5, 0.6, 0.8), (0.0, 0.3, 1.4)])
def test_similarities_equal_the_literal_ones(small: Interactions, a: float, b: float, p: float) -> None:
    model = al.GraphFilter(user_exponent=a, item_exponent=b, power=p, calibrate="none").fit(small)
    expected = small.csr.toarray() @ literal(small, a, b, p)
    np.testing.assert_allclose(model.score(list(range(9))).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_higher_item_exponent_lifts_rare_items() -> None:
    data = al.simulate(n_users=100, n_items=60, per_user=100, skew=1.0, seed=0).interactions
    shown = []
    for exponent in (0.2, 0.5, 0.8):
        listed = al.GraphFilter(item_exponent=exponent).fit(data).recommend(list(range(100)), k=5)
        shown.append(listed["popularity"].mean())
    assert shown == sorted(shown, reverse=True)
    assert shown[0] > 1.2 * shown[2]


@pytest.mark.parametrize("option", [{"item_exponent": -0.1}, {"power": 0.0}])
def test_options_out_of_range_are_named(option: dict[str, Any]) -> None:
    with pytest.raises(al.AleatorError, match=next(iter(option))):
        al.GraphFilter(**option)
