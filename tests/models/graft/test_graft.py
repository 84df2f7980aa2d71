"""Models that were fitted elsewhere: ids are matched by name, the order of the items stays, only the scale is learned."""

from __future__ import annotations

import inspect
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from implicit.cpu.als import AlternatingLeastSquares
from implicit.cpu.bpr import BayesianPersonalizedRanking
from implicit.cpu.lmf import LogisticMatrixFactorization
from implicit.nearest_neighbours import BM25Recommender, CosineRecommender

import aleator as al
from aleator.data.interactions import Interactions
from aleator.data.simulate import simulate
from aleator.models.graft import GRAFTS
from aleator.models.graft.base import Grafted
from tests.contracts import test_models as contracts

world = contracts.world  # a fixture

N_USERS, N_ITEMS, K = 90, 60, 10


@dataclass
class Elsewhere:
    """The training pairs as another library has them: rows and columns in an order of its own."""

    users: list[str]
    items: list[str]
    matrix: sp.csr_matrix

    def fitted(self, model: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(self.matrix, show_progress=False)
        return model


@pytest.fixture(scope="module")
def split() -> al.Split:
    data = simulate(n_users=N_USERS, n_items=N_ITEMS, per_user=300, skew=0.8, seed=1).interactions
    name = np.random.default_rng(0).permutation(1000)  # so that the order of the texts is not that of the numbers
    user, item = ([f"{letter}{name[n]}" for n in column] for letter, column in (("u", data.user), ("i", data.item)))
    return al.read({"user": user, "item": item}).split(valid=0.1, test=0.2, seed=0)


@pytest.fixture(scope="module")
def elsewhere(split: al.Split) -> Elsewhere:
    rng = np.random.default_rng(7)
    users, items = rng.permutation(split.train.n_users), rng.permutation(split.train.n_items)
    matrix = split.train.csr[users][:, items]
    return Elsewhere(split.train.users.decode(users).tolist(), split.train.items.decode(items).tolist(), matrix)


@pytest.fixture(scope="module")
def als(elsewhere: Elsewhere) -> Any:
    return elsewhere.fitted(AlternatingLeastSquares(factors=8, random_state=0, num_threads=1))


@pytest.fixture(scope="module")
def factors(split: al.Split) -> tuple[Any, Any]:
    """In the order of the data."""
    model = AlternatingLeastSquares(factors=8, random_state=0, num_threads=1)
    model.fit(split.train.csr, show_progress=False)
    return model.user_factors, model.item_factors


@pytest.fixture(scope="module")
def similar(split: al.Split) -> Any:
    """Any matrix that the data speaks for, with negative numbers and a diagonal."""
    gram = (split.train.csr.T @ split.train.csr).toarray().astype(np.float64)
    return gram / (10 + gram.diagonal()[:, None]) - 0.02


@pytest.fixture(scope="module")
def listed(als: Any, elsewhere: Elsewhere) -> dict[str, list[Any]]:
    """As recommenders give them: the best 15 of each user but ten, without what was taken."""
    items, scores = als.recommend(np.arange(len(elsewhere.users) - 10), elsewhere.matrix[:-10], N=15)
    return {
        "user_id": [user for user in elsewhere.users[:-10] for _ in range(15)],
        "item_id": [elsewhere.items[i] for i in items.ravel()],
        "score": scores.ravel().tolist(),
    }


def graft_of(model: Any, elsewhere: Elsewhere, **options: Any) -> Grafted:
    users = None if hasattr(model, "similarity") else elsewhere.users
    return al.graft(model, users=users, items=elsewhere.items, **options)


def small_aur(model: al.Model, **options: Any) -> al.AUR:
    return al.AUR(model, estimator=al.FactorEstimator(dim=8, max_epochs=4, lr=0.01), **options)


def ids(split: al.Split) -> tuple[list[Any], list[Any]]:
    data = split.train
    return data.users.decode(np.arange(data.n_users)).tolist(), data.items.decode(np.arange(data.n_items)).tolist()


IMPLICIT: dict[str, Callable[[], Any]] = {
    "als": partial(AlternatingLeastSquares, factors=8, random_state=0, num_threads=1),
    "bpr": partial(BayesianPersonalizedRanking, factors=8, random_state=0, num_threads=1, iterations=50),
    "lmf": partial(LogisticMatrixFactorization, factors=6, random_state=0, num_threads=1),
}


@pytest.mark.parametrize("calibrate", ["linear", "isotonic"])
@pytest.mark.parametrize("name", IMPLICIT)
def test_lists_are_those_that_implicit_itself_recommends(
    name: str, calibrate: Any, split: al.Split, elsewhere: Elsewhere
) -> None:
    model = elsewhere.fitted(IMPLICIT[name]())
    theirs, _ = model.recommend(np.arange(len(elsewhere.users)), elsewhere.matrix, N=K)
    grafted = graft_of(model, elsewhere, calibrate=calibrate)
    grafted.fit_pairs(split.train)
    mine = grafted.recommend(elsewhere.users, k=K, untrained=True)
    assert mine["item_id"].to_list() == [elsewhere.items[i] for i in theirs.ravel()]
    scores = grafted.score(elsewhere.users)
    assert scores.quantile(0.05) > -0.5
    assert scores.quantile(0.95) < 1.5


@pytest.mark.parametrize("kind", [CosineRecommender, BM25Recommender])
def test_neighbours_score_as_in_implicit(kind: Any, split: al.Split, elsewhere: Elsewhere) -> None:
    model = elsewhere.fitted(kind(K=15, num_threads=1))
    grafted = graft_of(model, elsewhere, calibrate="none")
    grafted.fit_pairs(split.train)
    for row in range(0, len(elsewhere.users), 9):
        theirs, scores = model.recommend(row, elsewhere.matrix[row], N=K)
        mine = grafted.recommend([elsewhere.users[row]], k=len(theirs), untrained=True)
        np.testing.assert_allclose(mine["score"], scores, rtol=1e-5)  # the items too, but for those that tie
        asked = [elsewhere.items[i] for i in theirs]
        np.testing.assert_allclose(grafted.score([elsewhere.users[row]], asked)[0], scores, rtol=1e-5)


@pytest.mark.parametrize("calibrate", ["linear", "isotonic"])
def test_on_top_of_it_only_the_estimator_is_trained(
    calibrate: Any, split: al.Split, elsewhere: Elsewhere, als: Any, tmp_path: Path
) -> None:
    before = als.user_factors.copy()
    aur = small_aur(graft_of(als, elsewhere, calibrate=calibrate)).fit(split)
    np.testing.assert_array_equal(als.user_factors, before)
    bare = graft_of(als, elsewhere, calibrate=calibrate).fit(split)
    users = elsewhere.users
    assert torch.equal(aur.model.score(users), bare.score(users))
    assert aur.recommend(users, k=K, lam=1.0)["item_id"].equals(bare.recommend(users, k=K)["item_id"])
    assert len(aur.fitted) == len(split.everything)
    assert aur.choice is not None
    assert aur.choice.curve[0].recall > 0
    assert al.evaluate(aur, split, k=(10,)).mean("overall", "recall@10") > 0.05
    aur.save(tmp_path / "m")
    loaded = al.AUR.load(tmp_path / "m")
    assert torch.equal(loaded.score(users), aur.score(users))
    assert loaded.recommend({"new": elsewhere.items[:3]}, k=5).equals(aur.recommend({"new": elsewhere.items[:3]}, k=5))


class TestFactors:
    def test_without_ids_the_order_is_that_of_the_data(self, split: al.Split, factors: Any) -> None:
        grafted = al.graft(factors, calibrate="none").fit(split)
        expected = torch.from_numpy(factors[0] @ factors[1].T)
        torch.testing.assert_close(grafted.score(ids(split)[0]), expected)
        as_tensors = al.graft(tuple(torch.from_numpy(side).double() for side in factors), calibrate="none").fit(split)
        assert torch.equal(as_tensors.score(ids(split)[0]), grafted.score(ids(split)[0]))
        turned = [side[::-1].copy()[::-1] for side in factors]  # the same numbers, but backwards in memory
        assert torch.equal(
            al.graft(turned, calibrate="none").fit(split).score(ids(split)[0]), grafted.score(ids(split)[0])
        )

    def test_factors_on_a_gpu_are_fetched(self, split: al.Split, factors: Any) -> None:
        class Matrix:
            def __init__(self, values: Any) -> None:
                self.values = values

            def to_numpy(self) -> Any:
                return self.values

        class OnGPU:
            user_factors, item_factors = map(Matrix, factors)

        users = ids(split)[0]
        assert torch.equal(al.graft(OnGPU()).fit(split).score(users), al.graft(factors).fit(split).score(users))

    def test_what_happens_to_the_factors_afterwards_does_not_matter(self, split: al.Split, factors: Any) -> None:
        given = factors[0].copy(), factors[1].copy()
        grafted, users = al.graft(given), ids(split)[0]
        for side in given:
            side[:] = 0
        assert torch.equal(grafted.fit(split).score(users), al.graft(factors).fit(split).score(users))

    def test_users_it_does_not_know_are_served_as_newcomers_of_the_same_history(
        self, split: al.Split, factors: Any
    ) -> None:
        users, items = ids(split)
        grafted = al.graft((factors[0][5:], factors[1]), users=users[5:], items=items)
        grafted.fit_pairs(split.train)
        data = split.train
        history = data.items.decode(data.item[data.user == 2]).tolist()
        torch.testing.assert_close(grafted.score([users[2]]), grafted.score({"new": history}), rtol=1e-3, atol=1e-3)
        whole = al.graft(factors).fit(split.train).score(users)
        torch.testing.assert_close(grafted.score(users[5:]), whole[5:], rtol=0, atol=0.05)
        together = np.corrcoef(grafted.score(users[:5]).flatten(), whole[:5].flatten())[0, 1]
        assert together > 0.7  # much is known of them from their history

    def test_items_it_does_not_know_get_each_users_lowest_score(self, split: al.Split, factors: Any) -> None:
        users, items = ids(split)
        grafted = al.graft((factors[0], factors[1][4:]), users=users, items=items[4:]).fit(split)
        scores = grafted.score(users)
        torch.testing.assert_close(scores[:, :4], scores[:, 4:].amin(1, keepdim=True).expand(-1, 4))
        assert grafted.score({"new": items[:2]}).isfinite().all()

    def test_what_did_not_match_is_counted_and_told(self, split: al.Split, factors: Any, tmp_path: Path) -> None:
        users, items = ids(split)
        x, y = np.r_[factors[0][5:], factors[0][:2]], np.r_[factors[1][4:], factors[1][:1]]
        grafted = al.graft((x, y), users=[*users[5:], "gone", "away"], items=[*items[4:], "sold out"])
        aur = small_aur(grafted).fit(split)
        n_users, n_items = len(users), len(items)
        assert aur.model.reconciled == {  # type: ignore[attr-defined]
            "users": {"both": n_users - 5, "only_data": 5, "only_model": 2},
            "items": {"both": n_items - 4, "only_data": 4, "only_model": 1},
        }
        assert aur.notes == [
            f"graft: 5 of {n_users} users of the data are unknown to the model and are served by their history",
            "graft: 2 of the model's users are not in the data and are left out",
            f"graft: 4 of {n_items} items of the data are unknown to the model and get each user's lowest score",
            "graft: 1 of the model's items are not in the data and are left out",
        ]
        aur.save(tmp_path / "m")
        learned = json.loads((tmp_path / "m" / "manifest.json").read_text())["learned"]
        assert learned["notes"] == aur.notes
        assert learned["model"]["reconciled"] == aur.model.reconciled  # type: ignore[attr-defined]
        assert al.AUR.load(tmp_path / "m").notes == aur.notes

    def test_where_all_match_there_is_nothing_to_tell(self, split: al.Split, factors: Any) -> None:
        assert al.graft(factors).fit(split).notes == []


class TestSimilarities:
    @pytest.mark.parametrize("kind", [np.asarray, sp.csc_matrix, sp.coo_array, torch.from_numpy])
    def test_a_score_is_the_history_times_the_matrix_without_its_diagonal(
        self, split: al.Split, similar: Any, kind: Any
    ) -> None:
        weight = np.linspace(0.5, 2, len(split.train)).astype(np.float32)
        pairs = split.train.user, split.train.item
        data = Interactions.of(*pairs, weight=weight, users=split.train.users, items=split.train.items)
        users, items = ids(split)
        grafted = al.graft(kind(similar), calibrate="none").fit(data)
        for row in (0, 31, 77):
            history = {int(i): float(w) for u, i, w in zip(*pairs, weight, strict=True) if u == row}
            for item in range(0, len(items), 7):
                expected = sum(w * similar[j, item] for j, w in history.items() if j != item)
                assert grafted.score([users[row]], [items[item]]).item() == pytest.approx(expected, abs=1e-5)
        expected = similar[3] + similar[8]
        expected[3], expected[8] = similar[8, 3], similar[3, 8]
        np.testing.assert_allclose(grafted.score({"new": [items[3], items[8]]})[0], expected, atol=1e-5)

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
    def test_items_are_matched_by_name(self, split: al.Split, similar: Any, kind: Any) -> None:
        users, items = ids(split)
        order = np.random.default_rng(3).permutation(len(items))[3:]
        part = similar[order][:, order]
        grafted = al.graft(kind(part), items=[items[i] for i in order], calibrate="none").fit(split)
        expected = np.zeros_like(similar)
        expected[np.ix_(order, order)] = part
        other = al.graft(expected, calibrate="none").fit(split)
        torch.testing.assert_close(grafted.score(users), other.score(users))
        assert grafted.reconciled["items"] == {"both": len(items) - 3, "only_data": 3, "only_model": 0}

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
    def test_the_matrix_given_is_left_as_it_is(self, split: al.Split, similar: Any, kind: Any) -> None:
        given = kind(similar)
        before = given.copy()
        al.graft(given).fit(split)
        assert abs(given - before).max() == 0


class TestFunction:
    def score(self, factors: Any, users: list[Any]) -> Any:
        place = {user: row for row, user in enumerate(users)}
        return lambda asked: factors[0][[place[user] for user in asked]] @ factors[1].T

    def test_it_is_asked_by_ids_and_scores_as_the_factors_behind_it(self, split: al.Split, factors: Any) -> None:
        users, items = ids(split)
        order = np.random.default_rng(0).permutation(len(items))
        function = self.score((factors[0], factors[1][order]), users)
        grafted = al.graft(function, items=[items[i] for i in order]).fit(split)
        torch.testing.assert_close(grafted.score(users), al.graft(factors).fit(split).score(users), atol=1e-5, rtol=0)

    def test_a_batch_is_asked_for_once_whatever_its_parts(self, split: al.Split, factors: Any) -> None:
        users, asked = ids(split)[0], []
        function = self.score(factors, users)

        def counted(who: Any) -> Any:
            asked.append(list(who))
            return function(who)

        grafted = al.graft(counted).fit(split)
        batch = grafted.users(users[:3])
        asked.clear()
        grafted.score_block(batch, torch.tensor([0, 5]))
        grafted.score_pairs(batch)
        grafted.score_block(batch)
        assert asked == [users[:3]]
        grafted.score(users[:2])
        assert asked == [users[:3], users[:2]]

    def test_whom_it_does_not_know_gets_each_items_share_of_the_users(self, split: al.Split, factors: Any) -> None:
        users, items = ids(split)
        grafted = al.graft(self.score((factors[0][5:], factors[1]), users[5:]), users=users[5:]).fit(split)
        share = torch.from_numpy(split.everything.popularity / len(users)).float()
        torch.testing.assert_close(grafted.score(users[:6])[:5], share.expand(5, -1))
        torch.testing.assert_close(grafted.score({"new": items[:2]})[0], share)
        known = grafted.score(users[5:])
        expected = torch.from_numpy(factors[0][5:] @ factors[1].T)
        assert torch.equal(known.argsort(1), expected.argsort(1))
        batch = grafted.users([users[2]])
        torch.testing.assert_close(grafted.score_pairs(batch), share[batch.item])

    def test_items_it_does_not_have_get_each_users_lowest_score(self, split: al.Split, factors: Any) -> None:
        users, items = ids(split)
        grafted = al.graft(self.score((factors[0], factors[1][4:]), users), items=items[4:]).fit(split)
        scores = grafted.score(users)
        torch.testing.assert_close(scores[:, :4], scores[:, 4:].amin(1, keepdim=True).expand(-1, 4))
        torch.testing.assert_close(grafted.score(users, items[2:6]), scores[:, 2:6])

    def test_it_is_not_saved_but_all_else_is_and_it_can_be_given_again(
        self, split: al.Split, factors: Any, tmp_path: Path
    ) -> None:
        users, items = ids(split)
        order = np.random.default_rng(0).permutation(len(items))
        function = self.score((factors[0], factors[1][order]), users)
        aur = small_aur(al.graft(function, items=[items[i] for i in order], calibrate="isotonic")).fit(split)
        with pytest.warns(UserWarning, match="function is not saved"):
            aur.save(tmp_path / "m")
        loaded = al.AUR.load(tmp_path / "m")
        assert torch.equal(loaded.uncertainty(users), aur.uncertainty(users))
        for use in (loaded.score, loaded.recommend, loaded.expectation):
            with pytest.raises(al.AleatorError, match=r"function is not saved.*attach"):
                use(users)
        loaded.model.attach(function)  # type: ignore[attr-defined]
        assert torch.equal(loaded.score(users), aur.score(users))
        assert loaded.recommend(users, k=5).equals(aur.recommend(users, k=5))
        with pytest.raises(al.AleatorError, match=r"loaded cannot be fitted again.*al\.graft"):
            loaded.fit(split)  # the ids of its columns are gone

    @pytest.mark.parametrize(
        ("answer", "problem"),
        [
            (lambda users: np.zeros((len(users), 7)), "scores of shape .*items="),
            (lambda users: np.zeros(len(users)), "1 dimensions"),
            (lambda users: np.full((len(users), N_ITEMS), -np.inf), "not all the scores of the function are finite"),
            (lambda users: None, "0 dimensions"),
            (lambda users: "many", "give an array of numbers"),
        ],
    )
    def test_answers_that_are_no_scores_are_refused(self, split: al.Split, answer: Any, problem: str) -> None:
        with pytest.raises(al.AleatorError, match=problem):
            al.graft(answer).fit(split)


class TestTable:
    def test_listed_pairs_keep_their_order_and_of_others_nothing_is_expected(
        self, split: al.Split, elsewhere: Elsewhere, listed: dict[str, list[Any]]
    ) -> None:
        aur = small_aur(al.graft(pl.DataFrame(listed))).fit(split)
        bare = aur.model
        for user in elsewhere.users[:-10:9]:
            theirs = [i for u, i in zip(listed["user_id"], listed["item_id"], strict=True) if u == user]
            scores = bare.score([user], theirs)[0]
            assert (scores.diff() <= 0).all()
            others = [i for i in elsewhere.items if i not in theirs]
            rest = bare.score([user], others)[0]
            assert (rest == rest[0]).all()
            assert rest[0] <= min(0.0, float(scores.min()))
        assert 0 <= bare.score([elsewhere.users[0]]).max() <= 1.2

    def test_the_spreads_of_the_blend_are_those_of_the_candidates(
        self, split: al.Split, elsewhere: Elsewhere, listed: dict[str, list[Any]]
    ) -> None:
        """By hand: the within-user variance over listed pairs that were not taken."""
        aur = small_aur(al.graft(pl.DataFrame(listed))).fit(split)
        data, pairs = aur.fitted, set(zip(listed["user_id"], listed["item_id"], strict=True))
        taken = set(zip(data.users.decode(data.user), data.items.decode(data.item), strict=True))
        popularity, items = data.popularity, list(data.items.decode(np.arange(data.n_items)))
        variances = []
        for user in sorted({user for user, _ in taken}):
            own = [
                i for p, i in zip(popularity, items, strict=True) if p and (user, i) in pairs and (user, i) not in taken
            ]
            if len(own) > 1:
                variances.append(np.var(aur.model.score([user], own)[0].double().numpy()))
        assert aur.spreads is not None
        assert aur.spreads.r == pytest.approx(np.sqrt(np.mean(variances)), rel=1e-4)

    def test_the_scale_is_that_of_the_pairs_held_out_since_those_taken_are_not_listed(
        self, split: al.Split, listed: dict[str, list[Any]]
    ) -> None:
        """A line by weighted least squares over the listed pairs, where a held-out pair has the label 1."""
        grafted = al.graft(pl.DataFrame(listed), mu=0.2).fit(split)  # on train and valid
        data = split.everything
        users, items = data.users.decode(data.user), data.items.decode(data.item)
        taken = set(zip(users, items, strict=True))
        label = np.array([float(p in taken) for p in zip(listed["user_id"], listed["item_id"], strict=True)])
        assert label.sum() > 10
        root = np.sqrt(np.where(label > 0, 1, 0.2))
        x = np.array(listed["score"])
        (level, slope), *_ = np.linalg.lstsq(np.stack([root, root * x], 1), root * label)
        for place in range(0, len(x), 50):
            found = grafted.score([listed["user_id"][place]], [listed["item_id"][place]]).item()
            assert found == pytest.approx(level + slope * x[place], abs=1e-4)

    def test_users_without_candidates_get_each_items_share_of_the_users(
        self, split: al.Split, elsewhere: Elsewhere, listed: dict[str, list[Any]]
    ) -> None:
        grafted = al.graft(pl.DataFrame(listed)).fit(split)
        share = torch.from_numpy(split.everything.popularity / split.train.n_users).float()
        torch.testing.assert_close(grafted.score(elsewhere.users[-10:]), share.expand(10, -1))

    def test_any_frame_will_do_and_the_order_of_its_rows_does_not_matter(
        self, split: al.Split, elsewhere: Elsewhere, listed: dict[str, list[Any]]
    ) -> None:
        users = elsewhere.users
        expected = al.graft(pl.DataFrame(listed)).fit(split).score(users)
        pyarrow = pytest.importorskip("pyarrow")
        shuffled = pl.DataFrame(listed).sample(fraction=1, shuffle=True, seed=0)
        for frame in (pd.DataFrame(listed), pyarrow.table(listed), shuffled):
            torch.testing.assert_close(al.graft(frame).fit(split).score(users), expected)

    def test_a_score_of_0_is_a_score(self, split: al.Split, elsewhere: Elsewhere) -> None:
        user, items = elsewhere.users[0], elsewhere.items[:3]
        frame = pl.DataFrame({"user_id": [user] * 3, "item_id": items, "score": [-1.0, 0.0, 0.5]})
        grafted = al.graft(frame, calibrate="none").fit(split)
        assert grafted.score([user], [*items, elsewhere.items[3]])[0].tolist() == [-1.0, 0.0, 0.5, -1.0]

    def test_ids_that_the_data_does_not_have_are_left_out_and_counted(
        self, split: al.Split, elsewhere: Elsewhere, listed: dict[str, list[Any]]
    ) -> None:
        more = {
            "user_id": [*listed["user_id"], "nobody", elsewhere.users[0]],
            "item_id": [*listed["item_id"], elsewhere.items[0], "nothing"],
            "score": [*listed["score"], 9.0, 9.0],
        }
        grafted = al.graft(pl.DataFrame(more)).fit(split)
        expected = al.graft(pl.DataFrame(listed)).fit(split)
        torch.testing.assert_close(grafted.score(elsewhere.users), expected.score(elsewhere.users))
        assert grafted.reconciled["users"] == {"both": len(elsewhere.users) - 10, "only_data": 10, "only_model": 1}
        assert grafted.reconciled["items"]["only_model"] == 1

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (lambda f: f.rename({"score": "points"}), "no column 'score'.*points"),
            (lambda f: f.head(0), "no rows"),
            (lambda f: pl.concat([f, f.head(2)]), "2 pairs are twice"),
            (lambda f: f.with_columns(score=pl.lit("high")), "no numbers"),
            (lambda f: f.with_columns(score=pl.lit(None)), "missing or not finite|no numbers"),
            (lambda f: f.with_columns(item_id=pl.lit(None)), "missing values|item ids"),
            (lambda f: f.lazy(), "is no table"),
        ],
    )
    def test_tables_that_are_no_lists_of_candidates_are_refused(
        self, listed: dict[str, list[Any]], change: Any, problem: str
    ) -> None:
        with pytest.raises(al.AleatorError, match=problem):
            al.graft(change(pl.DataFrame(listed)))

    def test_candidates_none_of_which_was_taken_have_no_scale_to_learn(
        self, split: al.Split, listed: dict[str, list[Any]]
    ) -> None:
        with pytest.raises(al.AleatorError, match=r"no candidate of the table was taken.*calibrate='none'"):
            al.graft(pl.DataFrame(listed)).fit(split.train)
        grafted = al.graft(pl.DataFrame(listed), calibrate="none").fit(split.train)
        found = grafted.score(listed["user_id"][:1], listed["item_id"][:1]).item()
        assert found == pytest.approx(listed["score"][0])

    def test_without_a_refit_the_scale_is_that_of_the_pairs_held_out_too(
        self, split: al.Split, listed: dict[str, list[Any]]
    ) -> None:
        """The fair comparison of docs/graft.md: alone and beside the estimator, both on train."""
        frame = pl.DataFrame(listed)
        alone = al.graft(frame, refit=False).fit(split)
        beside = small_aur(al.graft(frame), refit=False).fit(split)
        assert len(alone.fitted) == len(split.train)
        users = ids(split)[0]
        torch.testing.assert_close(alone.score(users), beside.model.score(users))

    def test_scores_that_are_lower_on_what_was_taken_are_refused(
        self, split: al.Split, listed: dict[str, list[Any]]
    ) -> None:
        reversed_ = pl.DataFrame(listed).with_columns(-pl.col("score"))
        with pytest.raises(al.AleatorError, match=r"no higher on observed pairs.*check its ids, and that its model"):
            small_aur(al.graft(reversed_)).fit(split)

    def test_no_pair_in_common_is_refused(self, split: al.Split, elsewhere: Elsewhere) -> None:
        user, item = elsewhere.users[0], elsewhere.items[0]
        frame = pl.DataFrame({"user_id": [user, "nobody"], "item_id": ["nothing", item], "score": [1.0, 2.0]})
        with pytest.raises(al.AleatorError, match="no candidate of the table has both"):
            al.graft(frame).fit(split)


