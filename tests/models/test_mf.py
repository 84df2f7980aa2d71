"""MF: one objective, three ways to its minimum."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from implicit.cpu.als import AlternatingLeastSquares
from torch import Tensor

import aleator as al
from aleator.batches import Users
from aleator.data.interactions import Interactions
from aleator.data.simulate import simulate
from aleator.kernels.least_squares import least_squares
from aleator.models import mf
from aleator.models.factors import FactorTable


@pytest.fixture(scope="module")
def larger() -> al.Split:
    return simulate(n_users=300, n_items=120, per_user=60, seed=2).interactions.split(seed=0)


def objective(model: al.MF) -> float:
    """What MF says that it minimises, written out densely in float64."""
    weight = torch.from_numpy(model.fitted.csr.toarray()).double()
    x, y = model.table.users.detach().double(), model.table.items.detach().double()
    label = (weight > 0).double()
    w = torch.where(weight > 0, weight, model.mu)
    n_u, n_i = weight.sum(1) + model.mu * len(y), weight.sum(0) + model.mu * len(x)
    if not model.frequency:
        n_u, n_i = torch.ones_like(n_u), torch.ones_like(n_i)
    penalty = model.l2_used * ((n_u[:, None] * x.square()).sum() + (n_i[:, None] * y.square()).sum())
    return float((w * (x @ y.T - label).square()).sum() + penalty)


def exactly(als: mf.ALS, side: int, x: Tensor, y: Tensor) -> Tensor:
    """Half an iteration of alternating least squares, solved exactly."""
    rows = (als.by_user, als.by_item)[side]
    return least_squares(y, rows, als.model.mu, als.model.penalty(rows))


def by_cholesky(data: Interactions, monkeypatch: pytest.MonkeyPatch, **options: Any) -> al.MF:
    """Fitted with each half of an iteration solved exactly."""
    model = al.MF(device="cpu", **options)
    with monkeypatch.context() as patch:
        patch.setattr(mf.ALS, "_solve", exactly)
        model.fit_pairs(data)
    return model


def by_implicit(data: Interactions, model: al.MF) -> al.MF:
    """The same objective without `frequency`, fitted by the library implicit."""
    weighted = data.csr.astype(np.float32)
    als = AlternatingLeastSquares(
        factors=model.dim,
        alpha=1 / model.mu,
        regularization=model.l2_used / model.mu,  # implicit's objective is ours divided by mu
        iterations=model.iterations,
        random_state=0,
        num_threads=1,
    )
    als.fit(weighted, show_progress=False)
    found = copy.copy(model)
    found.table = FactorTable(torch.from_numpy(als.user_factors), torch.from_numpy(als.item_factors))
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_als_is_as_good_as_implicits(weighted: bool) -> None:
    """They start from other random factors, so one world says little: recalls are averaged over several."""
    options: dict[str, Any] = {"dim": 8, "l2": 0.05, "frequency": False, "iterations": 15}
    recalls = []
    for seed in range(4):
        split = simulate(n_users=300, n_items=120, per_user=60, seed=seed).interactions.split(seed=0)
        data = split.everything
        if weighted:
            weight = np.random.default_rng(0).uniform(0.5, 3, len(data))
            data = Interactions.of(data.user, data.item, weight=weight, users=data.users, items=data.items)
        ours = al.MF(device="cpu", **options).fit(data)
        theirs = by_implicit(data, ours)
        assert objective(ours) == pytest.approx(objective(theirs), rel=0.03)
        recalls.append([al.evaluate(m, split, k=(20,)).mean("overall", "recall@20") for m in (ours, theirs)])
    mine, implicits = np.mean(recalls, axis=0)
    assert mine == pytest.approx(implicits, rel=0.06)
    assert mine > 0.3


@pytest.mark.parametrize("options", [{"l2": 0.01}, {"l2": 2.0, "frequency": False}])
def test_conjugate_gradients_and_cholesky_end_at_the_same_place(
    larger: al.Split, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"dim": 4, "iterations": 60, **options}
    steps = al.MF(device="cpu", **options)
    steps.fit_pairs(larger.everything)
    exact = by_cholesky(larger.everything, monkeypatch, **options)
    assert steps.solved_by == "conjugate gradients"
    assert objective(steps) == pytest.approx(objective(exact), rel=1e-4)
    torch.testing.assert_close(steps.score([0, 1, 2]), exact.score([0, 1, 2]), atol=0.02, rtol=0.05)


@pytest.mark.parametrize("exact", [False, True])
def test_each_iteration_of_als_lowers_the_objective(
    larger: al.Split, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = []
    for iterations in (1, 2, 4, 8):
        options: dict[str, Any] = {"dim": 8, "l2": 0.01, "iterations": iterations}
        if exact:
            model = by_cholesky(larger.everything, monkeypatch, **options)
        else:
            model = al.MF(device="cpu", **options)
            model.fit_pairs(larger.everything)
        values.append(objective(model))
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 4


@pytest.mark.parametrize("frequency", [True, False])
def test_users_are_solved_with_their_own_penalty(small: Interactions, frequency: bool) -> None:
    """Rendle et al., 2022: l2 times the weight of a user's pairs and mu for every item. In float64, row by row."""
    model = al.MF(dim=3, l2=0.03, mu=0.2, frequency=frequency, device="cpu").fit(small)
    y, weight = model.table.items.double().numpy(), small.csr.toarray()
    for user, row in enumerate(weight.astype(np.float64)):
        w = np.where(row > 0, row, 0.2)
        l2 = 0.03 * (row.sum() + 0.2 * len(y)) if frequency else 0.03
        x = np.linalg.solve((y * w[:, None]).T @ y + l2 * np.eye(3), y.T @ (w * (row > 0)))
        np.testing.assert_allclose(model.table.users[user], x, rtol=1e-3, atol=1e-5)
    gradient = slope_of_items(model)
    assert gradient < 0.02  # the items too are at their minimum


