"""Recall on held-out pairs against a count by hand."""

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
from aleator.evaluation.held_out import HeldOut

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


def by_hand(scores: Matrix, fitted: Matrix, held: Matrix, tail: Matrix, k: int, tail_k: int) -> tuple[Matrix, Matrix]:
    overall, of_tail = [], []
    for user in np.flatnonzero(held.any(1)):
        order = sorted(np.flatnonzero(~fitted[user]), key=lambda i: (-scores[user, i], i))
        wanted = set(np.flatnonzero(held[user]))
        wanted_tail = {i for i in wanted if tail[i]}
        overall.append(len(wanted & set(order[:k])) / len(wanted))
        of_tail.append(len(wanted_tail & set(order[:tail_k])) / len(wanted_tail) if wanted_tail else math.nan)
    return np.array(overall), np.array(of_tail)


@pytest.mark.parametrize(("k", "tail_k"), [(3, 5), (5, 3), (20, 50)])
@pytest.mark.parametrize("memory", [None, 24 * N_ITEMS * 3])
def test_both_recalls_of_each_scoring_equal_a_count_by_hand(
    masks: tuple[Matrix, Matrix, Matrix],
    k: int,
    tail_k: int,
    memory: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted, held, tail = masks
    if memory is not None:
        monkeypatch.setitem(BUDGETS, "cpu", replace(BUDGETS["cpu"], score_bytes=memory))
    rng = np.random.default_rng(1)
    scores = [rng.normal(size=held.shape), rng.integers(0, 2, held.shape).astype(float), np.zeros(held.shape)]

    def scorings(users: Users) -> Iterator[torch.Tensor]:
        return (torch.from_numpy(s)[users.index] for s in scores)

    check = HeldOut(pairs(fitted), pairs(held), CPU, tail=torch.from_numpy(tail))
    overall, of_tail = check.recall(scorings, k, tail_k)
    assert overall.shape == of_tail.shape == (3, int(held.any(1).sum()))
    for place, s in enumerate(scores):
        expected = by_hand(s, fitted, held, tail, k, tail_k)
        np.testing.assert_allclose(overall[place], expected[0], rtol=1e-12)
        np.testing.assert_allclose(of_tail[place], expected[1], rtol=1e-12)


def test_without_a_tail_every_item_is_tail(masks: tuple[Matrix, Matrix, Matrix]) -> None:
    fitted, held, _ = masks
    scores = torch.from_numpy(np.random.default_rng(1).normal(size=held.shape))
    overall, of_tail = HeldOut(pairs(fitted), pairs(held), CPU).recall(lambda users: [scores[users.index]], 4, 4)
    assert torch.equal(overall, of_tail)


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
