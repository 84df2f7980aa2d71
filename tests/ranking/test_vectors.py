"""Vectors: inner products that are the scores, and a plain top-k over them that gives the lists of `recommend`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import aleator as al
from aleator.data.interactions import Interactions
from aleator.data.simulate import simulate
from aleator.models import MODELS
from aleator.models.item_item import ItemTable
from aleator.models.similarities import Dense, Sparse
from aleator.recommender import Recommender

from ..contracts.small import SMALL

BY_MATRIX = {"ease", "graph_filter", "itemknn"}
REFUSING = BY_MATRIX | {"pmf", "random"}
CASES = [(name, options) for name in MODELS.classes for options in SMALL.get(name, [{}])]
WITH_VECTORS = [case for case in CASES if case[0] not in REFUSING]
NEWCOMERS = {"one": [4], "three": [1, 8, 21], "unknown too": [2, 999]}
EMPTY, UNTRAINED = 60, 40  # a user without a history, and an item that nobody took


def label(case: tuple[str, dict[str, Any]]) -> str:
    return " ".join([case[0], *[v for v in case[1].values() if isinstance(v, str)]])


@pytest.fixture(scope="module")
def world() -> Interactions:
    """60 users and 40 items, one more user without a pair, and one more item."""
    data = simulate(n_users=60, n_items=40, per_user=120, skew=0.5, seed=4).interactions
    everyone = np.arange(60)  # so that each item has a user
    user, item = np.r_[data.user, everyone, EMPTY], np.r_[data.item, everyone % 40, UNTRAINED]
    made = Interactions.of(user, item)
    return made.take(made.user != EMPTY)


def assert_vectors(model: Recommender, users: Any) -> al.Vectors:
    """Inner products are the scores to 1e-5 of their spread, and a plain top-k gives the lists of `recommend`."""
    made = model.vectors(users)
    asked = model.fitted.users.ids.tolist() if users is None else users
    assert made.user_ids.tolist() == list(asked)
    assert made.item_ids.tolist() == model.fitted.items.ids.tolist()
    assert made.user_vectors.dtype == made.item_vectors.dtype == np.float32
    assert made.recall is None
    products = made.user_vectors.astype(np.float64) @ made.item_vectors.astype(np.float64).T
    scores = model.score(asked).double().numpy()
    assert (np.abs(products - scores).max(1) <= 1e-5 * scores.std(1)).all()

    histories = model.users(asked)
    products[histories.row.numpy(), histories.item.numpy()] = -np.inf
    products[:, ~made.trained] = -np.inf
    order = np.argsort(-products, axis=1, kind="stable")[:, :10]
    shown = model.recommend(asked, k=10)
    for place, name in enumerate(asked):
        mine = shown.filter(shown["user_id"] == name)
        np.testing.assert_allclose(products[place, order[place]], mine["score"], rtol=1e-5, atol=1e-6)
        ours = model.fitted.items.encode(mine["item_id"].to_list())
        differs = ours != order[place]  # only where scores are equal
        gap = products[place, ours[differs]] - products[place, order[place][differs]]
        assert (np.abs(gap) <= 1e-5 * scores[place].std()).all()
    return made


@pytest.mark.parametrize("case", WITH_VECTORS, ids=label)
def test_products_of_vectors_are_scores_and_rank_as_recommend_does(
    case: tuple[str, dict[str, Any]], world: Interactions
) -> None:
    model = MODELS[case[0]](**case[1]).fit(world)
    made = assert_vectors(model, None)  # with the user who has no history
    assert made.trained.tolist() == [True] * 40 + [False]
    assert_vectors(model, [7, EMPTY, 3])
    assert_vectors(model, NEWCOMERS)


@pytest.mark.parametrize("case", WITH_VECTORS, ids=label)
@pytest.mark.parametrize("under_aur", [False, True], ids=["bare", "AUR"])
def test_the_vector_of_a_newcomer_takes_no_vectors_of_items(
    case: tuple[str, dict[str, Any]], under_aur: bool, world: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Recommender = MODELS[case[0]](**case[1])
    if under_aur:
        model = aur_on(model)
    model.fit(world)
    wanted = {name: model.vectors({name: history}).user_vectors[0] for name, history in NEWCOMERS.items()}
    monkeypatch.setattr(type(model), "factors", lambda *_: pytest.fail("the vectors of the items were made"))
    for name, history in NEWCOMERS.items():
        made = model.user_vector(history)
        assert made.dtype == np.float32
        np.testing.assert_allclose(made, wanted[name], rtol=1e-6, atol=1e-7)
    assert np.array_equal(model.user_vector(np.array([8, 1, 21, 8])), model.user_vector(i for i in (1, 8, 21)))


@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_lam_turns_the_vectors_of_users_alone(lam: float, world: Interactions) -> None:
    """And they are linear in it, so that a client may turn the knob by itself."""
    aur = aur_on(al.MF(dim=3)).fit(world)
    at, safe, bold = (aur.vectors([3, 7, EMPTY], lam=value) for value in (lam, 1.0, 0.0))
    assert np.array_equal(at.item_vectors, safe.item_vectors)
    mixed = lam * safe.user_vectors + (1 - lam) * bold.user_vectors
    np.testing.assert_allclose(at.user_vectors, mixed, rtol=1e-5, atol=1e-6)
    turned, own = aur.user_vector([4, 9], lam=lam), aur.at(lam).user_vector([4, 9])
    assert np.array_equal(turned, own)
    np.testing.assert_allclose(turned @ at.item_vectors.T, aur.at(lam).score({"new": [4, 9]})[0], rtol=1e-4, atol=1e-5)


def test_wrong_histories_and_knobs_are_refused(world: Interactions) -> None:
    model = al.MF(dim=3).fit(world)
    for history in ([], [999], ["4"]):
        with pytest.raises(al.AleatorError, match=f"none of the {len(history)} items in the history of 'newcomer'"):
            model.user_vector(history)
    for wrong in ("4", 4, None):
        with pytest.raises(al.AleatorError, match="give a list of item ids"):
            model.user_vector(wrong)  # type: ignore[arg-type]
    for call in (lambda: model.user_vector([4], lam=0.5), lambda: model.vectors([4], lam=0.5)):
        with pytest.raises(al.AleatorError, match="this MF has no uncertainty, and so no lam; leave lam out"):
            call()
    with pytest.raises(al.AleatorError, match="lam is 2"):
        aur_on(model).fit(world).user_vector([4], lam=2)
    with pytest.raises(al.AleatorError, match="not inner products of vectors; use recommend, or give rank="):
        ease().fit(world).user_vector([4])
    with pytest.raises(al.AleatorError, match="is not fitted"):
        al.MF().user_vector([4])


@pytest.mark.parametrize("name", ["mf", "macr", "multvae", "ue", "popularity"])
def test_a_line_onto_the_scale_of_the_label_costs_one_coordinate(name: str, world: Interactions) -> None:
    (options, *_) = SMALL.get(name, [{}])
    dims = []
    for kind in ("none", "linear"):
        model = MODELS[name](**options, calibrate=kind).fit(world)
        assert_vectors(model, NEWCOMERS)
        dims.append(assert_vectors(model, None).item_vectors.shape[1])
    assert dims[1] == dims[0] + 1


def test_factors_from_elsewhere(world: Interactions) -> None:
    """Also where they do not know all users and items of the data."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(61, 5)) + 0.3, draw.normal(size=(41, 5)) + 0.3
    y += 0.2 * (world.csr.T @ x) / (1 + np.asarray(world.csr.sum(0)).T)  # higher where pairs were observed
    for known, items in ((61, 41), (50, 38)):
        given = (x[:known], y[:items])
        model = al.graft(given, users=list(range(known)), items=list(range(items)), check=False).fit(world)
        assert_vectors(model, None)
        assert_vectors(model, NEWCOMERS)


