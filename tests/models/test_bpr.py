"""BPR: the pairwise loss, triple by triple, and what it leads to."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.batches import Users
from aleator.data.simulate import simulate
from aleator.models.factors import FactorTable

from .literal import same_gradients
from .literal_triples import N_ITEMS, N_USERS, norms, random_tables, tiny_world, triples


def ready(**options: Any) -> al.BPR:
    """With random factors in float64."""
    model = al.BPR(dim=3, **options)
    model.data = tiny_world()
    model.table = FactorTable(*random_tables((N_USERS, 3), (N_ITEMS, 3)))
    return model


def literal(model: al.BPR, users: Users, seed: int) -> Tensor:
    """Rendle et al. (2009): -ln sigmoid(x_uij) + lambda |theta|^2 of each triple."""
    x, y, total = model.table.users, model.table.items, torch.zeros((), dtype=torch.float64)
    for u, i, j, weight in triples(users, model.draws, seed):
        x_uij = (x[u] * y[i]).sum() - (x[u] * y[j]).sum()
        total = total + weight * (-torch.log(1 / (1 + torch.exp(-x_uij))) + model.l2 * norms(x, y, u, i, j))
    return total


@pytest.mark.parametrize("draws", [1, 3])
def test_the_loss_equals_the_literal_one_in_value_and_gradient(draws: int) -> None:
    model = ready(l2=0.07, draws=draws)
    users = model.histories.batch(torch.tensor([4, 1, 2, 0]))
    fast = model.loss(users, torch.Generator().manual_seed(7))
    same_gradients(fast, literal(model, users, 7), [model.table.users, model.table.items])


def test_more_draws_estimate_the_same_loss_with_less_noise() -> None:
    spreads, means = [], []
    for draws in (1, 16):
        model, draw = ready(draws=draws), torch.Generator().manual_seed(0)
        users = model.histories.batch(torch.arange(N_USERS))
        with torch.no_grad():
            losses = torch.stack([model.loss(users, draw) for _ in range(400)])
        spreads.append(float(losses.std()))
        means.append(float(losses.mean()))
    assert abs(means[0] - means[1]) < 5 * spreads[0] / 20
    assert spreads[1] == pytest.approx(spreads[0] / 4, rel=0.2)


def test_observed_items_rise_above_unobserved_ones() -> None:
    data = simulate(n_users=40, n_items=30, per_user=8, seed=1).interactions
    model = al.BPR(dim=16, lr=0.05, max_epochs=20, l2=0.0)
    model.fit_pairs(data)
    scores, seen = model.score(list(range(40))), torch.from_numpy(data.csr.toarray() > 0)
    right = [(s[o][:, None] > s[~o]).float().mean() for s, o in zip(scores, seen, strict=True) if o.any()]
    assert torch.stack(right).mean() > 0.95


def test_a_stronger_l2_makes_smaller_factors() -> None:
    sizes = []
    for l2 in (0.0, 1.0):
        model = al.BPR(dim=4, lr=0.02, l2=l2, max_epochs=20, calibrate="none")
        model.fit_pairs(tiny_world())
        sizes.append(float(model.table.items.norm()))
    assert sizes[1] < 0.5 * sizes[0]


@pytest.mark.parametrize("options", [{"draws": 0}, {"l2": -1.0}, {"l2": math.nan}])
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(al.AleatorError, match=next(iter(options))):
        al.BPR(**options)
