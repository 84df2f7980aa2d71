"""Scores of listed items, with factors and without."""

from __future__ import annotations

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.ranking.listed import listed


def test_factors_and_blocks_give_the_scores_of_each_users_own_items() -> None:
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(4, 6, generator=draw), torch.randn(9, 6, generator=draw)
    users = Histories.of_lists([[1]] * 4, 9, torch.device("cpu")).batch(torch.arange(4))
    items = torch.tensor([[3, 8, 0], [1, 1, -1], [8, 7, 6], [-1, -1, -1]])
    asked: list[int] = []

    def score(users: Users, items: Tensor | None) -> Tensor:
        assert items is not None
        asked.append(len(items))
        return x @ y[items].T

    wanted = (x @ y.T).gather(1, items.clamp_min(0))
    for factors in ((x, y), None):
        found = listed(score, factors, users, items)
        torch.testing.assert_close(found[items >= 0], wanted[items >= 0])
    assert asked == [6]  # each listed item once, and only without factors