def slope_of_items(model: al.MF) -> float:
    """How steep the literal objective is in the items, against its slope where the items are 0."""
    kept, slopes = model.table.items, []
    for items in (kept, torch.zeros_like(kept)):
        x, y = model.table.users.double(), items.double().requires_grad_()
        weight = torch.from_numpy(model.fitted.csr.toarray()).double()
        n_i = weight.sum(0) + model.mu * len(x) if model.frequency else torch.ones(len(y), dtype=torch.float64)
        w = torch.where(weight > 0, weight, model.mu)
        loss = (w * (x @ y.T - (weight > 0).double()).square()).sum()
        (loss + model.l2_used * (n_i[:, None] * y.square()).sum()).backward()  # type: ignore[no-untyped-call]
        assert y.grad is not None
        slopes.append(float(y.grad.norm()))
    return slopes[0] / slopes[1]


@pytest.mark.parametrize("penalty", [{"l2": 0.5, "frequency": False}, {"l2": 0.003}])
def test_adam_reaches_the_same_minimum_in_expectation(larger: al.Split, penalty: dict[str, Any]) -> None:
    """mu = 1 draws every unobserved pair, so the objective is the same without noise."""
    options: dict[str, Any] = {"dim": 4, "mu": 1.0, **penalty}
    exact = al.MF(iterations=60, device="cpu", **options)
    exact.fit_pairs(larger.everything)
    model = al.MF(solver="adam", lr=0.03, max_epochs=100, batch_size=75, **options)
    model.fit_pairs(larger.everything)
    assert objective(model) <= 1.03 * objective(exact)


def with_factors(data: Interactions, **options: Any) -> al.MF:
    """An MF with random factors in float64, as Adam holds them."""
    model = al.MF(solver="adam", dim=3, **options)
    model.data = data
    draw = torch.Generator().manual_seed(0)
    model.table = FactorTable(
        *(
            (0.5 * torch.randn(n, 3, generator=draw, dtype=torch.float64)).requires_grad_()
            for n in (data.n_users, data.n_items)
        )
    )
    return model


@pytest.fixture
def small() -> Interactions:
    rng = np.random.default_rng(0)
    taken = rng.random((6, 9)) < 0.3
    taken[np.arange(9) % 6, np.arange(9)] = True
    return Interactions.of(*np.nonzero(taken), weight=rng.choice([0.5, 1.0, 2.0], int(taken.sum())))


