"""Metrics on held-out pairs against a count by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from aleator.batches import Users
from aleator.data.interactions import Interactions
from aleator.data.vocabulary import Vocabulary
from aleator.device import BUDGETS
from aleator.evaluation import held_out
from aleator.evaluation.held_out import HeldOut, Measured

CPU = torch.device("cpu")
N_USERS, N_ITEMS = 20, 15
Matrix = np.ndarray[Any, Any]


def pairs(mask: Matrix) -> Interactions:
    user, item = (side.astype(np.int32) for side in np.nonzero(mask))
    return Interactions(user, item, Vocabulary(np.arange(N_USERS)), Vocabulary(np.arange(N_ITEMS)))


@pytest.fixture
def masks() -> tuple[Matrix, Matrix, Matrix]:
    rng = np.random.default_rng(0)
    fitted = rng.random((N_USERS, N_ITEMS)) < 0.3
    held = (rng.random((N_USERS, N_ITEMS)) < 0.2) & ~fitted
    held[3] = False
    tail = rng.random(N_ITEMS) < 0.5
    held[4] = ~tail & ~fitted[4]  # a user without a held-out tail item
    return fitted, held, tail


def by_hand(scores: Matrix, fitted: Matrix, held: Matrix, tail: Matrix, k: int, tail_k: int) -> list[Matrix]:
    """Recall and NDCG at k and the recall of tail items at tail_k, of each user with held-out pairs."""
    overall, gains, of_tail = [], [], []
    for user in np.flatnonzero(held.any(1)):
        order = sorted(np.flatnonzero(~fitted[user]), key=lambda i: (-scores[user, i], i))
        wanted = set(np.flatnonzero(held[user]))
        wanted_tail = {i for i in wanted if tail[i]}
        overall.append(len(wanted & set(order[:k])) / len(wanted))
        gain = sum(1 / math.log2(place + 2) for place, item in enumerate(order[:k]) if item in wanted)
        gains.append(gain / sum(1 / math.log2(place + 2) for place in range(min(len(wanted), k))))
        of_tail.append(len(wanted_tail & set(order[:tail_k])) / len(wanted_tail) if wanted_tail else math.nan)
    return [np.array(column) for column in (overall, gains, of_tail)]


def assert_equal(found: Measured, scores: list[Matrix], masks: tuple[Matrix, Matrix, Matrix]) -> None:
    """Against the count by hand, at the cut-offs of the module."""
    for place, of_scoring in enumerate(scores):
        expected = by_hand(of_scoring, *masks, held_out.K, held_out.TAIL_K)
        for mine, theirs in zip((found.recall, found.ndcg, found.tail), expected, strict=True):
            assert mine.shape == (len(scores), len(theirs))
            np.testing.assert_allclose(mine[place], theirs, rtol=1e-9)


@pytest.fixture(params=[(3, 5), (5, 3), (20, 50)], ids=str)
def cuts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Other cut-offs, which few items can reach."""
    k, tail_k = request.param
    monkeypatch.setattr(held_out, "K", k)
    monkeypatch.setattr(held_out, "TAIL_K", tail_k)
    return k, tail_k


