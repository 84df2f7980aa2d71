"""The squared error over all pairs, against a sum over users and items."""

from __future__ import annotations

from typing import Any

import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.models import squares

from .literal import same_gradients, tiny_world
from .literal import squared_error as literal_error


def batch() -> Users:
    """Three users of the tiny world, and one without a history."""
    world = tiny_world()
    matrix = sp.vstack([world.csr, sp.csr_matrix((1, 9))]).tocsr()
    return Histories(matrix, torch.device("cpu")).batch(torch.tensor([4, 0, 6, 3]))


def tables(users: Users, dim: int = 3) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    shapes = (len(users), dim), (9, dim), (len(users.item),)
    return [torch.randn(s, generator=draw, dtype=torch.float64).requires_grad_() for s in shapes]


def ratios(users: Users) -> Tensor:
    """A number for each observed pair. One of them is 0."""
    return torch.linspace(0, 2, len(users.item), dtype=torch.float64)


@pytest.mark.parametrize(("mu", "positive"), [(0.1, 1.0), (1.0, 3.0)])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dim", [3, 8])  # few and many for a batch of 4
def test_value_and_gradient_are_those_of_the_sum_over_pairs(
    mu: float, positive: float, shifted: bool, scaled: bool, dim: int
) -> None:
    users = batch()
    x, y, less = tables(users, dim)
    ratio = ratios(users)
    number = {(int(r), int(i)): n for n, (r, i) in enumerate(zip(users.row, users.item, strict=True))}

    def score(place: int, item: int, observed: bool) -> Tensor:
        r = (x[place] * y[item]).sum()
        r = r - less[number[place, item]] if observed and shifted else r
        return r * ratio[number[place, item]] if observed and scaled else r

    given: dict[str, Any] = {"less": less if shifted else None, "ratio": ratio if scaled else None}
    mine = squares.squared_error(x, y, users, mu, positive=positive, **given)
    theirs = literal_error(score, users, 9, mu, positive)
    same_gradients(2 * mine, 2 * theirs, [x, y, less] if shifted else [x, y])


def test_it_takes_a_gradient_in_one_side_alone() -> None:
    users = batch()
    x, y, _ = tables(users)
    both = torch.autograd.grad(squares.squared_error(x, y, users, 0.2), [x, y])
    assert torch.equal(torch.autograd.grad(squares.squared_error(x.detach(), y, users, 0.2), y)[0], both[1])
    assert torch.equal(torch.autograd.grad(squares.squared_error(x, y.detach(), users, 0.2), x)[0], both[0])


@pytest.mark.parametrize(("negatives", "mu"), [("each", 0.3), ("shared", 1 / 3)])
def test_drawn_negatives_give_the_same_on_average(negatives: Any, mu: float) -> None:
    users, draw = batch(), torch.Generator().manual_seed(0)
    x, y, less = (table.detach() for table in tables(users))
    options: dict[str, Any] = {"positive": 2.0, "less": less, "ratio": ratios(users)}
    drawn = {"negatives": negatives, "draw": draw} | options
    losses = torch.stack([squares.squared_error(x, y, users, mu, **drawn) for _ in range(2000)])
    error = float(losses.std()) / 2000**0.5
    assert 0 < error < 0.05 * float(losses.mean())
    assert abs(float(losses.mean() - squares.squared_error(x, y, users, mu, **options))) < 4 * error
