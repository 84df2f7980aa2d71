"""Newcomers: users are held out whole, and figures are those of lists made by hand."""

from __future__ import annotations

import numpy as np
import pytest

import aleator as al
from aleator.studies.beyond import newcomers
from aleator.studies.methods import Method
from aleator.studies.workbench import Workbench


@pytest.fixture(scope="module")
def long() -> al.Split:
    data = al.simulate(n_users=150, n_items=80, per_user=200, skew=0.5, seed=1).interactions
    return data.split(valid=0.1, test=0.2, seed=0)


def test_newcomers_are_not_trained_on_and_have_items_to_be_found(long: al.Split) -> None:
    users = newcomers.drawn(long, 0)
    size = np.diff(long.everything.csr.indptr)
    assert len(users) == np.ceil(0.1 * (size > 10).sum())
    assert (size[users] > 10).all()
    assert newcomers.drawn(long, 1).tolist() != users.tolist()
    rest = newcomers.without(long, users)
    assert not np.isin(rest.everything.user, users).any()
    assert len(rest.everything) == len(long.everything) - size[users].sum()
    for user, items in zip(users, newcomers.orders(long, users, 0), strict=True):
        assert sorted(items) == sorted(long.everything.item[long.everything.user == user])


def test_figures_are_those_of_lists_by_recommend(long: al.Split) -> None:
    users = newcomers.drawn(long, 0)
    system = al.EASE().fit(newcomers.without(long, users))
    items = newcomers.orders(long, users, 0)
    recalls, gains = [], []
    for own in items:
        given, rest = long.train.items.decode(own[:2]).tolist(), set(long.train.items.decode(own[2:]).tolist())
        listed = system.recommend({"new": given}, k=20, untrained=True)["item_id"].to_list()
        hits = np.array([item in rest for item in listed])
        recalls.append(hits.sum() / len(rest))
        discount = 1 / np.log2(np.arange(20) + 2)
        gains.append((hits * discount).sum() / discount[: len(rest)].sum())
    found = newcomers.accuracy_given(system, items, 2)
    assert found["recall@20"] == pytest.approx(np.mean(recalls))
    assert found["ndcg@20"] == pytest.approx(np.mean(gains))


def test_a_cell_has_figures_for_each_length(long: al.Split) -> None:
    bench = Workbench("tiny", long, quick=True, device="cpu", plain=True)
    row = newcomers.measure(bench, Method("Popularity"))
    assert list(row["metrics"]) == ["1 given", "2 given", "5 given", "10 given"]
    assert row["users"] == len(newcomers.drawn(long, 0))
