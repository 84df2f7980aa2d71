"""Popularity: the share of the users who took an item, the same for everybody."""

from __future__ import annotations

import numpy as np
import pytest

import aleator as al
from aleator.data.interactions import Interactions
from aleator.data.simulate import simulate


def test_popularity_is_the_share_of_users_whatever_the_weights() -> None:
    data = simulate(n_users=200, n_items=90, per_user=30, skew=0.8, seed=3).interactions
    weighted = Interactions.of(data.user, data.item, weight=np.full(len(data), 3.0), users=data.users, items=data.items)
    for given in (data, weighted):
        scores = al.Popularity().fit(given).score([0, 5])
        for item in (0, 40, 89):
            share = len({int(u) for u in data.user[data.item == item]}) / data.n_users
            assert scores[:, item].tolist() == pytest.approx([share, share])
