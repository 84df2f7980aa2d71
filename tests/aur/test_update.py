"""Updates of AUR: what was chosen stays, what is counted follows, and a failure leaves the served AUR as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.data.interactions import Interactions
from aleator.errors import AleatorError

NEW = Interactions.of(
    [0, 1, 100, 100, 100, 101, 101], [49, 100, 100, 3, 4, 100, 5]
)  # users 100, 101 and item 100 are new


@pytest.fixture(scope="module")
def aur(small_aur: Callable[..., al.AUR], split: al.Split) -> al.AUR:
    made = small_aur(estimator__max_epochs=20, discount="auto", prior="auto", residuals="auto", unobserved="auto")
    return made.fit(split)


def test_what_was_chosen_stays(aur: al.AUR) -> None:
    new = aur.update(NEW)
    for name in ("lam_used", "discount_used", "prior_used", "setting", "race", "choice", "tail_rule"):
        assert getattr(new, name) == getattr(aur, name)
    assert new.model.chosen == aur.model.chosen
    assert new.estimator.log == aur.estimator.log
    assert new.model.log == aur.model.log
    assert new.options() == aur.options()


def test_what_is_counted_follows(aur: al.AUR) -> None:
    popular = Interactions.of(np.repeat(np.arange(40), 2), np.tile([100, 101], 40))
    new = aur.update(popular)
    assert new.data is new.model.data
    assert new.tail_mask.tolist() == new.tail_rule.mask(new.fitted.popularity).tolist()
    assert not new.tail_mask[new.fitted.items.encode([100])[0]]
    assert new.spreads != aur.spreads
    assert new.recommend([0], k=3, filter_seen=False, allow=[100])["popularity"].to_list() == [40]
    assert 100 not in new.recommend([0], k=20)["item_id"].to_list()  # it is in the history now


def test_epochs_of_0_leave_the_known_items_where_they_are(aur: al.AUR) -> None:
    assert isinstance(aur.estimator, al.FactorEstimator)
    n = aur.fitted.n_items
    for epochs, same in ((0, True), (1, False)):
        new = aur.update(NEW, epochs=epochs)
        assert isinstance(new.estimator, al.FactorEstimator)
        assert torch.equal(new.estimator.z[:n], aur.estimator.z) == same
        assert torch.equal(new.model.table.items[:n], aur.model.table.items) == same


def test_the_epochs_of_the_fit_are_trained_by_the_share_of_new_pairs_over_all_updates(split: al.Split) -> None:
    model = al.FISM(dim=4, max_epochs=50, check_every=50)
    estimator = al.FactorEstimator(dim=4, max_epochs=2)
    aur = al.AUR(model, estimator=estimator, lam=0.5, residuals="constant", unobserved="constant").fit(split)
    n = len(aur.fitted) // 20
    told: list[tuple[str, int]] = []
    numbers: list[int] = []
    for first in range(0, 4 * n, n):  # a twentieth of the pairs each: 2.5 epochs
        new = Interactions.of(np.arange(first, first + n) + 1000, np.arange(n) % 7)
        before = len(told)
        aur = aur.update(new, callback=lambda epoch: told.append((epoch.label, epoch.epoch)))
        numbers.append(len(told) - before)
    assert numbers == [2, 2, 3, 2]
    assert {label for label, _ in told} == {"FISM"}  # the estimator has no whole epoch due yet
    told.clear()
    aur.update(NEW, epochs=1, callback=lambda epoch: told.append((epoch.label, epoch.epoch)))
    assert told == [("FISM", 1), ("uncertainty estimator", 1)]


def test_a_failed_update_leaves_everything_as_it_was(aur: al.AUR) -> None:
    before = aur.score([0, 1]).clone()
    tensors = {name: value.clone() for name, value in aur.pack()[1].items()}

    def fail(epoch: al.Epoch) -> None:
        if epoch.stage == "uncertainty estimator":
            raise KeyError("in the middle")

    with pytest.raises(KeyError, match="in the middle"):
        aur.update(NEW, epochs=1, callback=fail)
    assert torch.equal(aur.score([0, 1]), before)
    assert all(torch.equal(value, tensors[name]) for name, value in aur.pack()[1].items())
    assert aur.fitted.n_users == 80
    assert aur.updated == {}


def test_both_serve_in_turn(aur: al.AUR) -> None:
    """What is kept for speed belongs to one of them."""
    new = aur.update(NEW)
    for _ in range(2):
        assert aur.score([0]).shape == (1, 50)
        assert new.score([0]).shape == (1, 51)
        assert 100 not in aur.recommend([2], k=50)["item_id"].to_list()
        assert 100 in new.recommend([2], k=50)["item_id"].to_list()
    vectors = new.vectors([100])
    torch.testing.assert_close(
        torch.as_tensor(vectors.user_vectors @ vectors.item_vectors.T), new.score([100]), rtol=1e-4, atol=1e-5
    )


def test_an_update_with_nothing_new_changes_next_to_nothing(aur: al.AUR, split: al.Split) -> None:
    same = aur.update(split.train.take(np.arange(5)), epochs=0)
    assert same.updated == {"pairs": 0, "users": 0, "items": 0}
    torch.testing.assert_close(same.score([0, 1, 2]), aur.score([0, 1, 2]), rtol=1e-4, atol=1e-4)


def test_the_solution_of_users_is_exact_after_an_update_by_als(split: al.Split) -> None:
    """A newcomer with the same history gets the same scores, as after a fit."""
    model = al.MF(dim=4, l2=0.01).fit(split).update(NEW)
    for user in (0, 100):
        taken = model.fitted.item[model.fitted.user == model.fitted.users.encode([user])[0]]
        history = model.fitted.items.decode(taken).tolist()
        torch.testing.assert_close(model.score([user]), model.score({"x": history}), rtol=1e-4, atol=1e-5)


def test_an_updated_aur_is_evaluated_by_ids(aur: al.AUR, split: al.Split) -> None:
    new = aur.update(NEW)
    grown = al.Split.of(new.fitted, al.Interactions.of([100, 0, 0], [6, 7, 8]))
    report = al.evaluate(new, grown, k=20)
    listed = new.recommend([100], k=20)["item_id"].to_list()
    assert report.per_user["overall"]["recall@20"][report.users.tolist().index(100)] == float(6 in listed)


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        ([1, 2], {}, "the new pairs are a list; give Interactions"),
        (NEW, {"epochs": -1}, "epochs is -1; give a whole number"),
        (NEW, {"epochs": 1.5}, "epochs is 1.5; give a whole number"),
        (NEW, {"duplicates": "last"}, "unknown value of duplicates 'last'"),
        (NEW, {"callback": 3}, "callback is 3"),
        (Interactions.of(["a"], [1]), {}, "the user ids of the new pairs are texts"),
    ],
)
def test_wrong_input_gets_a_message(aur: al.AUR, given: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(AleatorError, match=says):
        aur.update(given, **options)


def test_what_cannot_be_updated_says_what_to_do(split: al.Split, small_aur: Callable[..., al.AUR]) -> None:
    factors = np.random.default_rng(0).normal(size=(80, 4)), np.random.default_rng(1).normal(size=(50, 4))
    graft = al.graft(factors, check=False, calibrate="none").fit(split)
    with pytest.raises(AleatorError, match="fitted elsewhere, and cannot be updated here; update it there"):
        graft.update(NEW)
    joint = small_aur(joint=al.Joint(max_epochs=1)).fit(split)
    with pytest.raises(AleatorError, match="trained jointly cannot be updated; fit it again"):
        joint.update(NEW)
    with pytest.raises(AleatorError, match="EASE does not train on from what it learned; leave epochs out"):
        al.EASE(l2=30.0).fit(split).update(NEW, epochs=2)
    with pytest.raises(AleatorError, match="not fitted; call fit first"):
        al.MF().update(NEW)


def test_epochs_are_those_of_the_estimator_alone_on_a_model_in_closed_form(split: al.Split) -> None:
    estimator = al.FactorEstimator(dim=4, max_epochs=2)
    aur = al.AUR(al.EASE(l2=30.0), estimator=estimator, lam=0.5, discount=0.0).fit(split)
    told: list[al.Epoch] = []
    new = aur.update(NEW, epochs=2, callback=told.append)
    assert [e.label for e in told] == ["uncertainty estimator"] * 2
    again = al.EASE(l2=30.0).fit(new.fitted)
    torch.testing.assert_close(new.model.score([0, 100]), again.score([0, 100]))
