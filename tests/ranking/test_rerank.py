"""Candidates from elsewhere in the order of a recommender's own scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import aleator as al
from aleator.device import BUDGETS

CANDIDATES: dict[str, list[Any]] = {
    "user_id": [7, 3, 7, 3, 7, 60],
    "item_id": [4, 1, 0, 2, 1, 1],
    "source": ["a", "b", "c", "d", "e", "f"],
}
TOLD = ["rank", "score", "expectation", "uncertainty", "popularity", "tail"]


def test_rows_come_by_user_as_they_come_and_by_score(fitted_aur: al.AUR) -> None:
    found = fitted_aur.rerank(pl.DataFrame(CANDIDATES))
    assert found.columns == ["user_id", "item_id", *TOLD, "source"]
    assert found["user_id"].to_list() == [7, 7, 7, 3, 3, 60]
    assert found["rank"].to_list() == [1, 2, 3, 1, 2, 1]
    source = dict(
        zip(zip(CANDIDATES["user_id"], CANDIDATES["item_id"], strict=True), CANDIDATES["source"], strict=True)
    )
    for row in found.rows(named=True):
        user, item = [row["user_id"]], [row["item_id"]]
        assert row["source"] == source[row["user_id"], row["item_id"]]
        assert row["score"] == pytest.approx(fitted_aur.score(user, item).item(), abs=1e-6)
        assert row["expectation"] == pytest.approx(fitted_aur.expectation(user, item).item(), abs=1e-6)
        assert row["uncertainty"] == pytest.approx(fitted_aur.uncertainty(user, item).item(), abs=1e-6)
    for number in (7, 3):
        assert found.filter(user_id=number)["score"].is_sorted(descending=True)


def test_the_whole_catalogue_reranked_is_the_list_that_is_recommended(fitted_aur: al.AUR) -> None:
    users, items = np.repeat(np.arange(80), 50), np.tile(np.arange(50), 80)
    found = fitted_aur.rerank(pl.DataFrame({"user_id": users, "item_id": items}), k=9, lam=0.3)
    expected = fitted_aur.recommend(list(range(80)), k=9, lam=0.3, filter_seen=False, untrained=True)
    for name in ("user_id", "item_id", "rank", "tail"):
        assert found[name].to_list() == expected[name].to_list()
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-5)


def test_a_bare_model_reranks_too(fitted_aur: al.AUR) -> None:
    found = fitted_aur.model.rerank(pl.DataFrame(CANDIDATES), k=1)
    assert found.columns == ["user_id", "item_id", "rank", "score", "popularity", "tail", "source"]
    assert (
        found["item_id"].to_list()[0]
        == fitted_aur.model.recommend([7], k=1, allow=[4, 0, 1], filter_seen=False, untrained=True)["item_id"].item()
    )
    assert found["user_id"].to_list() == [7, 3, 60]


def test_lam_turns_the_knob_for_one_call(fitted_aur: al.AUR) -> None:
    found = fitted_aur.rerank(pl.DataFrame(CANDIDATES), lam=0.0)
    for user in found["user_id"].unique():  # the uncertainty rises with the score
        assert found.filter(user_id=user)["uncertainty"].is_sorted(descending=True)
    assert fitted_aur.rerank(pl.DataFrame(CANDIDATES))["score"].to_list() != found["score"].to_list()
    with pytest.raises(al.AleatorError, match="lam is"):
        fitted_aur.rerank(pl.DataFrame(CANDIDATES), lam=2.0)


def test_a_score_that_was_given_is_kept_beside_and_not_used(fitted_aur: al.AUR) -> None:
    given = pl.DataFrame(CANDIDATES | {"score": [9.0, 8.0, 7.0, 6.0, 5.0, 4.0], "rank": [1, 1, 2, 2, 3, 1]})
    found, expected = fitted_aur.rerank(given), fitted_aur.rerank(pl.DataFrame(CANDIDATES))
    assert found.select(expected.columns).equals(expected)
    assert found.columns[-3:] == ["source", "given_score", "given_rank"]
    assert dict(zip(found["source"], found["given_score"], strict=True)) == dict(
        zip(given["source"], given["score"], strict=True)
    )
    again = fitted_aur.rerank(found)  # what was ours a moment ago is now what was given
    assert again["given_score"].to_list() == found["score"].to_list()


def test_the_frame_comes_back_in_its_kind(fitted_aur: al.AUR) -> None:
    expected = fitted_aur.rerank(pl.DataFrame(CANDIDATES))
    pyarrow = pytest.importorskip("pyarrow")
    frame = pd.DataFrame(CANDIDATES, index=[5, 5, 8, 9, 1, 0])
    before = frame.copy()
    found = fitted_aur.rerank(frame)
    pd.testing.assert_frame_equal(found, pd.DataFrame(expected.to_dict(as_series=False)))
    pd.testing.assert_frame_equal(frame, before)
    table = fitted_aur.rerank(pyarrow.table(CANDIDATES))
    assert isinstance(table, pyarrow.Table)
    assert table.to_pydict() == expected.to_dict(as_series=False)


def test_no_candidates_give_no_rows_but_the_columns(fitted_aur: al.AUR) -> None:
    for frame in (pl.DataFrame(CANDIDATES).head(0), pd.DataFrame(CANDIDATES).head(0)):
        found = fitted_aur.rerank(frame)
        assert len(found) == 0
        assert list(found.columns) == ["user_id", "item_id", *TOLD, "source"]


def test_memory_changes_nothing(fitted_aur: al.AUR, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"user_id": rng.integers(80, size=300), "item_id": rng.integers(50, size=300)})
    whole = fitted_aur.rerank(frame)  # with pairs that stand twice: both rows come back
    assert len(whole) == 300
    monkeypatch.setitem(BUDGETS, "cpu", replace(BUDGETS["cpu"], score_bytes=24 * 50 * 3))  # three users at a time
    part = fitted_aur.rerank(frame)
    assert part.select("user_id", "item_id", "rank").equals(whole.select("user_id", "item_id", "rank"))
    np.testing.assert_allclose(part["score"], whole["score"], atol=1e-6)


def test_unknown_ids_are_an_error_or_left_out_and_counted(fitted_aur: al.AUR) -> None:
    frame = pl.DataFrame({"user_id": [7, 999, 3, 3], "item_id": [0, 0, 888, 1]})
    with pytest.raises(al.AleatorError, match="unknown user 999"):
        fitted_aur.rerank(frame)
    with pytest.raises(al.AleatorError, match="unknown item 888"):
        fitted_aur.rerank(frame.filter(pl.col("user_id") != 999))
    with pytest.warns(UserWarning, match="2 of 4 candidates"):
        found = fitted_aur.rerank(frame, missing="drop")
    assert found["user_id"].to_list() == [7, 3]
    assert found["item_id"].to_list() == [0, 1]


@pytest.mark.parametrize(
    ("frame", "options", "problem"),
    [
        (pl.DataFrame({"user": [1], "item_id": [1]}), {}, "no column 'user_id'.*it has user, item_id"),
        ([(1, 2)], {}, "a list is no table"),
        (pl.DataFrame(CANDIDATES), {"k": 0}, "k is 0"),
        (pl.DataFrame(CANDIDATES), {"k": True}, "k is True"),
        (pl.DataFrame(CANDIDATES), {"missing": "ignore"}, "missing is 'ignore'"),
    ],
)
def test_mistakes_are_told(fitted_aur: al.AUR, frame: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(al.AleatorError, match=problem):
        fitted_aur.rerank(frame, **options)


def test_a_table_is_reranked_by_the_model_that_was_grafted_from_it(split: al.Split) -> None:
    """Its scores are then used after all: they are the expectation."""
    rng = np.random.default_rng(0)
    pairs = rng.permutation(80 * 50)[:1500]
    taken = split.everything.csr.toarray()[pairs // 50, pairs % 50]
    frame = pl.DataFrame({"user_id": pairs // 50, "item_id": pairs % 50, "score": 5 * taken + rng.random(1500)})
    estimator = al.FactorEstimator(dim=8, max_epochs=2, lr=0.01)
    aur = al.AUR(al.graft(frame), estimator=estimator).fit(split)
    found = aur.rerank(frame, lam=1.0)
    assert found["given_score"].to_list() == sorted_by_user(frame)
    assert aur.spreads is not None
    np.testing.assert_allclose(found["score"], found["expectation"] / aur.spreads.r, rtol=1e-5)


def sorted_by_user(frame: pl.DataFrame) -> list[float]:
    users = frame["user_id"].unique(maintain_order=True)
    return [s for user in users for s in frame.filter(user_id=user)["score"].sort(descending=True)]
