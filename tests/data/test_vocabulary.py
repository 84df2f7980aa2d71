"""Vocabulary: ids come back as they were given, and an id is never taken for another one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleator.data.interactions import Interactions
from aleator.data.vocabulary import Vocabulary, check_ids
from aleator.errors import AleatorError
from tests.data.helpers import in_pieces_of


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_integer_ids_of_any_width_keep_value_and_width(dtype: str) -> None:
    most = np.iinfo(dtype).max
    ids = np.array([most, 3, most, 0], dtype)
    vocabulary, dense = Vocabulary.of(ids, "user")
    back = vocabulary.decode(dense)
    assert back.dtype == ids.dtype
    assert back.tolist() == [most, 3, most, 0]
    assert vocabulary.encode([most, 3, 7]).tolist() == [2, 1, -1]


IDS = st.one_of(
    st.lists(st.integers(-128, 127), min_size=1).map(lambda ids: np.array(ids, np.int8)),
    st.lists(st.integers(250, 255), min_size=1).map(lambda ids: np.array(ids, np.uint8)),
    st.lists(st.integers(-(2**63), 5 - 2**63), min_size=1).map(np.array),
    st.lists(st.integers(2**64 - 9, 2**64 - 1), min_size=1).map(lambda ids: np.array(ids, np.uint64)),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1).map(np.array),
    st.lists(st.floats(0.5, 1, width=16), min_size=1).map(np.array),
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1).map(
        lambda ids: np.array(ids, np.dtypes.StringDType())
    ),
)


@given(IDS, st.integers(1, 5))
def test_ids_taken_in_pieces_are_those_taken_at_once(ids: Any, rows: int) -> None:
    with in_pieces_of(rows):
        vocabulary, dense = Vocabulary.of(ids, "user")
    expected, place = np.unique(ids, return_inverse=True)
    assert vocabulary.ids.dtype == expected.dtype
    assert vocabulary.ids.tolist() == expected.tolist()
    assert dense.dtype == np.int32
    assert dense.tolist() == place.tolist()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_text_ids_come_back_unchanged(ids: list[str]) -> None:
    vocabulary, dense = Vocabulary.of(ids, "item")
    assert vocabulary.decode(dense).tolist() == ids
    assert all(type(text) is str for text in vocabulary.decode(dense))
    assert vocabulary.encode(ids).tolist() == dense.tolist()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.lists(st.integers(-(2**63), 2**64 - 1)))
def test_integers_are_found_exactly(ids: list[int], asked: list[int]) -> None:
    vocabulary, dense = Vocabulary.of(ids, "item")
    assert vocabulary.decode(dense).tolist() == ids
    place = {v: n for n, v in enumerate(sorted(set(ids)))}
    assert vocabulary.encode(asked).tolist() == [place.get(v, -1) for v in asked]


def test_large_integers_of_another_sign_are_not_rounded() -> None:
    unsigned, _ = Vocabulary.of(np.array([1, 2**63 + 1, 2**63 + 3], np.uint64), "user")
    assert unsigned.encode(np.array([2**63 + 1, 2**63 + 2], np.uint64)).tolist() == [1, -1]
    assert unsigned.encode(np.array([1, -1], np.int64)).tolist() == [0, -1]
    signed, _ = Vocabulary.of(np.array([2**53, 2**53 + 1, -1]), "user")
    assert signed.encode(np.array([2**53 + 1, 2**64 - 1], np.uint64)).tolist() == [2, -1]


@pytest.mark.parametrize(
    ("ids", "asked", "found"),
    [
        (["1", "b"], [1, "b"], [-1, 1]),
        (["1", "b"], [1], [-1]),
        (["1", "b"], np.array(["b", None], object), [1, -1]),
        ([1, 2], ["1", 2], [-1, 1]),
        ([1, 2], [True, False], [-1, -1]),
        ([1, 2], [1.0, 1.5, float("nan")], [0, -1, -1]),
        ([1, 2], [2**70, -(2**70)], [-1, -1]),
        ([1, 2], [[1], [2, 3]], [-1, -1]),
        ([1, 2], [], []),
        ([1, 2], pd.Series([2, 9]), [1, -1]),
        (["a", "b"], "b", [1]),
        ([1, 2], np.array([300], np.int16), [-1]),
        (np.array([44], np.uint8), np.array([300], np.int16), [-1]),  # 300 is 44 in 8 bits
    ],
)
def test_an_id_is_known_only_as_what_it_is(ids: Any, asked: Any, found: list[int]) -> None:
    vocabulary, _ = Vocabulary.of(ids, "user")
    assert vocabulary.encode(asked).tolist() == found


def test_objects_of_one_kind_are_ids_of_that_kind() -> None:
    integers, _ = Vocabulary.of(np.array([5, np.int32(2)], object), "user")
    assert integers.ids.tolist() == [2, 5]
    assert integers.ids.dtype.kind == "i"
    texts, _ = Vocabulary.of(np.array(["b", np.str_("a")], object), "user")
    assert texts.decode([0, 1]).tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([1, "a"], "user ids are of type int, str"),
        ([1, 2.5], "user ids are of type float, int"),
        ([True, False], "user ids are of type bool"),
        (np.array([True, False]), "user ids are of type bool"),
        ([[1], [2]], "user ids are of type list"),
        ([b"a", b"b"], "user ids are of type bytes"),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), "user ids are of type datetime64"),
        (["a", None], "missing"),
        ([1, None], "missing"),
        (["a", float("nan")], "missing"),
        ([1.5, float("nan")], "missing"),
        (np.array([1.0, np.inf]), "missing"),
        (np.array([pd.NA, 1], object), "missing"),
        (np.array([pd.NaT, "a"], object), "missing"),
        ([2**70, 1], "more than 64 bits"),
        ([2**63, -1], "more than 64 bits"),
        (np.zeros((2, 2), int), "2 dimensions"),
    ],
)
def test_ids_that_are_no_ids_are_refused(ids: Any, says: str) -> None:
    with pytest.raises(AleatorError, match=says) as caught:
        Interactions.of(ids, [1, 2])
    assert "\n" not in str(caught.value)


def test_parse_gives_the_type_of_the_vocabulary() -> None:
    numbers, texts = Vocabulary.of([7, 8], "user")[0], Vocabulary.of(["007", "8"], "user")[0]
    assert numbers.encode([numbers.parse("7")]).tolist() == [0]
    assert texts.encode([texts.parse("007")]).tolist() == [0]
    assert texts.encode([texts.parse("7")]).tolist() == [-1]
    for unknown in ("x", "7.5", "99999999999999999999"):
        assert numbers.encode([numbers.parse(unknown)]).tolist() == [-1]


def test_an_unknown_id_is_named_with_a_known_one() -> None:
    vocabulary, _ = Vocabulary.of(["a", "b"], "user")
    assert check_ids(vocabulary, ["b", "a"], "user").tolist() == [1, 0]
    with pytest.raises(AleatorError, match=r"unknown user 'x' and 1 more; .*'a'"):
        check_ids(vocabulary, ["x", "a", "y"], "user")


@pytest.mark.parametrize("unknown", [99, np.int64(99)])
def test_an_unknown_id_is_named_as_a_person_would_type_it(unknown: Any) -> None:
    with pytest.raises(AleatorError, match=r"unknown user 99; "):
        check_ids(Vocabulary(np.arange(3)), [1, unknown], "user")
