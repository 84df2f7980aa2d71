"""ExpoMF: EM over a latent exposure."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.batches import Histories
from aleator.data.interactions import Interactions
from aleator.data.simulate import simulate
from aleator.device import BUDGETS
from aleator.models.expomf import EM, descend
from aleator.models.factors import FactorTable


@pytest.fixture(scope="module")
def larger() -> al.Split:
    return simulate(n_users=300, n_items=120, per_user=60, seed=2).interactions.split(seed=0)


def started(**options: Any) -> al.ExpoMF:
    """6 users, 9 items, weights, and random factors and exposures in float64."""
    rng = np.random.default_rng(0)
    taken = rng.random((6, 9)) < 0.3
    taken[np.arange(9) % 6, np.arange(9)] = True
    made = al.ExpoMF(**{"dim": 3, "precision": 2.5, "l2": 0.4, "exposure": 0.3, "prior_weight": 0.5, **options})
    made.data = Interactions.of(*np.nonzero(taken), weight=rng.choice([0.5, 1.0, 2.0], int(taken.sum())))
    draw = torch.Generator().manual_seed(0)
    made.table = FactorTable(*(0.7 * torch.randn(n, 3, generator=draw, dtype=torch.float64) for n in (6, 9)))
    made.item_exposure = torch.rand(9, generator=draw, dtype=torch.float64).clamp(0.1, 0.9)
    return made


def em_of(model: al.ExpoMF) -> EM:
    return EM(model, Histories(model.fitted.csr.T.tocsr(), torch.device("cpu")))


def normal_density(value: float, mean: float, precision: float) -> float:
    return math.sqrt(precision / (2 * math.pi)) * math.exp(-0.5 * precision * (value - mean) ** 2)


def literal_exposure(model: al.ExpoMF) -> np.ndarray:
    """E-step, pair by pair: 1 if observed, else mu N(0 | r) / (mu N(0 | r) + 1 - mu)."""
    x, y, observed = model.table.users.numpy(), model.table.items.numpy(), model.fitted.csr.toarray() > 0
    p = np.ones((6, 9))
    for user in range(6):
        for item in range(9):
            if not observed[user, item]:
                mu = float(model.item_exposure[item])
                seen = mu * normal_density(0, float(x[user] @ y[item]), model.precision)
                p[user, item] = seen / (seen + 1 - mu)
    return p


def literal_ridge(model: al.ExpoMF, p: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """M-step of the rows of p [rows, n]: (lambda sum p y y' + l2)^-1 lambda sum p Y y, row by row."""
    solved = []
    for exposure, observed in zip(p, weight, strict=True):
        normal, right = model.l2 * np.eye(3), np.zeros(3)
        for item, factors in enumerate(y):
            w = observed[item] if observed[item] > 0 else exposure[item]  # a pair's weight multiplies that of the pair
            normal += model.precision * w * np.outer(factors, factors)
            right += model.precision * w * (observed[item] > 0) * factors
        solved.append(np.linalg.solve(normal, right))
    return np.array(solved)


def literal_posterior(model: al.ExpoMF) -> float:
    """-log of the posterior, pair by pair, with the exposure summed out."""
    x, y, weight = model.table.users.numpy(), model.table.items.numpy(), model.fitted.csr.toarray().astype(float)
    total = 0.5 * model.l2 * float((x**2).sum() + (y**2).sum())
    a, b = (1 + model.prior_weight * 6 * part for part in (model.exposure, 1 - model.exposure))
    for item in range(9):
        mu = float(model.item_exposure[item])
        total -= (a - 1) * math.log(mu) + (b - 1) * math.log(1 - mu)
        for user in range(6):
            r, w = float(x[user] @ y[item]), weight[user, item]
            if w > 0:
                total -= math.log(mu) + 0.5 * math.log(model.precision / (2 * math.pi))
                total += 0.5 * model.precision * w * (1 - r) ** 2
            else:
                total -= math.log(mu * normal_density(0, r, model.precision) + 1 - mu)
    return total


def test_the_loss_is_the_log_posterior() -> None:
    model = started()
    users = model.histories.batch(torch.arange(6))
    assert float(model.loss(users, torch.Generator())) == pytest.approx(literal_posterior(model), rel=1e-9)


@pytest.mark.parametrize("cells", [1, 20, 1 << 20])
def test_e_and_m_steps_equal_the_literal_ones(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many steps of conjugate gradients as dimensions solve exactly."""
    monkeypatch.setitem(BUDGETS, "cpu", replace(BUDGETS["cpu"], expomf_pairs=cells))
    model = started()
    p, weight = literal_exposure(model), model.fitted.csr.toarray().astype(float)
    users = literal_ridge(model, p, model.table.items.numpy(), weight)
    items = literal_ridge(model, p.T, model.table.users.numpy(), weight.T)
    odds, by_item = model.log_odds(), em_of(model).by_item
    x, y = model.table.users.clone(), model.table.items.clone()
    seen = model.improve(x, model.table.items, model.histories, odds, 3)
    np.testing.assert_allclose(seen.numpy(), p.sum(1), rtol=1e-9)
    np.testing.assert_allclose(x.numpy(), users, rtol=1e-6, atol=1e-9)
    seen = model.improve(y, model.table.users, by_item, odds[:, None], 3)
    np.testing.assert_allclose(seen.numpy(), p.sum(0), rtol=1e-9)
    np.testing.assert_allclose(y.numpy(), items, rtol=1e-6, atol=1e-9)


def test_an_iteration_updates_the_exposure_of_the_items_by_its_beta_prior() -> None:
    model = started()
    a, b = (1 + 0.5 * 6 * part for part in (0.3, 0.7))
    expected = (a + literal_exposure(model).sum(0) - 1) / (a + b + 6 - 2)
    em_of(model).step()
    np.testing.assert_allclose(model.item_exposure.numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"precision": 20.0, "l2": 0.01}, {"prior_weight": 0.0, "precision": 0.3}])
def test_no_iteration_lowers_the_posterior(options: dict[str, Any]) -> None:
    model = started(**options)
    em, values = em_of(model), [literal_posterior(started(**options))]
    for _ in range(15):
        em.step()
        values.append(literal_posterior(model))
    assert all(later <= before + 1e-9 for before, later in itertools.pairwise(values))
    assert values[-1] < values[0] - 0.5


def test_descending_solves_each_row_and_stays_at_a_solution() -> None:
    draw = torch.Generator().manual_seed(0)
    y = torch.randn(20, 5, generator=draw, dtype=torch.float64)
    weight = torch.rand(4, 20, generator=draw, dtype=torch.float64)
    target = torch.randn(4, 5, generator=draw, dtype=torch.float64)
    target[3] = 0  # solved by nothing
    normal = torch.einsum("bn,nd,ne->bde", weight, y, y) + 0.1 * torch.eye(5)
    solution = torch.linalg.solve(normal, target)
    found = descend(torch.zeros(4, 5, dtype=torch.float64), y, weight, target, 0.1, 5)
    torch.testing.assert_close(found, solution, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(descend(found, y, weight, target, 0.1, 8), solution, rtol=1e-6, atol=1e-9)


def test_an_unobserved_pair_that_looks_liked_is_less_likely_to_have_been_seen() -> None:
    """Or else the user would have taken it: such zeros weigh less, and popular items' weigh more."""
    rng = np.random.default_rng(0)
    liked = np.add.outer(np.arange(40), np.arange(20)) % 2 == 0
    shown = rng.random((40, 20)) < np.where(np.arange(20) < 10, 0.8, 0.3)
    model = al.ExpoMF(dim=3, l2=0.5)
    model.fit_pairs(Interactions.of(*np.nonzero(liked & shown)), epochs=10)
    r = (model.table.users @ model.table.items.T).numpy()
    assert r[liked & ~shown].mean() > r[~liked].mean() + 0.3
    exposure = model.item_exposure.numpy()
    assert exposure[:10].min() > exposure[10:].max()


def test_the_best_iteration_is_kept_and_then_fitted_on_all(larger: al.Split) -> None:
    model = al.ExpoMF(dim=8, l2=1.0, max_epochs=12, patience=3).fit(larger)
    assert model.log is not None
    metrics = [row["metric"] for row in model.log.rows]
    assert metrics[model.log.best_epoch - 1] == max(metrics)
    assert len(model.fitted) == len(larger.everything) > len(larger.train)
    again = al.ExpoMF(dim=8, l2=1.0)
    again.fit_pairs(larger.everything, epochs=model.log.best_epoch)
    assert torch.equal(again.score([0, 1]), model.score([0, 1]))


@pytest.mark.parametrize(("calibrate", "alike"), [("none", 0.99), ("linear", 0.9)])
def test_a_history_is_enough_to_get_about_a_users_own_scores(larger: al.Split, calibrate: Any, alike: float) -> None:
    data = larger.everything
    model = al.ExpoMF(dim=8, l2=5.0, calibrate=calibrate)
    model.fit_pairs(data, epochs=30)
    names = {user: data.item[data.user == user].tolist() for user in range(40)}
    both = torch.stack([model.score(list(names)).flatten(), model.score(names).flatten()])
    assert float(torch.corrcoef(both)[0, 1]) > alike


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"precision": 0.0}, "not positive"),
        ({"exposure": 1.0}, "exposure is 1.0"),
        ({"prior_weight": -1.0}, "weight is"),
    ],
)
def test_options_out_of_range_are_told(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(al.AleatorError, match=wrong):
        al.ExpoMF(**options)
