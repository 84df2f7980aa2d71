"""Unobserved items, drawn for the observed pairs of a batch."""

from __future__ import annotations

from dataclasses import replace

import torch

from aleator.training.histories import Users


def unobserved(users: Users, n_items: int, generator: torch.Generator) -> Users:
    """The batch with each observed item replaced by one that its user did not observe, all of them equally likely.

    Nothing is rejected: of the items that a user did not observe the r-th, in the order of their ids, is r + k, where k
    of the history lie below it. The weight is 0 where a user observed everything. Histories must ascend.
    """
    first = (users.size.cumsum(0) - users.size)[users.row]
    below = users.item - (torch.arange(len(users.item), device=users.item.device) - first)  # unobserved, of lower id
    left = (n_items - users.size)[users.row]
    drawn = torch.randint(1 << 62, left.shape, generator=generator, device=left.device) % left.clamp_min(1)
    start = users.row * n_items
    passed = torch.searchsorted(start + below, start + drawn, right=True) - first
    return replace(users, item=(drawn + passed).clamp_max(n_items - 1), weight=users.weight * (left > 0))