class TestMistakes:
    def test_other_sizes_without_ids(self, split: al.Split, factors: Any) -> None:
        n_users, n_items = len(factors[0]), len(factors[1])
        for pair, problem in (
            ((factors[0][1:], factors[1]), f"{n_users - 1} users and the data has {n_users}; give users="),
            ((factors[0], factors[1][1:]), f"{n_items - 1} items and the data has {n_items}; give items="),
        ):
            with pytest.raises(al.AleatorError, match=problem):
                al.graft(pair).fit(split)
        with pytest.raises(al.AleatorError, match="give items="):
            al.graft(np.eye(n_items + 1)).fit(split)

    def test_ids_that_are_not_those_of_the_rows(self, split: al.Split, factors: Any) -> None:
        users, items = ids(split)
        n_items = len(items)
        for given, problem in (
            ({"users": users[1:]}, f"{len(users) - 1} user ids for the {len(users)} users"),
            ({"items": [*items, "more"]}, f"{n_items + 1} item ids for the {n_items} items"),
            ({"items": [items[0], *items[:-1]]}, "item .* is twice"),
            ({"items": list(range(n_items))}, r"no item in common: the model has ids such as \[0\], and the data \['i"),
            ({"users": "u1"}, "there is no file 'u1'"),
        ):
            with pytest.raises(al.AleatorError, match=problem):
                al.graft(factors, **given).fit(split)

    @pytest.mark.parametrize("calibrate", ["linear", "isotonic"])
    def test_scores_that_are_no_higher_on_observed_pairs_are_refused_since_their_order_would_be_lost(
        self, split: al.Split, factors: Any, calibrate: Any
    ) -> None:
        with pytest.raises(al.AleatorError, match=r"no higher on observed pairs.*users= and items="):
            al.graft((-factors[0], factors[1]), calibrate=calibrate).fit(split)
        grafted = al.graft((-factors[0], factors[1]), calibrate="none", check=False).fit(split)
        assert grafted.score(ids(split)[0]).isfinite().all()

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ("als", r"'als' cannot be grafted; give two files of factors, a \.npz matrix or a table"),
            ((np.eye(3) * 1j, np.eye(3)), "user factors are a ndarray; give an array of numbers"),
            ((np.full((3, 2), 1e300), np.ones((4, 2))), "not all the user factors are finite"),
            (None, "a NoneType cannot be grafted"),
            ((1, 2, 3), "a tuple of 3"),
            ((np.eye(3), np.ones((4, 2))), "3 dimensions and the item factors 2"),
            ((np.ones(3), np.ones((4, 3))), "user factors have 1 dimensions"),
            ((np.full((3, 2), np.nan), np.ones((4, 2))), "not all the user factors are finite"),
            ((["a"], [["b"]]), "user factors are a list"),
            (np.ones((3, 4)), "3 rows and 4 columns"),
            (sp.csr_matrix(np.full((3, 3), np.inf)), "not all the similarities are finite"),
            (AlternatingLeastSquares(), "not fitted"),
            (CosineRecommender(), "not fitted"),
            (al.MF(), "needs no graft"),
        ],
    )
    def test_what_cannot_be_grafted(self, given: Any, problem: str) -> None:
        with pytest.raises(al.AleatorError, match=problem):
            al.graft(given)

    def test_ids_where_there_is_nothing_to_name(self) -> None:
        with pytest.raises(al.AleatorError, match="users= was given with an item-item matrix"):
            al.graft(np.eye(3), users=[1, 2, 3])
        frame = pl.DataFrame({"user_id": [1], "item_id": [1], "score": [1.0]})
        with pytest.raises(al.AleatorError, match="given with a table"):
            al.graft(frame, items=[1])

    def test_a_model_that_knows_nobody_with_a_history(self, split: al.Split, factors: Any) -> None:
        users, _ = ids(split)
        gone = split.train.take(split.train.user != 0)
        with pytest.raises(al.AleatorError, match="no user that the model knows has a history"):
            al.graft((factors[0][:1], factors[1]), users=users[:1]).fit(gone)

    def test_options_are_those_that_have_an_effect(self) -> None:
        for name in ("dim", "neighbours", "sede"):
            with pytest.raises(al.AleatorError, match=f"unknown option .*'{name}'"):
                al.graft(np.eye(3), **{name: 1})


