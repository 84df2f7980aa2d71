"""Files as shops and labs write them: separators, encodings, decimal commas, forms of dates and missing values."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from aleator.data.formats import read
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.errors import AleatorError

FIRST, SECOND = 1_291_191_960_000_000, 1_291_248_000_000_000  # 1 December 2010 8:26 and 2 December 2010, microseconds


def file(folder: Path, name: str, content: str, encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(content.encode(encoding))
    return path


def pairs(data: Interactions) -> list[tuple[Any, Any]]:
    users, items = data.users.decode(data.user), data.items.decode(data.item)
    return list(zip(users.tolist(), items.tolist(), strict=True))


def times(data: Interactions) -> list[float]:
    assert data.time is not None
    return list(data.time.tolist())


# Separators


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "::"])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_plain_separator_is_found(separator: str, ending: str, tmp_path: Path) -> None:
    text = "user,item,rating\n1,a,3\n2,b,5\n".replace(",", separator)
    data = read(file(tmp_path, f"a.{ending}", text))
    assert pairs(data) == [(1, "a"), (2, "b")]
    assert data.rating is not None
    assert data.rating.tolist() == [3, 5]


@pytest.mark.parametrize(
    "text",
    [
        'user;item;title\n1;a;"one; two, three"\n2;b;four\n',  # marks in quotes do not count
        "user;item;price\n1;a;3,5\n2;b;4,25\n",
        "user;item;what, and why\n1;a;x\n2;b;y\n",
        "user,item,genres|kinds|more\n1,a,x|y\n2,b,z\n",
        "user,item,a;b;c\n1,a,x;y;z\n2,b,x;y;z\n",  # both would do; the usual one of a csv file wins
    ],
)
def test_other_marks_in_the_values_do_not_confuse(text: str, tmp_path: Path) -> None:
    assert pairs(read(file(tmp_path, "a.csv", text))) == [(1, "a"), (2, "b")]


def test_a_separator_can_be_given_and_an_error_names_the_option(tmp_path: Path) -> None:
    unclear = file(tmp_path, "a.csv", "user;item,new\n1;2,3\n")  # read with commas, there is no user
    with pytest.raises(AleatorError, match=r"or give the separator with sep= \(--sep\)"):
        read(unclear)
    assert pairs(read(unclear, sep=";", item="item,new")) == [(1, "2,3")]
    for tab in ("\t", "tab", "\\t"):
        assert pairs(read(file(tmp_path, "u.dat", "1\t2\t3\t4\n"), sep=tab)) == [(1, 2)]


@pytest.mark.parametrize("option", [{"sep": ";"}, {"encoding": "latin-1"}])
def test_options_of_text_files_are_refused_elsewhere(option: dict[str, Any], tmp_path: Path) -> None:
    columns = {"user": [1], "item": [2]}
    pl.DataFrame(columns).write_parquet(tmp_path / "a.parquet")
    for source in (columns, pd.DataFrame(columns), tmp_path / "a.parquet", file(tmp_path, "a.txt", "1 2\n")):
        with pytest.raises(AleatorError, match=f"{next(iter(option))} was given, but"):
            read(source, **option)


# Encodings


@pytest.mark.parametrize("where", ["café,item\nx,1\n", "user,item\ncafé,1\n"])
def test_latin_1_is_read_and_undecodable_bytes_name_the_option(where: str, tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", where, "latin-1")
    assert pairs(read(path, user=where[: where.index(",")], encoding="latin-1")) == [
        ("x" if where.startswith("c") else "café", 1)
    ]
    with pytest.raises(AleatorError, match="encoding="):
        read(path)


def test_compressed_and_wide_encodings_are_read(tmp_path: Path) -> None:
    text = "user;item\ncafé;1\n"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode("latin-1")))
    assert pairs(read(tmp_path / "a.csv.gz", encoding="latin-1")) == [("café", 1)]
    assert pairs(read(file(tmp_path, "b.csv", text, "utf-16"), encoding="utf-16")) == [("café", 1)]


def test_titles_of_movielens_are_read(tmp_path: Path) -> None:
    movies = file(tmp_path, "movies.dat", "1::Amélie (2001)::Comedy|Romance\n2::Heat (1995)::Action\n", "latin-1")
    ratings = file(tmp_path, "ratings.dat", "7::1::5::100\n7::2::4::200\n")
    data = read(ratings, titles=movies, encoding="latin-1")
    assert data.titles is not None
    assert data.titles.tolist() == ["Amélie (2001)", "Heat (1995)"]
    with pytest.raises(AleatorError, match="encoding="):
        read(ratings, titles=movies)


# Numbers and dates


def test_decimal_commas(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "user;item;weight\n1;1;0,5\n1;2;3\n")
    data = read(path, decimal=",")
    assert data.weight is not None
    assert data.weight.tolist() == [0.5, 3]
    with pytest.raises(AleatorError, match="decimal="):
        read(path)
    thousands = file(tmp_path, "b.csv", "user;item;weight\n1;1;1.234\n")
    with pytest.raises(AleatorError, match="does not hold numbers"):
        read(thousands, decimal=",")  # 1.234 would be 1234, or a mistake


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "polars", "dict"])
@pytest.mark.parametrize(
    ("texts", "dates"),
    [
        (["12/1/2010 8:26", "12/2/2010 0:00"], "%m/%d/%Y %H:%M"),
        (["1.12.2010 08:26", "02.12.2010 00:00"], "%d.%m.%Y %H:%M"),
        (["12/1/2010 8:26", "02.12.2010"], ["%m/%d/%Y %H:%M", "%d.%m.%Y"]),
        (["20101201 0826", "20101202"], ["%Y%m%d %H%M", "%Y%m%d"]),
        (["2010-12-01T09:26+0100", "2010-12-02T00:00+0000"], "%Y-%m-%dT%H:%M%z"),
    ],
)
def test_dates_are_read_by_their_format(kind: str, texts: list[str], dates: Any, tmp_path: Path) -> None:
    columns: dict[str, Any] = {"user": [1, 1], "item": [1, 2], "time": texts}
    frame = pl.DataFrame(columns)
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.parquet")
    sources = {"pandas": pd.DataFrame(columns), "polars": frame, "dict": columns}
    assert times(read(sources.get(kind, tmp_path / f"a.{kind}"), dates=dates)) == [FIRST, SECOND]


@pytest.mark.parametrize("form", [None, "%d.%m.%Y"])
def test_the_first_value_that_cannot_be_read_is_named(form: str | None, tmp_path: Path) -> None:
    fitting = ["01.12.2010" if form else "2010-12-01"] * 7
    rows = [f"1,{n},{date}" for n, date in enumerate([*fitting, "12/1/2010 8:26", *fitting, "never"])]
    path = file(tmp_path, "a.csv", "\n".join(["user,item,time", *rows]))
    with pytest.raises(AleatorError, match=r"one value is '12/1/2010 8:26'.*--dates in a shell"):
        read(path, dates=form)


def test_dates_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "user,item,time\n1,1,12/1/2010 8:26\n1,2,31.12.2010\n")
    with pytest.raises(AleatorError, match=r"does not hold numbers or ISO dates: .*; .* dates="):
        read(path)
    with pytest.raises(
        AleatorError, match=r"does not hold dates like %m/%d/%Y %H:%M: one value is '31.12.2010'; .* dates="
    ):
        read(path, dates="%m/%d/%Y %H:%M")


# Missing values


def test_rows_with_missing_values_are_refused_or_dropped_and_counted(tmp_path: Path) -> None:
    text = 'user,item,rating,note\n1,10,3,\n,20,4,x\n2,30,,x\n3,,5,x\n4,40,NaN,x\n5,50,"",x\n6,60,2,x\n'
    path = file(tmp_path, "a.csv", text)
    with pytest.raises(AleatorError, match=r"missing='drop' \(--missing drop in a shell\)"):
        read(path)
    data = read(path, missing="drop")
    assert pairs(data) == [(1, 10), (6, 60)]  # a missing value in a column that is not used does not count
    assert "missing: 5 of 7 rows dropped" in data.notes


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "parquet", "dict", "npz"])
def test_every_source_can_drop_missing_values(kind: str, tmp_path: Path) -> None:
    large = 2**60 + 1  # a float cannot hold it
    whole: dict[str, Any] = {
        "user": [large, None, 3, 4],
        "item": ["a", "b", None, "d"],
        "weight": [1.0, 2.0, 3.0, None],
    }
    pl.DataFrame(whole).write_parquet(tmp_path / "a.parquet")
    floats: dict[str, Any] = {"user": [large, 2, 3, 4], "item": list("abcd"), "weight": [1.0, np.nan, np.nan, np.nan]}
    np.savez(tmp_path / "a.npz", **floats)
    sources = {
        "pandas": pd.DataFrame({**whole, "user": pd.array(whole["user"], dtype="Int64")}),
        "polars": pl.DataFrame(whole),
        "arrow": pa.table(whole),
        "dict": whole,
    }
    data = read(sources.get(kind, tmp_path / f"a.{kind}"), missing="drop")
    assert pairs(data) == [(large, "a")]
    assert data.notes == ("missing: 3 of 4 rows dropped",)


def test_nothing_is_left_after_dropping(tmp_path: Path) -> None:
    for source in (file(tmp_path, "a.csv", "user,item\n,1\n2,\n"), {"user": [None], "item": [1]}):
        with pytest.raises(AleatorError, match=r"every row of .* has a missing value"):
            read(source, missing="drop")


def test_negative_quantities_are_dropped_by_min_rating(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "user,item,quantity\n1,1,2\n1,2,-1\n")
    with pytest.raises(AleatorError, match=r"a weight is not positive; .* min_rating"):
        read(path, weight="quantity")
    data = read(path, weight="quantity", rating="quantity", min_rating=1)
    assert pairs(data) == [(1, 1)]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"missing": "dorp"}, r"unknown value of missing 'dorp'; did you mean 'drop'\?"),
        ({"encoding": "latin-one"}, "unknown encoding 'latin-one'; give one such as"),
        ({"decimal": ";"}, "decimal is ';'; give '.' or ','"),
        ({"dates": "dd.mm.yyyy"}, "dates is 'dd.mm.yyyy'; give a format such as"),
        ({"sep": ""}, "sep is ''"),
        ({"seperator": ";"}, "unknown option of read 'seperator'"),
    ],
)
def test_wrong_values_of_the_options_are_refused(option: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(AleatorError, match=says):
        read(file(tmp_path, "a.csv", "user,item\n1,2\n"), **option)


# Ids


def test_whole_floats_of_pandas_are_integers_and_a_note_says_so(tmp_path: Path) -> None:
    frame = pd.DataFrame({"user": [12000.0, None, 7.0], "item": [1.5, 2.0, 3.0]})
    frame.to_parquet(tmp_path / "a.parquet")
    for source in (frame, tmp_path / "a.parquet"):
        data = read(source, missing="drop")
        assert pairs(data) == [(12000, 1.5), (7, 3.0)]
        assert data.users.ids.dtype == np.int64
        assert "user ids: floats without a fraction became integers" in data.notes
        assert not any(note.startswith("item ids") for note in data.notes)
    assert data.users.encode([12000.0, 7]).tolist() == [1, 0]


def test_a_note_says_when_ids_of_two_parts_become_texts(tmp_path: Path) -> None:
    train = read(file(tmp_path, "train.csv", "user,item\n1,1\n2,2\n"))
    test = read(file(tmp_path, "test.csv", "user,item\n1,2\nann,1\n"))
    split = Split.of(train, test)
    assert pairs(split.train) == [("1", 1), ("2", 2)]
    for part in (split.train, split.test):
        assert [note for note in part.notes if "all of them are texts now" in note] == [
            "user ids: whole numbers in one part and texts in another; all of them are texts now, such as '1' for 1"
        ]
    assert Split.of(train, read({"user": [1], "item": [2]})).train.notes == ()
