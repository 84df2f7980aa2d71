"""Random numbers that do not depend on how many ranks there are: each draws those of all, and takes its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.training.slices import Slice

_ROWS = 1024  # rows of a table that are drawn at a time
Draw = Callable[..., Tensor]
"""A function that draws a tensor of a size, such as torch.rand."""


def normal_rows(shape: Sequence[int], generator: torch.Generator, own: Slice, device: torch.device) -> Tensor:
    """The rows of a slice of a table of N(0, 1).

    On the CPU they are those of `torch.randn(shape)`, which draws the numbers of one block of rows after the other.
    """
    if own.whole:
        return torch.randn(tuple(shape), generator=generator, device=device)
    n, *rest = shape
    made = torch.empty((own.last - own.first, *rest), device=device)
    starts = range(0, max(n // _ROWS, 1) * _ROWS, _ROWS)
    for start, end in zip(starts, [*starts[1:], n], strict=True):
        block = torch.randn((end - start, *rest), generator=generator, device=device)
        a, b = max(start, own.first), min(end, own.last)
        if a < b:
            made[a - own.first : b - own.first] = block[a - start : b - start]
    return made


def per_user(draw: Draw, users: Users, *width: int, generator: torch.Generator) -> Tensor:
    """[B, *width] what is drawn for the users of a batch. It does not depend on how many ranks share the batch."""
    of, device = users.within, users.item.device
    if of is None:
        return draw((len(users), *width), generator=generator, device=device)
    return draw((of.n_users, *width), generator=generator, device=device)[of.users]


def per_pair(draw: Draw, users: Users, *width: int, generator: torch.Generator) -> Tensor:
    """[n, *width] the same for the pairs of a batch."""
    of, device = users.within, users.item.device
    if of is None:
        return draw((len(users.item), *width), generator=generator, device=device)
    return draw((of.n_pairs, *width), generator=generator, device=device)[of.pairs]
