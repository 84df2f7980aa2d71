"""Expectations that a test makes up."""

from __future__ import annotations

from torch import Tensor

from aleator.batches import Users


class Fixed:
    """Expectations that are given: r [n_users, n_items]."""

    def __init__(self, r: Tensor) -> None:
        self.r = r

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        rows = self.r[users.index]
        return rows if items is None else rows[:, items]

    def score_pairs(self, users: Users) -> Tensor:
        return self.r[users.index[users.row], users.item]
