"""Rows in a wrong order and random numbers are refused, although popular items score high for everybody."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from implicit.cpu.als import AlternatingLeastSquares

import aleator as al

REFUSED = r"no higher than those of other users.*users= and items=.*check=False|no higher on observed pairs"


@pytest.fixture(scope="module")
def split() -> al.Split:
    data = al.simulate(n_users=200, n_items=80, per_user=200, skew=1.0, seed=2).interactions
    return data.split(valid=0.1, test=0.2, seed=0)


@pytest.fixture(scope="module")
def factors(split: al.Split) -> tuple[Any, Any]:
    model = AlternatingLeastSquares(factors=8, random_state=0, num_threads=1)
    model.fit(split.train.csr, show_progress=False)
    return model.user_factors, model.item_factors


@pytest.mark.parametrize("rows", [1, 7, 100])
@pytest.mark.parametrize("calibrate", ["linear", "none"])
def test_rolled_users_are_refused(split: al.Split, factors: Any, rows: int, calibrate: Any) -> None:
    x, y = factors
    assert al.graft((x, y), calibrate=calibrate).fit(split).notes == []
    with pytest.raises(al.AleatorError, match=REFUSED):
        al.graft((np.roll(x, rows, 0), y), calibrate=calibrate).fit(split)


def test_rolled_items_are_refused(split: al.Split, factors: Any) -> None:
    x, y = factors
    with pytest.raises(al.AleatorError, match=REFUSED):
        al.graft((x, np.roll(y, 7, 0))).fit(split)


def test_an_item_item_matrix_is_not_checked(split: al.Split) -> None:
    """A user is scored by the own history, and with a small matrix that says little about the order of its rows."""
    rng = np.random.default_rng(0)
    popularity = split.train.popularity + 1.0
    grafted = al.graft(np.outer(popularity, popularity) + rng.random((80, 80))).fit(split)
    assert bool(grafted.score([0, 1]).isfinite().all())


@pytest.mark.parametrize("seed", range(10))
def test_random_factors_are_refused(split: al.Split, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with pytest.raises(al.AleatorError, match=REFUSED):
        al.graft((rng.normal(size=(200, 8)), rng.normal(size=(80, 8)))).fit(split)


def test_one_may_go_on(split: al.Split, factors: Any) -> None:
    x, y = factors
    rolled = al.graft((np.roll(x, 7, 0), y), check=False).fit(split)
    assert rolled.score([0]).shape == (1, 80)


def test_scores_that_are_the_same_for_everybody_pass(split: al.Split) -> None:
    popularity = split.train.popularity.astype(np.float32)
    made = al.graft(lambda users: np.tile(popularity, (len(users), 1))).fit(split)
    assert made.recommend([0], k=3)["item_id"].len() == 3
