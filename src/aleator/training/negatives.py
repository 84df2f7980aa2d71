"""Negatives: unobserved items, drawn at random for the observed pairs of a batch."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.training.draws import per_pair


def unobserved(users: Users, n_items: int, draws: int, generator: torch.Generator) -> Users:
    """The batch with `draws` negatives in place of each observed item. The negatives of a pair are side by side.

    All items that a user did not observe are equally likely. The weight of a pair is divided among its negatives. It
    becomes 0 if the user observed every item. The items of each history must ascend.

    No draw is rejected. Sort the unobserved items of a user by id and count them from 0: number m has the id m + h, where
    h items of the history have a lower id. So it is enough to draw m, and to find h by a binary search.
    """
    n = len(users.item)
    first = users.size.cumsum(0) - users.size  # [B] where each history starts
    inside = torch.arange(n, device=first.device) - first[users.row]  # [n] place of each item in its history
    below = users.item - inside  # [n] how many unobserved items have a lower id

    row = users.row.repeat_interleave(draws, output_size=n * draws)
    unseen = (n_items - users.size)[row]  # [n draws] how many items the user did not observe
    number = whole_below(unseen.view(n, draws), users, generator).flatten()
    keys = users.row * n_items + below
    history = torch.searchsorted(keys, row * n_items + number, right=True) - first[row]
    item = (number + history).clamp_max(n_items - 1)
    weight = users.weight.repeat_interleave(draws, output_size=n * draws) * (unseen > 0) / draws
    return replace(users, row=row, item=item, weight=weight, size=users.size * draws)


def whole_below(bound: Tensor, users: Users, generator: torch.Generator) -> Tensor:
    """For each bound, a random whole number from 0 to bound - 1, all equally likely. 0 if the bound is not positive.

    The bounds [n, ...] are of the pairs of the batch.
    """
    return per_pair(_whole, users, *bound.shape[1:], generator=generator) % bound.clamp_min(1)


def _whole(size: tuple[int, ...], generator: torch.Generator, device: torch.device) -> Tensor:
    return torch.randint(1 << 62, size, generator=generator, device=device)
