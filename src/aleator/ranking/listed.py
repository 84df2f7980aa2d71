"""Scores of the few items that are listed for each user."""

from __future__ import annotations

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.kernels.ragged import row_products
from aleator.ranking.top import Score


def listed(score: Score, factors: tuple[Tensor, Tensor] | None, users: Users, items: Tensor) -> Tensor:
    """Scores of each user's own items, [B, k]. `items` are dense ids [B, k]; where they are -1 the score means nothing.

    `factors` [B, dim] and [n_items, dim] are those whose inner products are the scores, if there are any. Without them,
    all items that are listed for anyone are scored for everyone.
    """
    shown = items.clamp_min(0)
    if factors is None:
        distinct, place = torch.unique(shown, return_inverse=True)
        return score(users, distinct).gather(1, place)
    row = torch.arange(len(users), device=items.device).repeat_interleave(items.shape[1])
    x, y = factors
    return row_products(x, row, y, shown.flatten()).view(items.shape)