@pytest.fixture(params=[None, 24 * N_ITEMS * 3], ids=["one block", "many blocks"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param is not None:
        monkeypatch.setitem(BUDGETS, "cpu", replace(BUDGETS["cpu"], score_bytes=request.param))


@pytest.mark.usefixtures("cuts", "memory")
def test_the_metrics_of_each_scoring_equal_a_count_by_hand(masks: tuple[Matrix, Matrix, Matrix]) -> None:
    fitted, held, tail = masks
    rng = np.random.default_rng(1)
    scores = [rng.normal(size=held.shape), rng.integers(0, 2, held.shape).astype(float), np.zeros(held.shape)]

    def scorings(users: Users) -> Iterator[torch.Tensor]:
        return (torch.from_numpy(s)[users.index] for s in scores)

    check = HeldOut(pairs(fitted), pairs(held), CPU, tail=torch.from_numpy(tail))
    found = check.measure(scorings)
    assert_equal(found, scores, masks)
    assert torch.isnan(found.tail[:, check.who.tolist().index(4)]).all()  # user 4 has no held-out tail item
    some = found[torch.tensor([2, 0])]
    assert torch.equal(some.recall, found.recall[[2, 0]])
    assert torch.equal(some.ndcg, found.ndcg[[2, 0]])


@pytest.mark.usefixtures("cuts", "memory")
def test_the_metrics_of_blends_equal_a_count_by_hand(masks: tuple[Matrix, Matrix, Matrix]) -> None:
    fitted, held, tail = masks
    rng = np.random.default_rng(2)
    one: Matrix = rng.normal(size=(N_USERS, N_ITEMS))
    other: Matrix = rng.normal(size=(N_USERS, N_ITEMS))
    lams = [0.0, 0.1, 0.25, 0.5, 0.8, 1.0]

    def parts(users: Users) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.from_numpy(one)[users.index], torch.from_numpy(other)[users.index]

    check = HeldOut(pairs(fitted), pairs(held), CPU, tail=torch.from_numpy(tail))
    blends = [lam * one + (1 - lam) * other for lam in lams]
    less = np.maximum(fitted.sum(0), 1) ** -0.3
    found = check.measure_blends(parts, [(0.3, lams), (0.0, lams)])
    assert_equal(found, [blend * less for blend in blends] + blends, masks)


def test_newcomers_have_a_part_of_each_history_and_the_rest_is_no_candidate(
    masks: tuple[Matrix, Matrix, Matrix],
) -> None:
    fitted, held, _ = masks
    whole, sizes = HeldOut(pairs(fitted), pairs(held), CPU), (1, 3)
    seen: list[Users] = []

    def scorings(users: Users) -> list[torch.Tensor]:
        seen.append(users)
        return [torch.ones((len(users), N_ITEMS))]

    flat = whole.measure(lambda users: [torch.ones((len(users), N_ITEMS))])
    found = whole.cut(sizes, seed=0).measure(scorings)
    assert torch.equal(found.recall, flat.recall)  # what was cut away is hidden too
    (users,) = seen
    assert (users.index == -1).all()
    for place, user in enumerate(whole.who.tolist()):
        own = set(np.flatnonzero(fitted[user]))
        given = users.item[users.row == place].tolist()
        assert set(given) <= own
        assert len(given) == int(users.size[place]) == len(set(given))
        assert len(given) in {min(size, len(own)) for size in sizes}
    drawn = [whole.cut(sizes, seed).newcomers for seed in (0, 0, 1)]
    assert all(each is not None for each in drawn)
    items = [each.item.tolist() for each in drawn if each is not None]
    assert items[0] == items[1] != items[2]
    assert {int(n) for each in drawn[:1] if each is not None for n in each.size} >= {1, 3}


def test_without_a_tail_every_item_is_tail(
    masks: tuple[Matrix, Matrix, Matrix], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted, held, _ = masks
    monkeypatch.setattr(held_out, "K", 4)
    monkeypatch.setattr(held_out, "TAIL_K", 4)
    scores = torch.from_numpy(np.random.default_rng(1).normal(size=held.shape))
    found = HeldOut(pairs(fitted), pairs(held), CPU).measure(lambda users: [scores[users.index]])
    assert torch.equal(found.recall, found.tail)


def test_a_sample_of_the_users_is_seeded_and_only_of_those_with_held_out_pairs(
    masks: tuple[Matrix, Matrix, Matrix],
) -> None:
    fitted, held, _ = masks
    some = [HeldOut(pairs(fitted), pairs(held), CPU, most_users=6, seed=seed).who.tolist() for seed in (0, 0, 1)]
    assert some[0] == some[1] != some[2]
    assert len(set(some[0])) == 6
    assert some[0] == sorted(some[0])
    assert held[some[0]].any(1).all()
    everyone = HeldOut(pairs(fitted), pairs(held), CPU, most_users=1000)
    assert everyone.who.tolist() == np.flatnonzero(held.any(1)).tolist()
