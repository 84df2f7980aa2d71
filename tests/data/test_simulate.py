"""Simulated worlds: the interactions follow from the true labels, and every true label is known."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import aleator.data.simulate as simulate_module
from aleator.data.simulate import World, auroc, simulate
from aleator.errors import AleatorError


@pytest.fixture(scope="module")
def world() -> World:
    return simulate(seed=3)


def everything(world: World) -> np.ndarray[Any, Any]:
    """True labels of all pairs, [n_users, n_items]."""
    return world.likes(np.arange(world.interactions.n_users)[:, None], np.arange(world.interactions.n_items))


def gini(count: np.ndarray[Any, Any]) -> float:
    ordered, n = np.sort(count), len(count)
    return float(2 * (np.arange(1, n + 1) * ordered).sum() / (n * ordered.sum()) - (n + 1) / n)


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(simulate_module).failed == 0


def test_every_interaction_is_liked_and_stands_once(world: World) -> None:
    seen = world.interactions
    assert world.likes(seen.user, seen.item).all()
    assert len(np.unique(seen.user.astype(np.int64) * seen.n_items + seen.item)) == len(seen)


def test_all_users_and_items_are_in_the_vocabularies_even_those_without_interactions() -> None:
    world = simulate(n_users=40, n_items=2000, per_user=10)
    assert (world.interactions.n_users, world.interactions.n_items) == (40, 2000)
    assert (world.interactions.popularity == 0).any()
    assert world.interactions.items.encode([1999]).tolist() == [1999]


@pytest.mark.parametrize("skew", [0.0, 1.0, 1.5])
def test_some_pairs_are_liked_and_most_of_those_are_unseen(skew: float) -> None:
    world = simulate(skew=skew)
    truth = everything(world)
    assert 0.1 < truth.mean() < 0.25
    assert len(world.interactions) < 0.5 * truth.sum()
    assert world.unobserved(20_000)[2].mean() > 0.08


@pytest.mark.parametrize("liked", [0.05, 0.3])
@pytest.mark.parametrize("sharpness", [0.0, 1.0, 5.0])
def test_the_share_of_liked_pairs_is_about_what_was_asked_for(liked: float, sharpness: float) -> None:
    assert everything(simulate(liked=liked, sharpness=sharpness)).mean() == pytest.approx(liked, rel=0.05)


def test_a_larger_skew_concentrates_the_interactions() -> None:
    ginis = [gini(simulate(skew=skew, seed=1).interactions.popularity) for skew in (0.0, 0.5, 1.0, 1.5)]
    assert ginis == sorted(ginis)
    assert ginis[-1] > ginis[0] + 0.3


def test_without_skew_every_item_is_shown_alike() -> None:
    assert np.allclose(simulate(skew=0).exposure, 1 / 500)


def test_merit_ties_fame_to_appeal() -> None:
    correlation = [np.corrcoef(np.log(w.exposure), w.appeal)[0, 1] for w in (simulate(merit=m) for m in (0, 0.5, 1))]
    assert abs(correlation[0]) < 0.15
    assert correlation[0] + 0.2 < correlation[1] < correlation[2] - 0.2
    full = simulate(merit=1)
    assert full.exposure.argmax() == full.appeal.argmax()


def test_same_seed_same_world_and_another_seed_another() -> None:
    one, same, other = simulate(seed=5), simulate(seed=5), simulate(seed=6)
    for name in ("user", "item"):
        assert getattr(one.interactions, name).tobytes() == getattr(same.interactions, name).tobytes()
    assert np.array_equal(everything(one), everything(same))
    assert all(np.array_equal(a, b) for a, b in zip(one.unobserved(100), same.unobserved(100), strict=True))
    assert not np.array_equal(one.interactions.item, other.interactions.item)
    assert (everything(one) != everything(other)).mean() > 0.05


def test_a_label_does_not_depend_on_how_it_is_asked_for(world: World) -> None:
    truth = everything(world)
    assert (truth.shape, truth.dtype) == ((1000, 500), bool)
    rng = np.random.default_rng(0)
    user, item = rng.integers(1000, size=300), rng.integers(500, size=300)
    assert np.array_equal(world.likes(user, item), truth[user, item])
    assert np.array_equal(world.likes(user.astype(np.int32), item.tolist()), truth[user, item])
    assert [bool(world.likes(u, i)) for u, i in zip(user, item, strict=True)] == truth[user, item].tolist()
    assert world.likes([], []).shape == (0,)


def test_labels_are_drawn_with_their_probability(world: World) -> None:
    truth = everything(world)
    p = world.probability(np.arange(1000)[:, None], np.arange(500))
    for low, high in ((0.0, 0.02), (0.1, 0.2), (0.4, 0.6), (0.8, 0.9), (0.98, 1.0)):
        band = (p >= low) & (p < high)
        assert truth[band].mean() == pytest.approx(p[band].mean(), abs=0.01)
    # given p, the labels of a user or of an item are independent
    residual = truth - p
    for axis in (0, 1):
        z = residual.sum(axis) / np.sqrt((p * (1 - p)).sum(axis))
        assert z.std() == pytest.approx(1, abs=0.12)


def test_taste_decides_and_without_it_only_appeal_does(world: World) -> None:
    user, item, label = world.unobserved(20_000)
    p = world.probability(user, item)
    assert auroc(label, p) > 0.85
    assert auroc(label, world.probability((user + 1) % 1000, item)) < auroc(label, p) - 0.1
    dull = simulate(sharpness=0)
    assert np.ptp(dull.probability(np.arange(1000), 7)) == 0


def test_unobserved_pairs_are_unobserved_uniform_and_truly_labelled(world: World) -> None:
    user, item, label = world.unobserved(50_000, seed=1)
    assert user.shape == item.shape == label.shape == (50_000,)
    assert (world.interactions.csr[user, item] == 0).all()
    assert np.array_equal(label, world.likes(user, item))
    left = everything(world)[world.interactions.csr.toarray() == 0]
    assert label.mean() == pytest.approx(left.mean(), abs=0.01)
    assert np.bincount(user, minlength=1000).std() == pytest.approx(50**0.5, rel=0.15)
    assert not np.array_equal(user, world.unobserved(50_000, seed=2)[0])


def test_users_who_liked_nothing_are_shown_more() -> None:
    for per_user in (2, 100):  # with two showings alone, most users would have liked nothing
        assert len(np.unique(simulate(per_user=per_user).interactions.user)) >= 950


def test_more_showings_give_more_interactions() -> None:
    assert len(simulate(per_user=200).interactions) > 1.5 * len(simulate(per_user=50).interactions)


def test_a_larger_world_of_several_blocks() -> None:
    world = simulate(n_users=20_000, n_items=100_000, per_user=30)
    seen = world.interactions
    assert len(np.unique(seen.user)) > 19_900
    assert np.all(np.diff(seen.user) >= 0)
    assert world.likes(seen.user, seen.item).all()
    assert world.unobserved(1000)[2].mean() > 0.08


def test_a_world_can_be_split(world: World) -> None:
    split = world.interactions.split(valid=0.1, test=0.2)
    assert len(split.train) + len(split.valid) + len(split.test) == len(world.interactions)
    assert split.train.n_items == 500


@pytest.mark.parametrize(
    "option",
    [
        {"n_users": 0},
        {"n_items": 0},
        {"per_user": 0},
        {"dim": 0},
        {"skew": -1},
        {"skew": float("nan")},
        {"sharpness": float("inf")},
        {"merit": 1.5},
        {"liked": 0},
        {"liked": 1},
        {"seed": -1},
    ],
)
def test_an_impossible_option_is_named(option: dict[str, Any]) -> None:
    with pytest.raises(AleatorError, match=next(iter(option))):
        simulate(**option)


def test_pairs_from_another_world_are_refused(world: World) -> None:
    for user, item in ((1000, 0), (0, 500), (-1, 0)):
        with pytest.raises(AleatorError, match="not in this world"):
            world.likes(user, item)
    with pytest.raises(AleatorError, match="n is 0"):
        world.unobserved(0)
    with pytest.raises(AleatorError, match="seed is -1"):
        world.unobserved(1, seed=-1)
    full = simulate(n_users=2, n_items=1, liked=0.999999, sharpness=0)
    with pytest.raises(AleatorError, match="every pair is observed"):
        full.unobserved(1)
    with pytest.raises(AleatorError, match="nobody liked"):
        simulate(n_users=1, n_items=1, liked=1e-9, sharpness=0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=40))
def test_auroc_is_that_of_sklearn_also_with_ties(rows: list[tuple[bool, int]]) -> None:
    label, score = map(np.array, zip(*rows, strict=True))
    if label.all() or not label.any():
        with pytest.raises(AleatorError, match="all labels are the same"):
            auroc(label, score)
    else:
        assert auroc(label, score) == pytest.approx(roc_auc_score(label, score), abs=1e-12)
        assert auroc(label, -score) == pytest.approx(1 - auroc(label, score), abs=1e-12)


def test_auroc_refuses_scores_that_do_not_rank() -> None:
    with pytest.raises(AleatorError, match="not a number"):
        auroc([0, 1], [0.5, float("nan")])
    with pytest.raises(AleatorError, match="2 labels and 3 scores"):
        auroc([0, 1], [1, 2, 3])
