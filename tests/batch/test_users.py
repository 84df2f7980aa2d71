"""Tables of users come in parts of equal size, whatever holds them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleator.batch import users as module
from aleator.batch.users import Roll, Table
from aleator.data import limits
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError

TEXTS = Vocabulary(np.array(["10", "20", "a", "b"], np.dtypes.StringDType()))
NUMBERS = Vocabulary(np.array([10, 20, 30]))


def rows_of(
    source: Any, ids: Vocabulary = TEXTS, size: int = 2, user: str | None = None
) -> list[list[tuple[Any, ...]]]:
    return [frame.rows() for frame in Table.of(source, user, ids).parts(size)]


@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6), size=st.integers(1, 12))
def test_parts_have_equal_size_and_all_users_in_their_order(lengths: list[int], size: int) -> None:
    ends = np.cumsum(lengths)
    frames = [pl.DataFrame({"user_id": np.arange(end - n, end)}) for n, end in zip(lengths, ends, strict=True)]
    parts = rows_of(frames, NUMBERS, size)
    assert [user for part in parts for (user,) in part] == list(range(sum(lengths)))
    assert all(len(part) == size for part in parts[:-1])
    assert all(0 < len(part) <= size for part in parts)


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet"])
def test_files_are_read_piece_by_piece(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 2)
    frame = pl.DataFrame({"n": ["1", "x,y", "3"], "userId": ["a", "b", "10"]})
    path = tmp_path / f"users.{ending}"
    if ending == "parquet":
        frame.write_parquet(path)
    elif ending == "csv.gz":
        path.write_bytes(gzip.compress(frame.write_csv().encode()))
    else:
        path.write_text(frame.write_csv(separator="\t" if ending == "tsv" else ",") + "\n")
    assert rows_of(path) == [[("a", "1"), ("b", "x,y")], [("10", "3")]]


def test_a_folder_is_its_parquet_files_by_name(tmp_path: Path) -> None:
    for name, users in (("b.parquet", ["b"]), ("a.parquet", ["a", "10"]), ("_x.parquet", ["20"])):
        pl.DataFrame({"user_id": users}).write_parquet(tmp_path / name)
    (tmp_path / "_SUCCESS").write_text("{}")
    assert rows_of(tmp_path) == [[("a",), ("10",)], [("b",)]]


def test_a_row_group_has_a_limit_and_the_file_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FREE", 200_000)
    monkeypatch.setattr(limits, "TIMES", 0)
    frame = pl.DataFrame({"user": np.arange(5000), "same": np.zeros(5000)})
    frame.write_parquet(tmp_path / "groups.parquet", row_group_size=500)
    assert sum(map(len, Table.of(tmp_path / "groups.parquet", None, NUMBERS).parts(1000))) == 5000
    frame.write_parquet(tmp_path / "whole.parquet")
    with pytest.raises(AleatorError, match="the limit is 200,000"):
        list(Table.of(tmp_path / "whole.parquet", None, NUMBERS).parts(1000))


def test_ids_of_a_text_file_become_what_the_model_has(tmp_path: Path) -> None:
    path = tmp_path / "users.csv"
    path.write_text("user_id\n10\n030\n")
    assert rows_of(path, NUMBERS) == [[(10,), (30,)]]
    assert rows_of(path, TEXTS) == [[("10",), ("030",)]]
    path.write_text("user_id\n10\nten\n")
    with pytest.raises(AleatorError, match=r"'ten' in column 'user_id' of .* is no number; correct it"):
        rows_of(path, NUMBERS)


def test_categories_are_texts() -> None:
    frame = pl.DataFrame({"user_id": pl.Series(["a", "b"], dtype=pl.Categorical)})
    assert rows_of(frame) == [[("a",), ("b",)]]
    assert Roll(Table.of(frame, None, TEXTS)).call(frame["user_id"].cast(pl.String)).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("user_id,n\na\n", "a line of .* has not 2 values: 'a'"),
        ("user_id,n\n,1\n", "column 'user_id' of .* has 1 missing values; fill them"),
        ("n,n\na,b\n", "the header of .* is"),
        ("\n", "the header of .* is"),
        ('user_id\n"a', "cannot be read as csv"),
        ("u1\nu2\n", "no user column among u1"),
    ],
)
def test_text_files_that_make_no_sense_are_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "users.csv").write_text(text)
    with pytest.raises(AleatorError, match=says):
        rows_of(tmp_path / "users.csv")


def test_other_places_are_refused(tmp_path: Path) -> None:
    (tmp_path / "users.npz").write_bytes(b"x")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    (tmp_path / "latin.csv").write_bytes("user_id\nJosé\n".encode("latin-1"))
    for name, says in (
        ("users.npz", "is no table of users"),
        ("bad.parquet", "cannot be read as parquet"),
        ("latin.csv", "cannot be read as csv"),
        ("nothing.csv", "there is no file"),
    ):
        with pytest.raises(AleatorError, match=says):
            rows_of(tmp_path / name)
    (tmp_path / "folder").mkdir()
    with pytest.raises(AleatorError, match="has no parquet files"):
        rows_of(tmp_path / "folder")


def test_frames_with_other_columns_are_refused() -> None:
    frames = [pl.DataFrame({"user_id": ["a"], "n": [1]}), pl.DataFrame({"user_id": ["b"], "n": ["x"]})]
    with pytest.raises(AleatorError, match="the parts of the frame of users have different columns"):
        rows_of(frames)
    with pytest.raises(AleatorError, match="has a column 'user_id' beside 'name'; rename it"):
        rows_of(pl.DataFrame({"user_id": ["a"], "name": ["b"]}), user="name")


def test_the_roll_finds_users_and_refuses_one_who_comes_again() -> None:
    roll = Roll(Table.of([], None, NUMBERS))
    assert roll.call(pl.Series([20, 99, 10, 98])).tolist() == [1, -1, 0, -1]
    assert roll.call(pl.Series([30, 99])).tolist() == [2, -1]
    with pytest.raises(AleatorError, match="user 10 is in several rows"):
        roll.call(pl.Series([5, 10]))
    with pytest.raises(AleatorError, match="user 30 is in several rows"):
        Roll(Table.of([], None, NUMBERS)).call(pl.Series([30, 10, 30]))
