"""Allowed and denied items, from ids and from files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from aleator.batch.listed import Listed, listed
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError

USERS = Vocabulary(np.array([1, 2, 3]))
ITEMS = Vocabulary(np.array(["a", "b", "c"], np.dtypes.StringDType()))


def read(given: Any, name: str = "deny") -> Listed:
    return listed(given, name, USERS, ITEMS)[0]


def each(lists: Listed, ids: list[Any]) -> list[list[int]]:
    """The dense items of each of the users."""
    histories = lists.of(ids, torch.device("cpu"))
    ends = histories.indptr.tolist()
    return [histories.item[a:b].tolist() for a, b in pairwise(ends)]


def test_one_list_for_all_and_one_for_each(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text("sku,item_id\n9,c\n8,a\n8,a\n")
    (tmp_path / "each.csv").write_text("customer_id,item\n3,c\n1,b\n3,a\n3,a\n")
    for_all: list[Any] = [["c", "a"], tmp_path / "all.csv"]
    for_each: list[Any] = [{3: ["c", "a"], 1: ["b"]}, tmp_path / "each.csv"]
    for given in for_all:
        found = read(given)
        assert found.users is None
        assert found.for_recommend([1], ITEMS) == ["a", "c"]
    for given in for_each:
        found = read(given)
        assert each(found, [2, 3, 1, 77]) == [[], [0, 2], [1], []]
        assert found.for_recommend([3, 2], ITEMS) == {3: ["a", "c"], 2: []}


def test_ids_of_files_match_as_texts(tmp_path: Path) -> None:
    pl.DataFrame({"user_id": ["3", "x"], "item_id": ["b", "a"]}).write_parquet(tmp_path / "x.parquet")
    assert each(read(tmp_path / "x.parquet"), [3, 1]) == [[1], []]
    numbers = Vocabulary(np.array([2**53, 2**53 + 1]))
    pl.DataFrame({"item_id": [str(2**53 + 1), "what"]}).write_csv(tmp_path / "y.csv")
    assert listed(tmp_path / "y.csv", "deny", USERS, numbers)[0].items.indices.tolist() == [1]


def test_what_the_model_does_not_know_is_counted(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("user_id,item_id\n7,a\n8,zz\n8,b\n")
    found, notes = listed(tmp_path / "x.csv", "deny", USERS, ITEMS)
    assert notes == [
        "deny: 1 of 3 rows are of items that the model does not know",
        f"deny: no user of '{tmp_path / 'x.csv'}' is known to the model",
    ]
    assert each(found, [8, 7]) == [[1], [0]]  # they may be served without being known


def test_nothing_may_be_denied_but_something_must_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text("item_id\n")
    (tmp_path / "each.csv").write_text("user_id,item_id\n")
    assert read(tmp_path / "all.csv").for_recommend([1], ITEMS) == []
    assert each(read(tmp_path / "each.csv"), [1, 2]) == [[], []]
    with pytest.raises(AleatorError, match="has no rows; give at least one item"):
        read(tmp_path / "all.csv", "allow")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("user_id,thing\n1,a\n", "has no item column among user_id, thing"),
        ("item_id\nx\ny\n", "no item of .* is known to the model; its items are such as 'a'"),
    ],
)
def test_files_that_make_no_sense_are_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(AleatorError, match=says):
        read(tmp_path / "x.csv")


def test_missing_values_and_other_files_are_refused(tmp_path: Path) -> None:
    pl.DataFrame({"user_id": [1, None], "item_id": ["a", "b"]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(AleatorError, match=r"column 'user_id' of .* has 1 missing values"):
        read(tmp_path / "x.parquet")
    (tmp_path / "x.npz").write_bytes(b"x")
    with pytest.raises(AleatorError, match="is no table"):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (5, "deny is 5; give a list"),
        ({1: "a"}, "deny of 1 is 'a'"),
        (["x"], "unknown item 'x'"),
        ({1: ["x"]}, "item 'x'"),
    ],
)
def test_ids_that_make_no_sense_are_refused(given: Any, says: str) -> None:
    with pytest.raises(AleatorError, match=says):
        read(given)


def test_a_fingerprint_tells_lists_apart() -> None:
    given: list[Any] = [["a"], ["b"], ["a", "b"], {1: ["a"]}, {2: ["a"]}, {1: ["b"]}, {1: ["a"], 2: ["b"]}]
    assert len({read(lists).fingerprint for lists in given}) == len(given)
    assert read(["b", "a"]).fingerprint == read(["a", "b", "a"]).fingerprint
