"""ZeroSum: both regularisers as their paper writes them, and what they are for."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.batches import Users
from aleator.data.interactions import Interactions
from aleator.models.factors import FactorTable
from aleator.models.zerosum import another_of_the_user, cost
from aleator.training.negatives import unobserved

from .literal import same_gradients
from .literal_triples import N_ITEMS, N_USERS, norms, random_tables, tiny_world, triples

Regulariser = Literal["zero_sum", "pos2neg2"]


def ready(**options: Any) -> al.ZeroSum:
    """With random factors in float64."""
    model = al.ZeroSum(dim=3, **options)
    model.data = tiny_world()
    model.table = FactorTable(*random_tables((N_USERS, 3), (N_ITEMS, 3)))
    return model


def literal(model: al.ZeroSum, users: Users, seed: int) -> Tensor:
    """Rhee, Cho and Suh (2022), equations 6 and 7, blended with the loss of BPR."""
    x, y, total = model.table.users, model.table.items, torch.zeros((), dtype=torch.float64)
    draw = torch.Generator().manual_seed(seed)
    unobserved(users, N_ITEMS, model.draws, draw)  # what is drawn before
    another = another_of_the_user(users, draw).tolist() if model.regulariser == "pos2neg2" else []
    drawn = list(triples(users, model.draws, seed))

    def r(user: int, item: int) -> Tensor:
        return (x[user] * y[item]).sum()

    for place, (u, p, n, weight) in enumerate(drawn):
        loss = -(1 - model.evenness) * torch.log(1 / (1 + torch.exp(r(u, n) - r(u, p))))
        if model.regulariser == "zero_sum":
            term = torch.log(1 - torch.tanh((r(u, p) + r(u, n)).abs()))
        else:
            pair, which = divmod(place, model.draws)
            _, other_p, other_n, _ = drawn[another[pair] * model.draws + which]
            term = torch.log(1 - torch.tanh((r(u, p) - r(u, other_p)).abs()))
            term = term + torch.log(1 - torch.tanh((r(u, n) - r(u, other_n)).abs()))
        total = total + weight * (loss - model.evenness * term + model.l2 * norms(x, y, u, p, n))
    return total


@pytest.mark.parametrize("regulariser", ["zero_sum", "pos2neg2"])
def test_the_loss_equals_the_literal_one_in_value_and_gradient(regulariser: Regulariser) -> None:
    model = ready(l2=0.07, draws=2, evenness=0.3, regulariser=regulariser)
    users = model.histories.batch(torch.tensor([4, 1, 2, 0]))
    fast = model.loss(users, torch.Generator().manual_seed(7))
    same_gradients(fast, literal(model, users, 7), [model.table.users, model.table.items])


def test_without_evenness_it_is_bpr() -> None:
    data = tiny_world()
    mine, plain = al.ZeroSum(evenness=0.0, dim=3, max_epochs=3), al.BPR(dim=3, max_epochs=3)
    mine.fit_pairs(data)
    plain.fit_pairs(data)
    assert torch.equal(mine.table.users, plain.table.users)


def test_large_differences_stay_finite() -> None:
    large = torch.tensor([0.0, -300.0, 300.0], requires_grad=True)
    value = cost(large)
    torch.testing.assert_close(value.detach(), torch.tensor([0.0, 599.3069, 599.3069]))
    value.sum().backward()  # type: ignore[no-untyped-call]
    assert large.grad is not None
    assert large.grad.tolist() == [0.0, -2.0, 2.0]


def test_another_pair_is_of_the_same_user_and_not_the_same_where_there_are_two() -> None:
    data = tiny_world()
    model = al.BPR()
    model.data = data
    users = model.histories.batch(torch.tensor([2, 1, 0]))
    size = users.size[users.row]
    drawn = torch.stack([another_of_the_user(users, torch.Generator().manual_seed(s)) for s in range(200)])
    assert bool((users.row[drawn] == users.row).all())
    assert bool(((drawn != torch.arange(len(size))) == (size > 1)).all())
    assert torch.unique(drawn[:, 0]).tolist() == list(range(1, 9))  # of nine pairs all others come up


@pytest.mark.parametrize("regulariser", ["zero_sum", "pos2neg2"])
def test_scores_of_observed_items_depend_less_on_popularity(regulariser: Regulariser) -> None:
    """The synthetic world of the paper: user u takes the items up to n - u, so that item 0 is the most popular."""
    n = 30
    data = Interactions.of(*np.nonzero(np.add.outer(np.arange(n), np.arange(n)) < n))
    spread = []
    for evenness in (0.0, 0.3):
        model = al.ZeroSum(
            dim=8, lr=0.05, l2=0.0, max_epochs=30, evenness=evenness, regulariser=regulariser, calibrate="none"
        )
        model.fit_pairs(data)
        with torch.no_grad():
            users = model.histories.batch(torch.arange(n // 2))
            raw = model.raw_pairs(users)
        mean = torch.zeros(n // 2).index_add_(0, users.row, raw) / users.size
        spread.append(float((raw - mean[users.row]).std() / mean.mean()))
    assert spread[1] < 0.6 * spread[0]


@pytest.mark.parametrize("evenness", [-0.1, 1.0])
def test_bad_options_are_refused(evenness: float) -> None:
    with pytest.raises(al.AleatorError, match="evenness"):
        al.ZeroSum(evenness=evenness)