class TestHonestChoice:
    def test_lam_is_not_chosen_on_pairs_that_the_model_may_know(self, split: al.Split, factors: Any) -> None:
        bare = al.Split(split.everything, split.valid.take(np.zeros(len(split.valid), bool)), split.test)
        for data in (bare, split.everything):
            with pytest.raises(al.AleatorError, match=r"lam cannot be chosen.*carve\(0\.1\).*split\.train.*lam=0\.5"):
                small_aur(al.graft(factors)).fit(data)
            aur = small_aur(al.graft(factors), lam=0.5).fit(data)
            assert aur.lam_used == 0.5
            assert aur.notes == [
                "graft: the estimator's epochs were chosen on pairs that the model may have been fitted on"
            ]
        assert small_aur(al.graft(factors)).fit(bare.carve(0.1)).notes == []

    def test_the_papers_recipe_chooses_on_the_test_part_anyway(self, split: al.Split, factors: Any) -> None:
        bare = al.Split(split.everything, split.valid.take(np.zeros(len(split.valid), bool)), split.test)
        estimator = al.FactorEstimator(dim=8, max_epochs=2)
        assert al.AUR(al.graft(factors), estimator=estimator, recipe="paper").fit(bare).notes == []

    def test_residuals_out_of_sample_would_take_fitting_again(self, split: al.Split, factors: Any) -> None:
        with pytest.raises(al.AleatorError, match=r"fitted elsewhere.*residuals in-sample"):
            small_aur(al.graft(factors), residuals="loo").fit(split)

    def test_it_cannot_be_trained_jointly(self, split: al.Split, factors: Any) -> None:
        with pytest.raises(al.AleatorError, match="cannot be trained jointly"):
            small_aur(al.graft(factors), joint=al.Joint()).fit(split)


