"""Expectations of observed pairs by a model that did not see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.aur.residuals import Constant, OutOfSample, _cross_fitted, expectations
from aleator.batches import Users
from aleator.data.interactions import Interactions
from aleator.training.stop import Stop
from aleator.uncertainty.base import Expectation
from aleator.uncertainty.objective import Objective


@pytest.fixture(scope="module")
def data(split: al.Split) -> Interactions:
    """In an order that is not that of its rows, as files are."""
    whole = split.everything
    return whole.take(np.random.default_rng(0).permutation(len(whole)))


def observed(expectation: Expectation, model: al.Model) -> torch.Tensor:
    with torch.no_grad():
        return expectation.score_pairs(model.histories.batch(torch.arange(model.histories.n_users)))


def test_least_squares_needs_no_second_fit(data: Interactions) -> None:
    """One user solved again without one of the items, by hand."""
    model = al.MF(dim=4, l2=0.05, device="cpu").fit(data)
    values = observed(OutOfSample(model), model)
    users = model.histories.batch(torch.arange(model.histories.n_users))
    y, place = model.table.items.double(), 57
    user, item = int(users.row[place]), int(users.item[place])
    others = [i for i in users.item[users.row == user].tolist() if i != item]
    w = torch.full((len(y),), model.mu, dtype=torch.float64)
    w[others] = 1.0
    l2 = 0.05 * (len(others) + 1 + model.mu * len(y))
    x = torch.linalg.solve((y * w[:, None]).T @ y + l2 * torch.eye(4, dtype=torch.float64), y[others].sum(0))
    assert float(values[place]) == pytest.approx(float(x @ y[item]), abs=1e-5)
    assert values.mean() < observed(model, model).mean() - 0.02


def test_an_item_item_model_with_a_zero_diagonal_has_them_for_free(data: Interactions) -> None:
    """As far as the history goes: taking the item out of the history changes nothing of its score."""
    model = al.EASE(l2=5.0, device="cpu").fit(data)
    values = observed(OutOfSample(model), model)
    users = model.histories.batch(torch.arange(model.histories.n_users))
    place = 57
    user, item = int(users.row[place]), int(users.item[place])
    others = [i for i in users.item[users.row == user].tolist() if i != item]
    names = model.fitted.items.decode(np.array(others)).tolist()
    alone = model.score({"x": names})[0, item]
    assert float(values[place]) == pytest.approx(float(alone), abs=1e-5)


def test_cross_fitting_leaves_the_pair_out_of_what_was_learned_of_the_items_too(data: Interactions) -> None:
    """The similarities of a linear autoencoder remember the pairs that they were made of."""
    model = al.EASE(l2=5.0, device="cpu").fit(data)
    free, fitted_again = (observed(OutOfSample(model, again), model).mean() for again in (False, True))
    assert fitted_again < free - 0.05


def test_a_map_onto_the_label_holds_for_them_too(data: Interactions) -> None:
    plain, mapped = (al.MF(dim=4, calibrate=kind, device="cpu").fit(data) for kind in ("none", "isotonic"))
    values = observed(OutOfSample(plain), plain)
    assert mapped.map is not None
    torch.testing.assert_close(observed(OutOfSample(mapped), mapped), mapped.map(values), atol=1e-5, rtol=0)


def test_cross_fitting_predicts_pairs_by_a_model_that_never_saw_them(data: Interactions) -> None:
    """A model that only remembers what it was fitted on remembers nothing of them."""

    class Memory(al.Popularity):
        """1 for the pairs that it was fitted on (Nobody, 2020)."""

        seen = torch.zeros(0)  # [n_users, n_items]

        def learn(self, stop: Stop) -> None:
            super().learn(stop)
            self.seen = torch.from_numpy(self.fitted.csr.toarray() > 0).float()

        def without_history(self, scores: torch.Tensor, users: Users, items: torch.Tensor | None) -> torch.Tensor:
            return scores

        def raw_block(self, users: Users, items: torch.Tensor | None = None) -> torch.Tensor:
            block = self.seen[users.index].clone()
            return block if items is None else block[:, items]

        def raw_pairs(self, users: Any) -> torch.Tensor:
            return self.raw_block(users)[users.row, users.item]

    model = Memory(device="cpu").fit(data)
    assert (observed(model, model) == 1).all()
    assert (observed(OutOfSample(model), model) == 0).all()


def test_each_value_belongs_to_its_pair(data: Interactions) -> None:
    """An expectation that names the pair comes back where the pair is."""

    class Named(al.Popularity):
        """(Nobody, 2020)."""

        def without_history(self, scores: torch.Tensor, users: Users, items: torch.Tensor | None) -> torch.Tensor:
            return scores

        def raw_block(self, users: Users, items: torch.Tensor | None = None) -> torch.Tensor:
            n = self.fitted.n_items
            block = users.index[:, None] + torch.arange(n) / n
            return block if items is None else block[:, items]

    model = Named(device="cpu").fit(data)
    values = _cross_fitted(model)
    matrix = model.fitted.csr
    user = np.repeat(np.arange(data.n_users), np.diff(matrix.indptr))
    np.testing.assert_allclose(values, user + matrix.indices / data.n_items, rtol=1e-6)


def test_they_understate_less(split: al.Split) -> None:
    """Adam fits the observed pairs closer than pairs it has not seen."""
    model = al.MF(solver="adam", dim=8, lr=0.05, max_epochs=30, batch_size=16, device="cpu").fit(split.everything)
    values = observed(OutOfSample(model), model)
    assert values.mean() < observed(model, model).mean() - 0.05


def test_aur_trains_on_them(small_aur: Callable[..., al.AUR], split: al.Split) -> None:
    inside, outside = (small_aur(residuals=kind).fit(split) for kind in ("in-sample", "cross-fit"))
    assert torch.equal(inside.model.score([0, 1]), outside.model.score([0, 1]))
    assert not torch.equal(inside.uncertainty([0, 1]), outside.uncertainty([0, 1]))


@pytest.fixture(scope="module")
def fitted_mf(data: Interactions) -> al.MF:
    return al.MF(dim=4, device="cpu").fit(data)


@pytest.mark.parametrize("residuals", ["in-sample", "loo", "cross-fit", "constant"])
@pytest.mark.parametrize("unobserved", ["model", "constant"])
def test_each_kind_of_pair_has_the_expectations_that_were_asked_for(
    residuals: Any, unobserved: Any, fitted_mf: al.MF
) -> None:
    model, value = fitted_mf, 0.123
    found = expectations(model, residuals, unobserved, value)
    users = model.histories.batch(torch.tensor([3, 17, 40]))
    items = torch.tensor([0, 7, 41])
    whole, some, pairs = found.score_block(users), found.score_block(users, items), found.score_pairs(users)
    assert whole.shape == (3, model.fitted.n_items)
    assert some.shape == (3, 3)
    assert pairs.shape == users.item.shape
    of_model = model.score_block(users)
    of_block = torch.full_like(of_model, value) if unobserved == "constant" else of_model
    torch.testing.assert_close(whole, of_block)
    torch.testing.assert_close(some, of_block[:, items])
    if residuals == "constant":
        of_pairs = torch.full_like(pairs, value)
    elif residuals == "in-sample":
        of_pairs = model.score_pairs(users)
    else:
        of_pairs = OutOfSample(model, residuals == "cross-fit").score_pairs(users)
        assert not torch.allclose(of_pairs, model.score_pairs(users), atol=1e-3)
    torch.testing.assert_close(pairs, of_pairs)


def test_blocks_of_constants_can_be_written_into(fitted_mf: al.MF) -> None:
    """The training step does: it takes the observed pairs out of a block."""
    found = Constant(fitted_mf, 0.1, fitted_mf.fitted.n_items, observed=True, unobserved=True)
    users = fitted_mf.histories.batch(torch.tensor([3]))
    found.score_block(users).zero_()
    assert (found.score_block(users) == 0.1).all()


def test_with_constants_everywhere_the_model_does_not_matter(small_aur: Callable[..., al.AUR], split: al.Split) -> None:
    def log_variance(**options: Any) -> torch.Tensor:
        aur = small_aur(lam=0.5, refit=False, estimator__check_every=6, **options).fit(split)
        return aur.estimator.log_variance(aur.users([0, 1]))

    constant: dict[str, Any] = {"residuals": "constant", "unobserved": "constant"}
    torch.testing.assert_close(log_variance(**constant), log_variance(**constant, model__mu=0.9))
    assert not torch.equal(log_variance(), log_variance(model__mu=0.9))


def test_the_constant_is_the_root_of_beta(
    small_aur: Callable[..., al.AUR], split: al.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that s = 0 is the best for an unobserved pair: r^2 = beta there, but for the floor and gamma s^2 = 0."""
    asked = []

    def spy(*given: Any) -> Expectation:
        asked.append(given[1:])
        return expectations(*given)

    monkeypatch.setattr("aleator.aur.blended.expectations", spy)
    small_aur(beta=0.04).fit(split)
    assert {(residuals, unobserved) for residuals, unobserved, _ in asked} == {("in-sample", "constant")}
    assert {value for _, _, value in asked} == {0.2}
    s = torch.zeros((), dtype=torch.float64)
    assert float(Objective(beta=0.04, floor=0.0).slope(torch.tensor(0.2, dtype=torch.float64), s)) == pytest.approx(0)


@pytest.mark.parametrize("residuals", ["loo", "cross-fit"])
def test_out_of_sample_beside_a_constant_is_its_own_setting(
    residuals: str, small_aur: Callable[..., al.AUR], split: al.Split
) -> None:
    aur, inside = (small_aur(residuals=kind, lam=0.0).fit(split) for kind in (residuals, "in-sample"))
    assert (aur.setting.residuals, aur.setting.unobserved) == (residuals, "constant")
    assert not torch.equal(aur.score([0, 1]), inside.score([0, 1]))