def test_a_user_without_a_history_is_popularity_and_nothing_else(world: Interactions) -> None:
    made = al.MF(dim=3).fit(world).vectors()
    assert made.user_vectors[EMPTY].tolist() == [0, 0, 0, 1]
    assert (made.user_vectors[:EMPTY, -1] == 0).all()
    np.testing.assert_allclose(made.item_vectors[:, -1], world.popularity / world.n_users, rtol=1e-6)


def test_blocks_of_users_give_what_one_block_gives(world: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    model = al.UE(dim=8, max_epochs=2).fit(world)
    whole = model.vectors()
    monkeypatch.setattr("aleator.ranking.vectors.blocks", lambda *_: (7, 41))
    np.testing.assert_allclose(model.vectors().user_vectors, whole.user_vectors, atol=1e-7)


def test_no_users_and_batches_have_vectors_too(world: Interactions) -> None:
    model = al.MF(dim=3).fit(world)
    assert model.vectors([]).user_vectors.shape == (0, 4)
    assert model.vectors(model.users([5, 2])).user_ids.tolist() == [5, 2]
    assert model.vectors(model.users({"new": [3]})).user_ids.tolist() == [None]
    with pytest.raises(al.AleatorError, match="unknown user 'nobody'"):
        model.vectors(["nobody"])


@pytest.mark.parametrize("name", sorted(REFUSING))
def test_scores_that_are_no_inner_products_have_no_vectors(name: str, world: Interactions) -> None:
    (options, *_) = SMALL.get(name, [{}])
    model = MODELS[name](**options).fit(world)
    with pytest.raises(al.AleatorError, match="not inner products of vectors; use recommend"):
        model.vectors()
    if name not in BY_MATRIX:
        with pytest.raises(al.AleatorError, match="no approximation by inner products; use recommend"):
            model.vectors(rank=3)


def test_nor_do_curves_tables_and_functions(world: Interactions) -> None:
    scores = np.random.default_rng(0).random((61, 41)) + world.csr.toarray()
    listed = {"user_id": [0, 0, 1], "item_id": [*world.item[world.user == 0][:2].tolist(), 5], "score": [2.0, 1.0, 0.5]}
    made: list[al.Model] = [
        al.MF(dim=3, calibrate="isotonic"),
        al.EASE(calibrate="isotonic"),
        al.graft(pl.DataFrame(listed)),
        al.graft(lambda users: scores[users]),
    ]
    for model in made:
        model.fit(world)
        for rank in (None, 2):
            with pytest.raises(al.AleatorError, match="use recommend"):
                model.vectors(rank=rank)


def aur_on(model: Any) -> al.AUR:
    """An AUR whose knobs are all open, but given."""
    small = al.FactorEstimator(dim=4, max_epochs=2)
    given: dict[str, Any] = {"lam": 0.5, "discount": 0.3, "prior": 1.0}
    return al.AUR(model, estimator=small, residuals="in-sample", unobserved="constant", **given)


def ease() -> al.Model:
    return al.EASE(l2=5.0)


def knn() -> al.Model:
    return al.ItemKNN(neighbours=6)


def grafted() -> al.Model:
    draw = np.random.default_rng(0).random((41, 41))
    return al.graft(draw + draw.T)


@pytest.mark.parametrize("make", [ease, knn, al.GraphFilter, grafted])
def test_an_item_item_matrix_has_vectors_of_a_rank(make: Callable[[], al.Model], world: Interactions) -> None:
    model = make().fit(world)
    whole = model.vectors(rank=41)
    assert whole.recall == 1
    products = whole.user_vectors @ whole.item_vectors.T
    scores = model.score(list(range(61))).numpy()
    np.testing.assert_allclose(products, scores, atol=1e-4 * scores.std())
    new = model.vectors(NEWCOMERS, rank=41)
    np.testing.assert_allclose(new.user_vectors @ new.item_vectors.T, model.score(NEWCOMERS), atol=1e-4 * scores.std())

    errors, recalls = [], []
    for rank in (2, 10, 30):
        made = model.vectors(rank=rank)
        assert made.item_vectors.shape == (41, rank + 2)  # and a level, and popularity
        errors.append(np.square(made.user_vectors @ made.item_vectors.T - scores).sum())
        recalls.append(made.recall or 0.0)
    assert errors == sorted(errors, reverse=True)
    assert 0 < recalls[0] < recalls[2] <= 1


def test_a_newcomer_of_a_rank_costs_one_decomposition(world: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    for model in (ease().fit(world), aur_on(al.ItemKNN()).fit(world)):
        wanted = model.vectors({"new": [4, 9]}, rank=5).user_vectors[0]
        other = model.vectors({"new": [4, 9]}, rank=6).user_vectors[0]
        assert np.array_equal(model.user_vector([4, 9], rank=6), other)
        assert np.array_equal(model.user_vector([4, 9], rank=5), wanted)
        with monkeypatch.context() as patch:
            patch.setattr("aleator.models.item_item.low_rank", lambda *_: pytest.fail("it was decomposed again"))
            assert np.array_equal(model.user_vector([4, 9], rank=5), wanted)
        model.fit(world.take(world.user != 5))
        assert not np.array_equal(model.user_vector([4, 9], rank=5), wanted)


def test_the_recall_is_the_share_of_the_exact_lists(world: Interactions) -> None:
    """Literally, over all users: they are fewer than the sample."""
    model = ease().fit(world)
    made = model.vectors(rank=3)
    shares = []
    for user in range(60):
        exact = model.recommend([user], k=20)["item_id"].to_list()
        products = made.item_vectors @ made.user_vectors[user]
        products[[*world.item[world.user == user], UNTRAINED]] = -np.inf
        near = np.argsort(-products)[: len(exact)].tolist()
        shares.append(len(set(exact) & set(near)) / len(exact))
    assert made.recall == pytest.approx(np.mean(shares))


@pytest.mark.parametrize("rank", [0, 42, 2.5, True, "all"])
def test_a_rank_must_be_one(rank: Any, world: Interactions) -> None:
    with pytest.raises(al.AleatorError, match=r"rank is .*from 1 to 41"):
        ease().fit(world).vectors(rank=rank)


def test_exact_vectors_take_no_rank(world: Interactions) -> None:
    with pytest.raises(al.AleatorError, match="inner products already; leave rank out"):
        al.MF(dim=3).fit(world).vectors(rank=2)


@pytest.mark.parametrize("rank", [5, 30])
def test_a_truncated_matrix_is_that_of_the_singular_value_decomposition(rank: int) -> None:
    matrix = torch.randn(30, 30, generator=torch.Generator().manual_seed(1))
    matrix[matrix.abs() < 0.5] = 0
    u, sizes, v = torch.linalg.svd(matrix)
    wanted = (u[:, :rank] * sizes[:rank]) @ v[:rank]
    start = torch.cat([torch.zeros(1, dtype=torch.long), (matrix != 0).sum(1).cumsum(0)])
    sparse = Sparse(start, matrix.nonzero()[:, 1].int(), matrix[matrix != 0])
    for store in (Dense(matrix), sparse):
        users = al.Interactions.of(np.arange(30), np.arange(30))
        everyone = al.Popularity().fit(users).histories.batch(torch.arange(30))
        found = ItemTable(store, level=0.25).low_rank(rank, seed=0)(everyone)
        assert found is not None
        torch.testing.assert_close(found[0] @ found[1].T - 0.25, wanted, atol=2e-3, rtol=1e-3)
