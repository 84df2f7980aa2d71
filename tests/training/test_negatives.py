"""Negatives: every unobserved item of a user is as likely as the next, and no observed one is ever drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aleator.batches import Histories, Users
from aleator.data.interactions import Interactions
from aleator.kernels.ragged import pair_products
from aleator.training.negatives import unobserved, whole_below

LISTS = [[0, 1, 4], [6], [0, 1, 2, 3, 4, 5, 6], [2, 3, 5, 6], []]


@pytest.fixture
def users() -> Users:
    return Histories.of_lists(LISTS, 7, torch.device("cpu")).batch(torch.tensor([3, 0, 2, 1]))


def test_each_pair_gets_its_draws_beside_each_other(users: Users) -> None:
    others = unobserved(users, 7, 3, torch.Generator().manual_seed(0))
    assert torch.equal(others.row, users.row.repeat_interleave(3))
    assert torch.equal(others.size, users.size * 3)
    assert torch.equal(others.index, users.index)
    assert len(others.item) == len(others.weight) == 3 * len(users.item)


def test_unobserved_items_are_equally_likely_and_observed_ones_never_drawn(users: Users) -> None:
    draws = 20_000
    others = unobserved(users, 7, draws, torch.Generator().manual_seed(0))
    for place, history in enumerate(([2, 3, 5, 6], [0, 1, 4], None, [6])):
        if history is None:
            continue  # observed everything: see below
        mine = others.item[others.row == place]
        share = np.bincount(mine.numpy(), minlength=7) / len(mine)
        left = [i for i in range(7) if i not in history]
        assert share[history].sum() == 0
        np.testing.assert_allclose(share[left], 1 / len(left), atol=5 * (0.25 / len(mine)) ** 0.5)


def test_a_pair_hands_its_weight_to_its_draws_unless_its_user_observed_everything() -> None:
    data = Interactions.of([0, 0, 1, 1, 1], [0, 2, 0, 1, 2], weight=[3.0, 0.5, 1.0, 1.0, 1.0])
    users = Histories(data.csr, torch.device("cpu")).batch(torch.tensor([0, 1]))
    others = unobserved(users, 3, 2, torch.Generator().manual_seed(0))
    assert others.weight.tolist() == [1.5, 1.5, 0.25, 0.25] + [0.0] * 6
    assert others.item[:4].tolist() == [1] * 4
    assert 0 <= int(others.item.min()) <= int(others.item.max()) < 3


def test_there_may_be_more_draws_than_pairs_of_users_and_items(users: Users) -> None:
    others = unobserved(users, 7, 10, torch.Generator().manual_seed(0))
    assert len(others.item) > len(users) * 7
    p, q = torch.randn(len(users), 3), torch.randn(7, 3)
    torch.testing.assert_close(pair_products(p, q, others), (p @ q.T)[others.row, others.item])


def test_whole_numbers_stay_below_their_bounds(users: Users) -> None:
    bound = torch.tensor([1, 2, 5, 0, -3]).repeat(len(users.item), 100)
    drawn = whole_below(bound, users, torch.Generator().manual_seed(0)).view(-1, 5)
    assert drawn.amin(0).tolist() == [0] * 5
    assert drawn.amax(0).tolist() == [0, 1, 4, 0, 0]
