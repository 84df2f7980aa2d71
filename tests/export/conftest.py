"""A small world with titles, an item that nobody took and a user without a history; with text ids and with numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aleator as al
from aleator.data.simulate import simulate
from aleator.recommender import Recommender

UNTRAINED = 15  # so the row number of a later item in an export is not its dense id


@pytest.fixture(scope="session", params=["text", "number"])
def data(request: pytest.FixtureRequest) -> al.Interactions:
    made = simulate(n_users=60, n_items=40, per_user=120, skew=0.5, seed=4).interactions
    everyone = np.arange(60)  # so that each item has a user
    user, item = np.r_[made.user, everyone, 60], np.r_[made.item, everyone % 40, 0]
    item[item == UNTRAINED] = 16
    item[-1] = UNTRAINED
    number = request.param == "number"
    users = user if number else [f"u{place}" for place in user.tolist()]
    items = item * 7 + 3 if number else [f"é {place:02}" for place in item.tolist()]
    whole = al.Interactions.of(users, items)
    whole = whole.with_titles({name: f"Title of {name}" for name in whole.items.ids.tolist()})
    return whole.take(np.arange(len(whole)) < len(whole) - 1)


def aur_on(model: Any) -> al.AUR:
    """An AUR whose knobs are all given."""
    small = al.FactorEstimator(dim=4, max_epochs=2)
    knobs: dict[str, Any] = {"lam": 0.5, "discount": 0.3, "prior": 1.0}
    return al.AUR(model, estimator=small, residuals="in-sample", unobserved="constant", **knobs)


@pytest.fixture(scope="session")
def aur(data: al.Interactions) -> al.AUR:
    """Fitted on `data`; tests must not change it."""
    return aur_on(al.MF(dim=6, l2=0.003)).fit(data)


def taken(model: Recommender, user: Any) -> list[Any]:
    """The history of a user, as external ids."""
    (row,) = model.fitted.users.encode([user])
    found: list[Any] = model.fitted.items.decode(model.fitted.csr[row].indices).tolist()
    return found
