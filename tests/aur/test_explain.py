"""Explanations of a blend: what the items of a history add to the expectation, to the uncertainty and to the score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al

Make = Callable[..., al.AUR]
USERS, ITEMS = [3, 40], [7, 2, 30]


def sums(found: Any, column: str) -> torch.Tensor:
    """[users, items] the sums over the histories."""
    by = {key: rows[column].sum() for key, rows in found.group_by("user_id", "item_id")}
    return torch.tensor([[by[user, item] for item in ITEMS] for user in USERS])


def rests(found: Any) -> torch.Tensor:
    by = {key: rows["rest"][0] for key, rows in found.group_by("user_id", "item_id")}
    return torch.tensor([[by[user, item] for item in ITEMS] for user in USERS])


def assert_close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found.double(), wanted.double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", [al.MF(dim=8, l2=0.01), al.EASE(l2=10.0), al.FISM(dim=8, max_epochs=3)], ids=repr)
@pytest.mark.parametrize("lam", [0.0, 0.4, 1.0])
def test_contributions_add_up_to_the_parts_and_to_the_score(split: al.Split, model: al.Model, lam: float) -> None:
    aur = al.AUR(model, lam=lam, discount=0.3, estimator=al.FactorEstimator(dim=8, max_epochs=3)).fit(split)
    found = aur.explain(USERS, ITEMS, n=None)
    assert found["exact"].all()
    level = aur.model.similarities.level if isinstance(aur.model, al.EASE) else 0.0  # type: ignore[union-attr]
    assert_close(sums(found, "adds_to_expectation") + level, aur.expectation(USERS, ITEMS))
    s = aur.estimator.log_variance(aur.users(USERS), torch.tensor(ITEMS))
    assert_close(sums(found, "adds_to_uncertainty"), s)
    score = aur.score(USERS, ITEMS)
    assert_close(sums(found, "adds_to_score") + rests(found), score)
    assert aur.spreads is not None
    popularity = torch.from_numpy(aur.fitted.popularity)[ITEMS].clamp_min(1)
    constant = lam * level * aur.spreads.shares[0] * popularity**-0.3
    assert_close(rests(found), constant.expand(2, 3))
    per_item = lam * found["adds_to_expectation"] * aur.spreads.shares[0]
    per_item += (1 - lam) * found["adds_to_uncertainty"] * aur.spreads.shares[1]
    discount = np.array([float(popularity[ITEMS.index(item)]) ** -0.3 for item in found["item_id"]])
    np.testing.assert_allclose(found["adds_to_score"], per_item.to_numpy() * discount, rtol=1e-4, atol=1e-6)


def test_the_prior_of_short_histories_is_part_of_the_rest(split: al.Split) -> None:
    options: dict[str, Any] = {"lam": 0.5, "estimator": al.FactorEstimator(dim=8, max_epochs=3)}
    without, with_prior = (al.AUR(al.EASE(l2=10.0), prior=prior, **options).fit(split) for prior in (0.0, 4.0))
    new = {"new": [1, 2]}
    one, other = (aur.explain(new, ITEMS) for aur in (without, with_prior))
    np.testing.assert_allclose(one["adds_to_score"], other["adds_to_score"])
    gap = (with_prior.score(new, ITEMS) - without.score(new, ITEMS))[0].double().numpy()
    assert (gap > 0).all()
    np.testing.assert_allclose(other["rest"].to_numpy()[::2] - one["rest"].to_numpy()[::2], gap, rtol=1e-4)


def test_an_item_that_adds_to_the_uncertainty_raises_the_score(fitted_aur: al.AUR) -> None:
    """It is a reason for a recommendation, not against it."""
    found = fitted_aur.explain([3], list(range(50)), n=None, lam=0.0)
    uncertainty, score = (np.sign(found[name].to_numpy()) for name in ("adds_to_uncertainty", "adds_to_score"))
    np.testing.assert_array_equal(uncertainty, score)
    assert {1.0, -1.0} <= {*uncertainty}


def test_lists_have_the_reasons_of_both_parts(fitted_aur: al.AUR) -> None:
    found = fitted_aur.recommend([3], k=4, lam=0.5, explain=2)
    for row in found.to_dicts():
        rows = fitted_aur.explain([3], [row["item_id"]], n=None)
        for part in ("expectation", "uncertainty"):
            best = rows.sort(f"adds_to_{part}", descending=True).head(2)
            assert row[f"{part}_from"] == best.filter(best[f"adds_to_{part}"] > 0)["history_item"].to_list()


def test_the_papers_blend_is_no_sum_and_shows_differences(small_aur: Make, split: al.Split) -> None:
    aur = small_aur(blend="sigma", lam=0.4).fit(split)
    found = aur.explain(USERS, ITEMS, n=None)
    assert not found["exact"].any()
    assert_close(sums(found, "adds_to_expectation"), aur.expectation(USERS, ITEMS))
    s = aur.estimator.log_variance(aur.users(USERS), torch.tensor(ITEMS))
    row = found.row(0, named=True)
    at = USERS.index(row["user_id"]), ITEMS.index(row["item_id"])
    sigma = [float(torch.exp(each / 2) / 10) for each in (s[at], s[at] - row["adds_to_uncertainty"])]
    wanted = 0.4 * row["adds_to_expectation"] + 0.6 * (sigma[0] - sigma[1])
    assert row["adds_to_score"] == pytest.approx(wanted, rel=1e-4)


def test_what_is_no_sum_over_the_history_says_so(small_aur: Make, split: al.Split) -> None:
    inexact = [
        small_aur(estimator__activation="tanh"),
        al.AUR(al.MF(dim=4, l2=0.01), lam=0.5, estimator=al.MLPEstimator(hidden=8, max_epochs=2)),
        small_aur(joint=al.Joint(max_epochs=2), model__l2=0.001),
    ]
    for aur in inexact:
        assert not aur.fit(split).explain([3], [7])["exact"].any()


@pytest.mark.parametrize("kind", ["popularity", "function"])
def test_of_an_expectation_that_follows_no_history_nothing_is_said(split: al.Split, kind: str) -> None:
    def shares(users: Any) -> Any:
        return np.tile(split.everything.popularity / 80, (len(users), 1))

    model = al.Popularity() if kind == "popularity" else al.graft(shares, check=False)
    aur = al.AUR(model, lam=0.5, estimator=al.FactorEstimator(dim=8, max_epochs=3)).fit(split)
    found = aur.explain(USERS, ITEMS, n=None)
    assert found["adds_to_expectation"].is_nan().all()
    assert_close(sums(found, "adds_to_score") + rests(found), aur.score(USERS, ITEMS))
    lists = aur.recommend([3], k=3, explain=2)
    assert lists["expectation_from"].to_list() == [[], [], []]
    assert all(lists["uncertainty_from"].to_list())
    with pytest.raises(al.AleatorError, match="do not follow from the items of a history"):
        aur.model.explain([3], [7])
    with pytest.raises(al.AleatorError, match="do not follow from the items of a history"):
        aur.model.recommend([3], k=2, explain=1)
