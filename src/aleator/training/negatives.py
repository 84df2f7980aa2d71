"""Unobserved items, drawn for the observed pairs of a batch."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from aleator.batches import Users


def unobserved(users: Users, n_items: int, draws: int, generator: torch.Generator) -> Users:
    """The batch with `draws` unobserved items in place of each observed one, those of a pair side by side.

    All that a user did not observe are equally likely. Nothing is rejected: the r-th of them, in the order of their ids,
    is r + k, where k items of the history come before it. Each has its share of the weight of the pair; 0 where a user
    observed everything. Histories must ascend.
    """
    n, first = len(users.item), users.size.cumsum(0) - users.size
    missed = users.item - (torch.arange(n, device=first.device) - first[users.row])  # unobserved ones of lower id
    row = users.row.repeat_interleave(draws, output_size=n * draws)
    left = (n_items - users.size)[row]
    place = whole_below(left, generator)
    passed = torch.searchsorted(users.row * n_items + missed, row * n_items + place, right=True) - first[row]
    weight = users.weight.repeat_interleave(draws, output_size=n * draws) * (left > 0) / draws
    return replace(users, row=row, item=(place + passed).clamp_max(n_items - 1), weight=weight, size=users.size * draws)


def whole_below(bound: Tensor, generator: torch.Generator) -> Tensor:
    """For each bound a whole number from 0 up to below it, drawn evenly; 0 where the bound is not positive."""
    return torch.randint(1 << 62, bound.shape, generator=generator, device=bound.device) % bound.clamp_min(1)