def outside(kind: str, data: Interactions) -> Any:
    """Something to graft onto the users and items of the contracts."""
    dense = data.csr.toarray()
    taste = dense @ (dense.T @ dense) / 50 + 0.01 * np.random.default_rng(0).random(dense.shape)
    u, s, v = np.linalg.svd(taste, full_matrices=False)
    user, item = np.nonzero(taste > np.quantile(taste, 0.3))
    return {
        "factors": (u[:, :8] * s[:8], v[:8].T),
        "similarities": dense.T @ dense / 50,
        "function": lambda users: taste[users],
        "table": pl.DataFrame({"user_id": user, "item_id": item, "score": taste[user, item]}),
    }[kind]


SHARED = [
    contracts.test_scores_are_finite_for_the_rarest_users_and_items,
    contracts.test_an_item_and_a_user_without_a_training_pair_are_scored_too,
    contracts.test_what_is_loaded_scores_as_what_was_saved,
    contracts.test_saving_what_was_loaded_gives_the_same_files,
    contracts.test_the_same_seed_gives_the_same_bits,
    contracts.test_fitting_again_gives_what_a_new_model_gives,
    contracts.test_the_order_of_the_rows_does_not_matter,
    contracts.test_scores_do_not_depend_on_the_batch_nor_on_which_items_are_asked_for,
    contracts.test_scores_are_handed_out_as_a_copy,
    contracts.test_recommendations_do_not_depend_on_the_memory_they_may_take,
    contracts.test_new_users_are_served_by_their_history,
    contracts.test_fitting_changes_nothing_of_what_it_was_given,
    contracts.test_options_are_checked_by_name,
    contracts.test_it_says_that_it_is_not_fitted,
    contracts.test_the_test_part_is_never_touched,
    contracts.test_scores_lie_near_the_scale_of_the_label,
]


@pytest.mark.parametrize("contract", SHARED, ids=lambda c: c.__name__)
@pytest.mark.parametrize("kind", ["factors", "similarities", "table", "function"])
def test_the_contracts_of_every_model_hold(
    contract: Any, kind: str, world: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "function" and "loaded" in contract.__name__:
        pytest.skip("a function is not saved")
    check = kind != "similarities"  # without the pair itself, the rest of a history tells too little in some parts
    monkeypatch.setattr(contracts, "MODELS", {kind: partial(al.graft, outside(kind, world), check=check)})
    given = {"case": (kind, {}), "world": world, "tmp_path": tmp_path}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the grafted function is not saved")
        contract(**{name: given[name] for name in inspect.signature(contract).parameters})


def test_the_docstrings_cite_and_say_what_a_score_means() -> None:
    for kind in GRAFTS:
        assert re.search(r"r_ui.*\(.*(19|20)\d\d\)", kind.__doc__ or "", re.S), kind