def literal(model: al.MF, users: Users, drawn: Tensor) -> Tensor:
    """The loss of a batch, pair by pair: `drawn` [B, n_items] says which unobserved pairs are kept."""
    x, y, total = model.table.users, model.table.items, torch.zeros((), dtype=torch.float64)
    observed = {(int(r), int(i)): float(w) for r, i, w in zip(users.row, users.item, users.weight, strict=True)}
    for place, user in enumerate(users.index.tolist()):
        for item in range(len(y)):
            score = (x[user] * y[item]).sum()
            if (place, item) in observed:
                total = total + observed[place, item] * (score - 1) ** 2
            elif drawn[place, item]:
                total = total + score**2
        on_user, on_items = 1.0, torch.full((len(y),), 1 / model.fitted.n_users, dtype=torch.float64)
        if model.frequency:
            mine = {item: weight for (row, item), weight in observed.items() if row == place}
            on_user = sum(mine.values()) + model.mu * len(y)
            on_items = torch.tensor([mine.get(item, 0.0) + model.mu for item in range(len(y))], dtype=torch.float64)
        total = total + model.l2_used * (on_user * x[user].square().sum() + on_items @ y.square().sum(1))
    return total


@pytest.mark.parametrize("frequency", [True, False])
@pytest.mark.parametrize("negatives", ["each", "shared"])
def test_adams_loss_equals_the_literal_one_in_value_and_gradient(
    small: Interactions, negatives: Any, frequency: bool
) -> None:
    model = with_factors(small, mu=0.4, l2=0.07, negatives=negatives, frequency=frequency)
    users = model.histories.batch(torch.tensor([4, 0, 3]))
    shape, draw = (3, small.n_items), torch.Generator().manual_seed(7)
    if negatives == "each":
        drawn = torch.rand(shape, generator=draw) < 0.4
    else:
        drawn = torch.zeros(shape, dtype=torch.bool)
        drawn[:, torch.randperm(small.n_items, generator=draw)[:3]] = True  # floor(0.4 * 9)
    fast, reference = model.loss(users, torch.Generator().manual_seed(7)), literal(model, users, drawn)
    assert fast.item() == pytest.approx(reference.item(), rel=1e-12)
    parameters = [model.table.users, model.table.items]
    for mine, theirs in zip(
        torch.autograd.grad(fast, parameters), torch.autograd.grad(reference, parameters), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("negatives", "mu"), [("each", 0.3), ("shared", 1 / 3)])
def test_adams_loss_is_weighted_least_squares_on_average(small: Interactions, negatives: Any, mu: float) -> None:
    """Summed over all users, and averaged over draws; `shared` draws 3 of the 9 items."""
    model = with_factors(small, mu=mu, l2=0.05, negatives=negatives)
    users, draw = model.histories.batch(torch.arange(small.n_users)), torch.Generator().manual_seed(0)
    with torch.no_grad():
        losses = torch.stack([model.loss(users, draw) for _ in range(3000)])
    error = float(losses.std()) / 3000**0.5
    assert error < 0.05 * objective(model)
    assert abs(float(losses.mean()) - objective(model)) < 4 * error


@pytest.mark.parametrize("frequency", [True, False])
def test_with_all_negatives_adams_gradient_is_that_of_weighted_least_squares(
    small: Interactions, frequency: bool
) -> None:
    model = with_factors(small, mu=0.3, l2=0.05, frequency=frequency)
    users = model.histories.batch(torch.tensor([4, 0, 3]))
    nothing = torch.zeros(3, small.n_items)
    drawn, kept = (literal(model, users, d) for d in (nothing + 1, nothing))
    reference = 0.3 * drawn + 0.7 * kept  # each unobserved pair with weight mu
    fast, parameters = model.loss(users, torch.Generator()), [model.table.users, model.table.items]
    assert fast.item() == pytest.approx(reference.item(), rel=1e-12)
    for parameter, theirs in zip(parameters, torch.autograd.grad(reference, parameters), strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad * 3, theirs, rtol=1e-6, atol=1e-8)


def test_gradients_flow_from_scores_to_the_parameters(small: Interactions) -> None:
    model = with_factors(small)
    model.publish()
    scores = model.score_block(model.histories.batch(torch.tensor([1, 2])), torch.tensor([0, 5]))
    scores.sum().backward()  # type: ignore[no-untyped-call]
    x, y = model.parameters()
    assert x.grad is not None
    assert y.grad is not None
    torch.testing.assert_close(x.grad[[1, 2]], y[[0, 5]].sum(0).expand(2, 3))
    torch.testing.assert_close(y.grad[[0, 5]], x[[1, 2]].sum(0).expand(2, 3))


