"""ItemKNN: similarities by the formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import aleator as al
from aleator.data.interactions import Interactions


@pytest.fixture
def small() -> Interactions:
    """8 users, 7 items, weights; item 6 was never taken."""
    rng = np.random.default_rng(1)
    taken = rng.random((8, 6)) < 0.45
    taken[np.arange(8), np.arange(8) % 6] = True
    user, item = np.nonzero(taken)
    made = Interactions.of(np.r_[user, 0], np.r_[item, 6], weight=np.r_[rng.choice([0.5, 1.0, 2.0], len(user)), 1.0])
    return made.take(made.item != 6)


def literal(data: Interactions, shrink: float, user_exponent: float) -> NDArray[np.float64]:
    """S_ij of each two items, user by user."""
    x = data.csr.toarray().astype(np.float64)
    n_users, n_items = x.shape
    weight = [x[u].sum() ** (-2 * user_exponent) if x[u].sum() else 0.0 for u in range(n_users)]
    counted = sum(weight[u] * x[u, i] ** 2 for u in range(n_users) for i in range(n_items))
    unit = sum(x[u, i] ** 2 for u in range(n_users) for i in range(n_items)) / counted
    together = np.zeros((n_items, n_items))
    for i in range(n_items):
        for j in range(n_items):
            together[i, j] = sum(unit * weight[u] * x[u, i] * x[u, j] for u in range(n_users))
    s = np.zeros((n_items, n_items))
    for i in range(n_items):
        for j in range(n_items):
            if i != j and together[i, j] > 0:
                s[i, j] = together[i, j] / (math.sqrt(together[i, i] * together[j, j]) + shrink)
    return s


@pytest.mark.parametrize(("shrink", "user_exponent"), [(0.0, 0.0), (3.0, 0.0), (1.5, 0.25), (0.0, 0.5)])
def test_similarities_equal_the_literal_ones(small: Interactions, shrink: float, user_exponent: float) -> None:
    model = al.ItemKNN(shrink=shrink, user_exponent=user_exponent, calibrate="none").fit(small)
    s, x = literal(small, shrink, user_exponent), small.csr.toarray()
    np.testing.assert_allclose(model.score(list(range(8))).numpy(), x @ s, rtol=1e-5, atol=1e-6)


def test_without_weights_it_is_the_shrunk_cosine_of_who_took_what() -> None:
    """Items 0 and 1 share two users; 0 has three, 1 has two, 2 has one."""
    data = Interactions.of([0, 0, 1, 1, 2, 3], [0, 1, 0, 1, 0, 2])
    model = al.ItemKNN(shrink=2.0, user_exponent=0.0, calibrate="none").fit(data)
    assert model.score({"new": [0]})[0].tolist() == pytest.approx([0, 2 / (math.sqrt(6) + 2), 0])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_each_item_is_scored_from_its_strongest_neighbours(small: Interactions, n: int) -> None:
    model = al.ItemKNN(neighbours=n, shrink=1.0, user_exponent=0.0, calibrate="none").fit(small)
    s = literal(small, 1.0, 0.0)
    for i in range(7):
        s[s[:, i] < np.sort(s[:, i])[-n] * (1 - 1e-6), i] = 0
    np.testing.assert_allclose(model.score(list(range(8))).numpy(), small.csr.toarray() @ s, rtol=1e-5, atol=1e-6)
    assert model.kept == n


@pytest.mark.parametrize("option", [{"neighbours": 0}, {"shrink": -1.0}, {"user_exponent": -0.5}])
def test_options_out_of_range_are_named(option: dict[str, Any]) -> None:
    with pytest.raises(al.AleatorError, match=next(iter(option))):
        al.ItemKNN(**option)


def test_shrinking_makes_pairs_of_items_with_few_users_say_less(small: Interactions) -> None:
    plain, shrunk = (al.ItemKNN(shrink=s, user_exponent=0.0, calibrate="none").fit(small) for s in (0.0, 5.0))
    a, b = plain.score([0, 1, 2]), shrunk.score([0, 1, 2])
    assert bool((b <= a).all())
    assert not torch.allclose(a / a.sum(), b / b.sum())
