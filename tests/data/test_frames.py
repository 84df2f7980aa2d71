"""Frames: columns come back as the kind of frame that was asked for, and a given frame keeps what it had."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from aleator.data.frames import opened, to_frame, with_columns
from aleator.errors import AleatorError

KINDS: dict[str, Callable[[Any], Any]] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
TYPES: dict[str, type] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
COLUMNS: dict[str, Any] = {
    "genre": ["war", "war", "art"],
    "item_id": ["a", "b", "c"],
    "score": [0.1, 0.2, 0.3],
    "user_id": [7, 8, 9],
}


def rows_of(frame: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = nw.from_native(frame, eager_only=True).rows(named=True)
    return rows


# to_frame


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_is_of_the_kind_that_was_asked_for(kind: str) -> None:
    frame = to_frame({"user_id": ["u", "v"], "score": np.array([0.5, 1.5])}, kind)
    assert isinstance(frame, TYPES[kind])
    assert rows_of(frame) == [{"user_id": "u", "score": 0.5}, {"user_id": "v", "score": 1.5}]


def test_a_frame_of_no_kind_is_polars() -> None:
    assert isinstance(to_frame({"a": [1]}, None), pl.DataFrame)


def without(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a library seem not to be installed."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else find_spec(name))


def test_without_polars_a_frame_of_no_kind_is_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    without("polars", monkeypatch)
    assert isinstance(to_frame({"a": [1]}, None), pd.DataFrame)


@pytest.mark.parametrize(("kind", "says"), [("pandas", "a pandas frame needs"), ("pyarrow", "an arrow table needs")])
def test_a_library_that_is_missing_is_named(kind: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(kind, monkeypatch)
    with pytest.raises(AleatorError, match=f"{says} the library {kind}; install {kind}"):
        to_frame({"a": [1]}, kind)


# opened


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_is_opened(kind: str) -> None:
    frame = opened(KINDS[kind](COLUMNS), "user_id", "item_id")
    assert frame.columns == list(COLUMNS)
    assert frame["user_id"].to_list() == [7, 8, 9]


def test_a_narwhals_frame_is_opened_as_it_is() -> None:
    assert opened(nw.from_native(pl.DataFrame(COLUMNS))).columns == list(COLUMNS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_column_is_named_with_those_that_are_there(kind: str) -> None:
    with pytest.raises(AleatorError, match="the table has no column 'rank'; it has genre, item_id, score, user_id"):
        opened(KINDS[kind](COLUMNS), "user_id", "rank")


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ([(1, 2)], "list"),
        ({"user_id": [1]}, "dict"),
        (np.eye(2), "ndarray"),
        (pd.Series([1]), "Series"),
        (pl.LazyFrame({"user_id": [1]}), "LazyFrame"),
        (None, "NoneType"),
    ],
)
def test_what_is_not_a_frame_is_refused(table: Any, name: str) -> None:
    with pytest.raises(AleatorError, match=f"a {name} is no table; give a frame of pandas, polars or pyarrow"):
        opened(table)


# with_columns


@pytest.mark.parametrize("kind", KINDS)
def test_new_columns_stand_between_the_ids_and_the_rest(kind: str) -> None:
    frame = opened(KINDS[kind](COLUMNS))
    made = with_columns(frame, np.array([2, 0]), {"rank": np.array([1, 2])})
    assert isinstance(made, TYPES[kind])
    assert rows_of(made) == [
        {"item_id": "c", "user_id": 9, "rank": 1, "genre": "art", "score": 0.3},
        {"item_id": "a", "user_id": 7, "rank": 2, "genre": "war", "score": 0.1},
    ]
    assert list(rows_of(made)[0]) == ["item_id", "user_id", "rank", "genre", "score"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_given_column_of_the_same_name_is_kept_under_another(kind: str) -> None:
    frame = opened(KINDS[kind](COLUMNS))
    made = with_columns(frame, np.array([0, 1]), {"score": np.array([5.0, 6.0])})
    assert [(row["score"], row["given_score"]) for row in rows_of(made)] == [(5.0, 0.1), (6.0, 0.2)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_call_replaces_what_the_first_one_kept(kind: str) -> None:
    first = with_columns(opened(KINDS[kind](COLUMNS)), np.array([0, 1]), {"score": np.array([5.0, 6.0])})
    second = with_columns(opened(first), np.array([0, 1]), {"score": np.array([8.0, 9.0])})
    assert [(row["score"], row["given_score"]) for row in rows_of(second)] == [(8.0, 5.0), (9.0, 6.0)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_given_frame_is_not_changed(kind: str) -> None:
    table = KINDS[kind](COLUMNS)
    with_columns(opened(table), np.array([1]), {"score": np.array([5.0])})
    assert rows_of(table) == rows_of(KINDS[kind](COLUMNS))


def test_rows_of_a_pandas_frame_are_taken_by_position_and_numbered_anew() -> None:
    table = pd.DataFrame(COLUMNS, index=[30, 20, 10])
    made = with_columns(opened(table), np.array([2, 0]), {"rank": np.array([1, 2])})
    assert made["item_id"].tolist() == ["c", "a"]
    assert made.index.tolist() == [0, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_give_an_empty_frame_with_all_columns(kind: str) -> None:
    made = with_columns(opened(KINDS[kind](COLUMNS)), np.array([], int), {"rank": np.array([], int)})
    assert len(made) == 0
    assert list(nw.from_native(made, eager_only=True).columns) == ["item_id", "user_id", "rank", "genre", "score"]