@pytest.mark.parametrize("mu", [1.0, 0.2])
def test_batches_of_users_add_up_to_the_whole_loss(small: Interactions, mu: float) -> None:
    model = with_factors(small, mu=mu, l2=0.05)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        parts = [float(model.loss(model.histories.batch(torch.tensor(b)), draw)) for b in ([0, 5], [1], [2, 3, 4])]
    assert sum(parts) == pytest.approx(objective(model), rel=1e-12)


def test_a_history_is_enough_to_get_a_users_own_scores(larger: al.Split) -> None:
    data = larger.everything
    for model in (al.MF(dim=16).fit(data), al.MF(dim=16, l2=0.005, frequency=False).fit(data)):
        for user in (0, 17, 123):
            history = data.item[data.user == user].tolist()
            torch.testing.assert_close(model.score({"new": history}), model.score([user]), atol=2e-4, rtol=1e-3)


def test_known_and_new_users_may_stand_in_one_batch(larger: al.Split) -> None:
    model = al.MF(solver="adam", dim=4, max_epochs=2).fit(larger)
    known = model.users([3, 4])
    new = model.users({"a": [1, 2, 3]})
    mixed = Users(
        torch.cat([known.index, new.index]),
        torch.cat([known.row, new.row + 2]),
        torch.cat([known.item, new.item]),
        torch.cat([known.weight, new.weight]),
        torch.cat([known.size, new.size]),
    )
    scores = model.score(mixed)
    torch.testing.assert_close(scores[:2], model.score([3, 4]))
    torch.testing.assert_close(scores[2:], model.score({"a": [1, 2, 3]}))


def test_a_heavier_pair_is_fitted_more_closely() -> None:
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((30, 20)) < 0.2)
    weight = np.where(np.arange(len(user)) % 2 == 0, 8.0, 0.5)
    model = al.MF(dim=4).fit(Interactions.of(user, item, weight=weight))
    scores = torch.stack([model.score([u], [i])[0, 0] for u, i in zip(user.tolist(), item.tolist(), strict=True)])
    heavy = torch.from_numpy(weight > 1)
    assert scores[heavy].mean() > scores[~heavy].mean() + 0.1


def test_more_dimensions_than_items_without_a_penalty_still_fit(small: Interactions) -> None:
    model = al.MF(dim=32, l2=0.0).fit(small)
    assert torch.isfinite(model.score([0, 1])).all()
    assert torch.isfinite(model.score({"new": [0, 1]})).all()


@pytest.mark.parametrize(
    ("options", "expected"), [({}, "conjugate gradients"), ({"solver": "adam", "max_epochs": 2}, "adam")]
)
def test_the_manifest_says_which_solver_ran(
    larger: al.Split, tmp_path: Path, options: dict[str, Any], expected: str
) -> None:
    al.MF(dim=4, device="cpu", **options).fit(larger).save(tmp_path / "m")
    assert json.loads((tmp_path / "m" / "manifest.json").read_text())["learned"]["solved_by"] == expected
    assert al.MF.load(tmp_path / "m").solved_by == expected


def test_adam_chooses_its_epochs_on_validation_and_then_fits_on_all(larger: al.Split) -> None:
    model = al.MF(solver="adam", dim=4, lr=0.05, max_epochs=30, patience=2, check_every=1, batch_size=64).fit(larger)
    assert model.log is not None
    assert 1 <= model.log.best_epoch <= len(model.log.rows) <= 30
    best = max(row["metric"] for row in model.log.rows)
    assert model.log.rows[model.log.best_epoch - 1]["metric"] == best
    assert len(model.fitted) == len(larger.everything) > len(larger.train)
    assert al.evaluate(model, larger, k=(10,)).mean("overall", "recall@10") > 0.05


def test_a_diverging_training_names_its_epoch(larger: al.Split) -> None:
    with pytest.raises(al.AleatorError, match=r"MF diverged.*epoch \d+.*try a learning rate"):
        al.MF(solver="adam", dim=4, lr=1e25, max_epochs=5).fit(larger)
