"""The squared error of the AUR paper, pair by pair, and a world small enough for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from aleator.batches import Users
from aleator.data.interactions import Interactions


def tiny_world() -> Interactions:
    """6 users and 9 items, with weights."""
    rng = np.random.default_rng(0)
    taken = rng.random((6, 9)) < 0.3
    taken[np.arange(9) % 6, np.arange(9)] = True
    return Interactions.of(*np.nonzero(taken), weight=rng.choice([0.5, 1.0, 2.0], int(taken.sum())))


def squared_error(
    score: Callable[[int, int, bool], Tensor], users: Users, n_items: int, mu: float, positive: float = 1.0
) -> Tensor:
    """`score` is given a place in the batch, an item, and whether the pair is observed."""
    observed = {(int(r), int(i)): float(w) for r, i, w in zip(users.row, users.item, users.weight, strict=True)}
    total = torch.zeros((), dtype=torch.float64)
    for place in range(len(users)):
        for item in range(n_items):
            weight = observed.get((place, item))
            r = score(place, item, weight is not None)
            total = total + (mu * r**2 if weight is None else positive * weight * (r - 1) ** 2)
    return total


def same_gradients(mine: Tensor, theirs: Tensor, parameters: list[Tensor], exact: float = 1e-9) -> None:
    """The two losses, and their gradients in each parameter."""
    torch.testing.assert_close(mine, theirs, rtol=exact, atol=exact)
    for a, b in zip(
        torch.autograd.grad(mine, parameters),
        torch.autograd.grad(theirs, parameters, materialize_grads=True),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=exact, atol=exact)
        assert bool((b != 0).any())


def history_of(users: Users, place: int) -> list[int]:
    items: list[int] = users.item[users.row == place].tolist()
    return items
