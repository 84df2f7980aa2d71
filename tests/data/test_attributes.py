"""Attributes of items: what a table says of each item, how they follow the items about, and what passes a filter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import aleator as al
from aleator.checkpoint import pack_data, unpack_data
from aleator.data.attributes import matching, parse_where
from aleator.data.interactions import Interactions
from aleator.errors import AleatorError

TABLE: dict[str, list[Any]] = {
    "item": ["a", "b", "c", "d"],
    "genre": ["Drama|War", "Drama", None, "Action"],
    "year": [1994, 2001, 1999, None],
    "stock": [True, False, True, None],
}
CSV = "item,genre,year,stock\na,Drama|War,1994,true\nb,Drama,2001,false\nc,,1999,true\nd,Action,,\n"


@pytest.fixture
def data() -> Interactions:
    """Item e has no row in the table."""
    return Interactions.of([1, 1, 2, 2, 3], ["a", "b", "c", "d", "e"])


def passing(data: Interactions, **where: Any) -> list[Any]:
    """The items that pass."""
    found: list[Any] = data.items.decode(np.flatnonzero(matching(data.attributes, where, data.n_items))).tolist()
    return found


def assert_whole(data: Interactions) -> None:
    assert passing(data, genre="Drama") == ["a", "b"]
    assert passing(data, genre=["War", "Action"]) == ["a", "d"]
    assert passing(data, year=1999) == ["c"]
    assert passing(data, year=(1994, 1999)) == ["a", "c"]
    assert passing(data, stock=True) == ["a", "c"]
    assert passing(data, genre="Drama", stock=True) == ["a"]


SOURCES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "dict": dict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "lists": lambda table: pl.DataFrame(table).with_columns(pl.col("genre").str.split("|")),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_any_table_gives_the_same_attributes(data: Interactions, kind: str) -> None:
    assert_whole(data.with_attributes(SOURCES[kind](TABLE)))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_are_read(data: Interactions, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"items.{ending}"
    if ending == "csv":
        path.write_text(CSV)
    else:
        pl.DataFrame(TABLE).write_parquet(path)
    assert_whole(data.with_attributes(path))
    pairs = {"user": [1, 2, 2], "item": ["a", "b", "c"]}
    assert sorted(al.read(pairs, attributes=str(path)).attributes) == ["genre", "stock", "year"]


def test_an_item_may_have_several_rows(data: Interactions) -> None:
    found = data.with_attributes({"item": ["a", "b", "a"], "genre": ["Drama", "War", "War"]})
    assert passing(found, genre="War") == ["a", "b"]
    assert passing(found, genre="Drama") == ["a"]


def test_notes_count_items_without_a_row_and_rows_of_other_items(data: Interactions) -> None:
    found = data.with_attributes({"item": ["a", "zz", "yy"], "genre": ["x", "y", "z"]})
    assert found.notes == (
        "attributes: 4 of 5 items have no row, and so no value",
        "attributes: 2 of 3 rows are of other items",
    )


def test_the_column_of_items_is_the_named_one_or_a_usual_one_or_the_first() -> None:
    pairs = {"user": [1, 2], "sku": [10, 20]}
    for columns in (
        {"genre": ["x", "y"], "sku": [10, 20]},
        {"genre": ["x", "y"], "movieId": [10, 20]},
        {"thing": [10, 20], "genre": ["x", "y"]},
    ):
        read = al.read(pairs, item="sku", attributes=columns)
        assert passing(read, genre="y") == [20]


def test_ids_match_as_texts(tmp_path: Path) -> None:
    numbers = Interactions.of([1, 2], [7, 8])
    assert passing(numbers.with_attributes({"item": ["7", "8"], "genre": ["x", "y"]}), genre="y") == [8]
    (tmp_path / "items.csv").write_text("item,genre\n7,x\n8,y\n")
    assert passing(numbers.with_attributes(tmp_path / "items.csv"), genre="y") == [8]


def test_texts_of_a_file_become_numbers_only_if_all_are(data: Interactions, tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item,price,code,mixed\na,1.5,007,1\nb,2,010,x\n")
    found = data.with_attributes(path)
    assert {name: attribute.kind for name, attribute in found.attributes.items()} == {
        "price": "numbers",
        "code": "texts",
        "mixed": "texts",
    }
    assert passing(found, code="007") == ["a"]
    assert passing(found, price=(None, 1.9)) == ["a"]


def test_what_is_neither_text_nor_number_is_a_text_or_a_number_all_the_same(data: Interactions) -> None:
    table = {"item": ["a", "b"], "day": [date(2020, 1, 2), None], "price": [Decimal("1.50"), Decimal(2)]}
    found = data.with_attributes(table)
    assert passing(found, day="2020-01-02") == ["a"]
    assert passing(found, price=1.5) == ["a"]


def test_later_attributes_stand_beside_earlier_ones_and_replace_those_of_the_same_name(data: Interactions) -> None:
    found = data.with_attributes(TABLE).with_attributes({"item": ["b"], "genre": ["Opera"], "price": [3]})
    assert passing(found, genre="Opera") == passing(found, price=3) == ["b"]
    assert passing(found, year=2001) == ["b"]
    with pytest.raises(AleatorError, match="no item has the genre 'Drama'"):
        passing(found, genre="Drama")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"item": ["zz"], "genre": ["x"]}, "column 'item' of the dict of attributes holds no item of the data"),
        ({"item": ["a"]}, "has 1 columns"),
        ({"item": ["a"], "genre": ["x", "y"]}, "differ in length"),
        ({"item": ["a", "b"], "x": ["y", 3]}, "attribute 'x' holds numbers and texts"),
        (5, "a int is no table"),
        ("nowhere.csv", "there is no file 'nowhere.csv'"),
    ],
)
def test_tables_that_make_no_sense_are_refused(data: Interactions, table: Any, says: str) -> None:
    with pytest.raises(AleatorError, match=says):
        data.with_attributes(table)


# They follow the items about


def test_splits_and_cleaning_keep_them(data: Interactions) -> None:
    whole = data.with_attributes(TABLE)
    assert_whole(whole.take(np.array([0])))
    split = whole.split(test=0.4, valid=0.0)
    for part in (split.train, split.test, split.everything):
        assert_whole(part)


def test_cleaning_moves_them_with_the_items() -> None:
    data = Interactions.of([1, 2, 1, 2, 1], ["b", "b", "c", "c", "a"]).with_attributes(TABLE)
    kept = data.clean(k_core=2)
    assert kept.items.ids.tolist() == ["b", "c"]
    assert passing(kept, year=(1990, 2010)) == ["b", "c"]
    assert passing(kept, stock=False) == ["b"]


def test_parts_that_were_read_separately_share_the_attributes_of_all() -> None:
    def part(items: list[str]) -> Interactions:
        found = Interactions.of(list(range(len(items))), items)
        return found.with_attributes({name: values[:4] for name, values in TABLE.items()})

    split = al.Split.of(part(["a", "c", "e"]), part(["b", "c"]), part(["d"]))
    for each in (split.train, split.valid, split.test):
        assert_whole(each)


def test_parts_with_other_kinds_of_values_are_refused() -> None:
    first = Interactions.of([1, 2], ["a", "b"]).with_attributes({"item": ["a"], "x": ["text"]})
    second = Interactions.of([1, 2], ["b", "a"]).with_attributes({"item": ["a"], "x": [3]})
    with pytest.raises(AleatorError, match="attribute 'x' holds texts in one part and numbers in another"):
        al.Split.of(first, second)


def test_they_are_packed_and_unpacked(data: Interactions) -> None:
    assert_whole(unpack_data(*pack_data(data.with_attributes(TABLE))))


def test_folders_of_older_versions_have_none(data: Interactions) -> None:
    about, tensors = pack_data(data)
    del about["attributes"]
    assert unpack_data(about, tensors).attributes == {}


def test_a_saved_model_filters_by_them(tmp_path: Path, split: al.Split) -> None:
    items = list(range(split.train.n_items))
    train = split.everything.with_attributes({"item": items, "half": ["low" if i < 25 else "high" for i in items]})
    al.EASE(l2=5.0).fit(train).save(tmp_path / "m")
    found = al.load_model(tmp_path / "m").recommend([0, 1], k=10, where={"half": "high"})
    assert found["item_id"].min() >= 25


# Filters


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"gnre": "Drama"}, "unknown attribute 'gnre'; did you mean 'genre'"),
        ({"genre": "drama"}, "no item has the genre 'drama'; did you mean 'Drama'? Known: 'Action', 'Drama', 'War'"),
        ({"genre": "xyz"}, "no item has the genre 'xyz'; known: 'Action'"),
        ({"genre": 5}, "genre is 5 but it holds texts; give one of its values, or a list of several"),
        ({"genre": None}, "genre is None but it holds texts"),
        ({"genre": ("Drama", "War")}, "but it holds texts; give a list for any of several values"),
        ({"year": "1994"}, "year is '1994' but it holds numbers"),
        ({"year": 1996}, "no item has the year 1996; the nearest is 1994"),
        ({"year": (2010, None)}, "no item has a year in 2010..; it goes from 1994 to 2001"),
        ({"year": (1990, "x")}, "give a pair of numbers"),
        ({"year": (1, 2, 3)}, "but it holds numbers"),
        ({"year": True}, "year is True but it holds numbers"),
        ({"stock": "yes"}, "stock is 'yes' but it holds booleans"),
        (["genre"], "where is"),
    ],
)
def test_filters_that_make_no_sense_are_refused(data: Interactions, where: Any, says: str) -> None:
    with pytest.raises(AleatorError) as told:
        matching(data.with_attributes(TABLE).attributes, where, 5)
    assert says in str(told.value)


def test_without_attributes_a_filter_says_how_to_give_them(data: Interactions) -> None:
    with pytest.raises(AleatorError, match=r"no attributes of items; give them with al.read\(attributes=\)"):
        passing(data, genre="Drama")


def test_an_attribute_whose_items_are_all_gone_says_so(data: Interactions) -> None:
    attribute = data.with_attributes({"item": ["e"], "x": ["y"]}).attributes["x"]
    gone = replace(data, attributes={"x": attribute.moved(np.full(5, -1))})
    with pytest.raises(AleatorError, match="no item has a value of x"):
        passing(gone, x="y")


@pytest.mark.parametrize(
    ("texts", "where"),
    [
        (["genre=Drama"], {"genre": ["Drama"]}),
        (["genre=Drama", "genre=War", "year=1994"], {"genre": ["Drama", "War"], "year": [1994]}),
        (["year=1990..1999"], {"year": [(1990, 1999)]}),
        (["year=1990.."], {"year": [(1990, None)]}),
        (["year=..1999.5", "stock=TRUE"], {"year": [(None, 1999.5)], "stock": [True]}),
    ],
)
def test_filters_of_a_shell(data: Interactions, texts: list[str], where: dict[str, Any]) -> None:
    attributes = data.with_attributes(TABLE).attributes
    assert parse_where(attributes, texts) == where
    assert matching(attributes, where, 5).any()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("genre", "give an attribute and a value"),
        ("genre=", "give an attribute and a value"),
        ("year=nineties", "year is 'nineties' but it holds numbers"),
        ("stock=yes", "give true or false"),
        ("yaer=1", "did you mean 'year'"),
    ],
)
def test_mistakes_in_a_shell(data: Interactions, text: str, says: str) -> None:
    with pytest.raises(AleatorError, match=says):
        parse_where(data.with_attributes(TABLE).attributes, [text])
