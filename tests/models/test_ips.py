"""IPS: MF whose observed pairs weigh the inverse of their item's propensity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.batches import Histories
from aleator.data.interactions import Interactions
from aleator.data.simulate import simulate
from aleator.kernels.least_squares import leave_one_out
from aleator.models.factors import FactorTable


@pytest.fixture
def small() -> Interactions:
    """6 users and 9 items of very different popularity, with weights."""
    rng = np.random.default_rng(0)
    taken = rng.random((6, 9)) < np.linspace(0.9, 0.1, 9)
    taken[np.arange(9) % 6, np.arange(9)] = True
    return Interactions.of(*np.nonzero(taken), weight=rng.choice([0.5, 1.0, 2.0], int(taken.sum())))


def literal_weights(data: Interactions, power: float, clip: float, self_normalise: bool) -> np.ndarray:
    """1 / p_i for each item, one by one."""
    n = [int((data.item == item).sum()) for item in range(data.n_items)]
    inverse = np.array([1 / max((count / max(n)) ** power, clip) for count in n])
    if self_normalise:
        inverse = inverse / np.mean([inverse[item] for item in data.item])
    return inverse


OPTIONS: list[dict[str, Any]] = [
    {"power": 0.5, "clip": 0.0, "self_normalise": True},
    {"power": 1.0, "clip": 0.4, "self_normalise": True},
    {"power": 0.7, "clip": 0.0, "self_normalise": False},
]


def objective(model: al.IPS, options: dict[str, Any]) -> Tensor:
    """Pair by pair in float64: weight / p_i on observed pairs, mu on the others."""
    data, x, y = model.fitted, model.table.users.double(), model.table.items.double()
    inverse, weight = literal_weights(data, **options), data.csr.toarray()
    w = torch.from_numpy(weight * inverse)
    on_x, on_y = w.sum(1) + model.mu * len(y), w.sum(0) + model.mu * len(x)
    total = model.l2_used * (on_x @ x.square().sum(1) + on_y @ y.square().sum(1))
    for user in range(data.n_users):
        for item in range(data.n_items):
            r = (x[user] * y[item]).sum()
            if weight[user, item] > 0:
                total = total + weight[user, item] * inverse[item] * (r - 1) ** 2
            else:
                total = total + model.mu * r**2
    return total


@pytest.mark.parametrize("options", OPTIONS)
def test_weights_are_inverse_propensities(small: Interactions, options: dict[str, Any]) -> None:
    model = al.IPS(dim=3, **options).fit(small)
    np.testing.assert_allclose(model.inverse_propensity.numpy(), literal_weights(small, **options), rtol=1e-6)


@pytest.mark.parametrize("options", OPTIONS)
def test_adams_loss_equals_the_literal_one_in_value_and_gradient(small: Interactions, options: dict[str, Any]) -> None:
    model = al.IPS(dim=3, l2=0.07, mu=0.3, solver="adam", max_epochs=1, **options)
    model.fit_pairs(small)
    model.inverse_propensity = torch.from_numpy(literal_weights(small, **options))
    model.table = FactorTable(*(t.double() for t in (model.table.users, model.table.items)))
    tables = [model.table.users.requires_grad_(), model.table.items.requires_grad_()]
    users, reference = model.histories.batch(torch.arange(6)), objective(model, options)
    assert model.loss(users, torch.Generator()).item() == pytest.approx(reference.item(), rel=1e-9)
    for table, slope in zip(tables, torch.autograd.grad(reference, tables), strict=True):
        assert table.grad is not None
        torch.testing.assert_close(6 * table.grad, slope, rtol=1e-6, atol=1e-8)


def test_als_finds_factors_that_no_small_change_improves(small: Interactions) -> None:
    """Users are solved last, so they are at their minimum exactly; the objective is the weighted one, not MF's."""
    options = OPTIONS[0]
    model = al.IPS(dim=3, l2=0.05, mu=0.3, iterations=30, **options)
    model.fit_pairs(small)
    best = objective(model, options)
    draw = torch.Generator().manual_seed(0)
    for _ in range(5):
        kept = model.table.users.clone()
        model.table.users = kept + 0.01 * torch.randn(kept.shape, generator=draw)
        assert objective(model, options) > best
        model.table.users = kept


def test_newcomers_are_solved_for_with_the_weights_of_the_items() -> None:
    data = simulate(n_users=120, n_items=60, per_user=40, skew=1.0, seed=0).interactions
    model = al.IPS(dim=8).fit(data)
    for user in (0, 17, 63):
        history = data.item[data.user == user].tolist()
        torch.testing.assert_close(model.score({"new": history}), model.score([user]), atol=2e-4, rtol=1e-3)


def test_out_of_sample_pairs_use_the_weights(small: Interactions) -> None:
    model = al.IPS(dim=3).fit(small)
    users = model.histories.batch(torch.arange(6))
    csr = small.csr.copy()
    csr.data = (csr.data * model.inverse_propensity.numpy()[csr.indices]).astype(np.float32)
    l2 = model.l2_used * (torch.from_numpy(np.asarray(csr.sum(1)).ravel()) + model.mu * small.n_items)
    expected = leave_one_out(model.table.items, Histories(csr, torch.device("cpu")), model.mu, l2)
    found = model.out_of_sample_pairs(users)
    assert found is not None
    torch.testing.assert_close(found, expected)


def test_it_fits_rare_items_more_closely_than_mf_does() -> None:
    data = simulate(n_users=300, n_items=120, per_user=40, skew=1.0, seed=0).interactions
    rare = data.popularity <= np.quantile(data.popularity, 0.5)
    score = {}
    for name, model in (("mf", al.MF(dim=8)), ("ips", al.IPS(dim=8))):
        scores = model.fit(data).score_pairs(model.histories.batch(torch.arange(data.n_users)))
        item = model.histories.item
        score[name] = float(scores[torch.from_numpy(rare)[item]].mean())
    assert score["ips"] > score["mf"] + 0.1


@pytest.mark.parametrize(
    ("options", "wrong"), [({"power": 0.0}, "power is 0.0"), ({"clip": 1.0}, "clip is 1.0"), ({"clip": -0.1}, "clip")]
)
def test_options_out_of_range_are_told(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(al.AleatorError, match=wrong):
        al.IPS(**options)
