"""What a loss over drawn items sees, triple by triple: for BPR and the models that draw as it does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from aleator.batches import Users
from aleator.data.interactions import Interactions
from aleator.training.negatives import unobserved

N_USERS, N_ITEMS = 6, 9


def tiny_world() -> Interactions:
    """6 users and 9 items, with weights; user 1 has one item and user 2 all of them."""
    rng = np.random.default_rng(0)
    taken = rng.random((N_USERS, N_ITEMS)) < 0.3
    taken[np.arange(9) % 6, np.arange(9)] = True
    taken[1], taken[2] = np.arange(9) == 4, True
    return Interactions.of(*np.nonzero(taken), weight=rng.choice([0.5, 1.0, 2.0], int(taken.sum())))


def random_tables(*shapes: tuple[int, ...]) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_() for shape in shapes]


def triples(users: Users, draws: int, seed: int) -> Iterator[tuple[int, int, int, float]]:
    """(u, i, j, weight) of all that is drawn with this seed."""
    others = unobserved(users, N_ITEMS, draws, torch.Generator().manual_seed(seed))
    for place, (j, weight) in enumerate(zip(others.item.tolist(), others.weight.tolist(), strict=True)):
        pair = place // draws
        yield int(users.index[users.row[pair]]), int(users.item[pair]), j, weight


def norms(x: Tensor, y: Tensor, user: int, *items: int) -> Tensor:
    """|x_u|^2 and the |y|^2 of the items."""
    return sum((y[i].square().sum() for i in items), x[user].square().sum())
