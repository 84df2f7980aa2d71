"""PMF: a Gaussian around a logistic score, with Gaussian priors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.batches import Users
from aleator.data.interactions import Interactions
from aleator.data.simulate import simulate
from aleator.device import BUDGETS
from aleator.models.factors import FactorTable


@pytest.fixture(scope="module")
def larger() -> al.Split:
    return simulate(n_users=300, n_items=120, per_user=60, seed=2).interactions.split(seed=0)


@pytest.fixture
def model() -> al.PMF:
    """6 users, 9 items, weights, and random factors in float64."""
    rng = np.random.default_rng(0)
    taken = rng.random((6, 9)) < 0.3
    taken[np.arange(9) % 6, np.arange(9)] = True
    made = al.PMF(dim=3, mu=0.2, noise_variance=0.5, user_variance=2.0, item_variance=5.0)
    made.data = Interactions.of(*np.nonzero(taken), weight=rng.choice([0.5, 1.0, 2.0], int(taken.sum())))
    draw = torch.Generator().manual_seed(0)
    made.table = FactorTable(*(torch.randn(n, 3, generator=draw, dtype=torch.float64).requires_grad_() for n in (6, 9)))
    return made


def literal(model: al.PMF, users: list[int]) -> Tensor:
    """-2 noise_variance times the log-posterior, pair by pair; the items' prior by the share of the users."""
    x, y, weight = model.table.users, model.table.items, model.fitted.csr.toarray()
    total = torch.zeros((), dtype=torch.float64)
    for user in users:
        for item in range(len(y)):
            r = 1 / (1 + torch.exp(-(x[user] * y[item]).sum()))
            w = float(weight[user, item])
            total = total + (w * (1 - r) ** 2 if w > 0 else model.mu * r**2)
        total = total + model.noise_variance / model.user_variance * (x[user] ** 2).sum()
        total = total + model.noise_variance / model.item_variance * (y**2).sum() / len(x)
    return total


@pytest.mark.parametrize("cells", [1, 20, 1 << 20])
def test_the_loss_equals_the_literal_one_in_value_and_gradient(
    model: al.PMF, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGETS, "cpu", replace(BUDGETS["cpu"], pmf_scores=cells))  # one user at a time, two, or all
    chosen, tables = [4, 0, 3], [model.table.users, model.table.items]
    reference = literal(model, chosen)
    found = model.loss(model.histories.batch(torch.tensor(chosen)), torch.Generator())
    assert found.item() == pytest.approx(reference.item(), rel=1e-9)
    for table, slope in zip(tables, torch.autograd.grad(reference, tables), strict=True):
        assert table.grad is not None
        torch.testing.assert_close(3 * table.grad, slope, rtol=1e-6, atol=1e-8)


def test_batches_of_users_add_up_to_the_whole_loss(model: al.PMF) -> None:
    parts = [
        float(model.loss(model.histories.batch(torch.tensor(b)), torch.Generator())) for b in ([0, 5], [1, 2, 3, 4])
    ]
    assert sum(parts) == pytest.approx(literal(model, list(range(6))).item(), rel=1e-9)


def test_only_ratios_of_the_variances_count(larger: al.Split) -> None:
    options: dict[str, Any] = {"dim": 4, "max_epochs": 3}
    one = al.PMF(noise_variance=1.0, user_variance=4.0, item_variance=2.0, **options).fit(larger)
    other = al.PMF(noise_variance=0.5, user_variance=2.0, item_variance=1.0, **options).fit(larger)
    assert torch.equal(one.score([0, 1]), other.score([0, 1]))


def test_a_narrow_prior_keeps_the_factors_of_that_side_small(larger: al.Split) -> None:
    for side in ("user", "item"):
        options: dict[str, Any] = {"dim": 4, "lr": 0.05}
        sizes = []
        for variance in (0.05, 50.0):
            options[f"{side}_variance"] = variance
            model = al.PMF(**options)
            model.fit_pairs(larger.everything, epochs=30)
            sizes.append(float((model.table.users if side == "user" else model.table.items).square().mean()))
        assert sizes[0] < 0.5 * sizes[1]


def test_it_starts_from_the_weighted_share_of_each_item(larger: al.Split) -> None:
    """Else it starts at 1/2 everywhere, and the way down from there is all that Adam remembers for long."""
    model = al.PMF(dim=4, mu=0.1, lr=1e-9)
    model.fit_pairs(larger.everything, epochs=1)
    n, data = larger.everything.popularity, larger.everything
    share = (n + 0.5) / (n + 0.5 + 0.1 * (data.n_users - n) + 0.5)
    mean = model.score(list(range(data.n_users))).mean(0)
    np.testing.assert_allclose(mean.numpy(), share, atol=0.02)


def test_scores_are_probabilities_however_large_the_factors(model: al.PMF) -> None:
    model.table = FactorTable(*(20 * t.detach() for t in (model.table.users, model.table.items)))
    scores = model.score(list(range(6)))
    assert float(scores.min()) == pytest.approx(0)
    assert float(scores.max()) == pytest.approx(1)


def test_pairs_are_the_block_at_these_places_and_newcomers_resemble_known_users(larger: al.Split) -> None:
    model = al.PMF(dim=8, max_epochs=40).fit(larger)
    known = model.histories.batch(torch.arange(300))
    block = model.score_block(known)
    torch.testing.assert_close(model.score_pairs(known), block[known.row, known.item])
    new = Users(torch.full_like(known.index, -1), known.row, known.item, known.weight, known.size)
    both = torch.stack([block.logit().flatten(), model.score_block(new).logit().flatten()])
    assert float(torch.corrcoef(both)[0, 1]) > 0.9


def test_aur_does_not_take_its_logits_for_scores(larger: al.Split) -> None:
    """AUR skips most of a large catalogue by bounds on inner products, which these scores are not."""
    model = al.PMF(dim=2, max_epochs=1).fit(larger)
    assert model.factors(model.users([0])) is None


@pytest.mark.parametrize("name", ["noise_variance", "user_variance", "item_variance"])
def test_variances_must_be_positive(name: str) -> None:
    with pytest.raises(al.AleatorError, match="variance is not positive"):
        al.PMF(**dict[str, Any]({name: 0.0}))
    assert math.isfinite(getattr(al.PMF(**dict[str, Any]({name: 1e-3})), name))
