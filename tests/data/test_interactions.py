"""Interactions: each pair occurs once, and notes say what cleaning did."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleator.data.interactions import Interactions
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError
from tests.data.helpers import in_pieces_of, listed

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40)


def of_pairs(pairs: list[tuple[Any, Any]], **columns: Any) -> Interactions:
    return Interactions.of([u for u, _ in pairs], [i for _, i in pairs], **columns)


def pairs_of(data: Interactions) -> list[tuple[Any, Any]]:
    """External ids of the pairs, in the order of the rows."""
    return list(zip(data.users.decode(data.user).tolist(), data.items.decode(data.item).tolist(), strict=True))


# Building


def test_weights_are_the_values_of_the_matrix() -> None:
    data = of_pairs([("b", 2), ("a", 1), ("a", 2)], weight=[1.0, 2.5, 3.0])
    assert data.csr.toarray().tolist() == [[2.5, 3.0], [0.0, 1.0]]
    assert of_pairs([("b", 2), ("a", 1)]).csr.toarray().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert data.popularity.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"weight": [1.0, 0.0]}, "a weight is not positive"),
        ({"weight": [1.0, -2.0]}, "a weight is not positive"),
        ({"weight": [1.0, float("nan")]}, "weight column has missing or infinite"),
        ({"weight": [1.0, 1e60]}, "weight column has missing or infinite"),
        ({"weight": ["a", "b"]}, "weight column is of type"),
        ({"weight": [1.0]}, "differ in length"),
        ({"rating": [1.0, float("inf")]}, "rating column has missing or infinite"),
        ({"rating": [[1], [2]]}, "rating column is of type"),
        ({"time": np.array(["2020", "NaT"], "M8[s]")}, "time column has missing"),
        ({"time": [1.0, float("nan")]}, "time column has missing"),
        ({"time": [True, False]}, "time column is of type bool"),
        ({"duplicates": "last"}, "unknown value of duplicates 'last'"),
    ],
)
def test_columns_that_make_no_sense_are_refused(columns: dict[str, Any], says: str) -> None:
    with pytest.raises(AleatorError, match=says):
        Interactions.of([1, 2], [3, 4], **columns)


def test_columns_of_different_lengths_and_no_rows_are_refused() -> None:
    with pytest.raises(AleatorError, match="differ in length"):
        Interactions.of([1, 2], [1, 2, 3])
    with pytest.raises(AleatorError, match="no interactions"):
        Interactions.of([], [])


def test_dates_are_ordered_numbers() -> None:
    data = of_pairs([(1, 1), (1, 2)], time=np.array(["2020-01-02", "2020-01-01"], "M8[D]"))
    assert data.time is not None
    assert np.diff(data.time).tolist() == [-24 * 3600 * 1_000_000]


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_fingerprint_does_not_depend_on_the_order_of_the_rows(pairs: list[tuple[int, int]], random: Any) -> None:
    mixed = list(pairs)
    random.shuffle(mixed)
    assert of_pairs(pairs).fingerprint == of_pairs(mixed).fingerprint


def test_different_data_have_different_fingerprints() -> None:
    several = [
        of_pairs([(1, 23)]),
        of_pairs([(12, 3)]),
        of_pairs([("1", 23)]),
        of_pairs([(1, 23)], weight=[2.0]),
        of_pairs([(1, 23), (1, 24)]),
    ]
    assert len({data.fingerprint for data in several}) == len(several)


def test_fingerprints_are_those_of_models_already_saved() -> None:
    numbers = of_pairs([(7, 30), (-2, 2**40), (7, 1)])
    texts = of_pairs([("it's", 1.5), ("日本", 0.25), ("b", 1.5)], weight=[1.0, 2.5, 3.0])
    assert [numbers.fingerprint, texts.fingerprint] == ["e43a7eb68a70a0bc", "5794649c366dd77f"]
    with in_pieces_of(1):
        assert of_pairs(pairs_of(numbers)).fingerprint == numbers.fingerprint


# Cleaning

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4), st.floats(0.1, 9)), min_size=1, max_size=40
)


def merged_at_once(data: Interactions, summed: bool) -> list[tuple[Any, ...]]:
    """(user, item, time, weight) of each pair, by one sort of all rows. Merging must give the same."""
    key = data.user.astype(np.int64) * data.n_items + data.item
    order = np.argsort(key, kind="stable") if data.time is None else np.lexsort((data.time, key))
    first = np.r_[True, np.diff(key[order]) > 0]
    assert data.weight is not None
    weight = np.zeros_like(data.weight)
    weight[order[first]] = np.add.reduceat(data.weight[order], np.flatnonzero(first))
    rows = np.sort(order[first])
    kept = data.take(rows)
    times = [None] * len(rows) if kept.time is None else kept.time.tolist()
    weights = (weight[rows] if summed else data.weight[rows]).tolist()
    return list(zip(kept.user.tolist(), kept.item.tolist(), times, weights, strict=True))


@given(ROWS, st.booleans(), st.sampled_from(["first", "sum"]), st.integers(1, 5))
def test_pairs_merged_in_pieces_are_those_merged_at_once(
    rows: list[tuple[int, int, int, float]], timed: bool, duplicates: Any, size: int
) -> None:
    user, item, time, weight = map(np.array, zip(*rows, strict=True))
    users, items = Vocabulary(np.arange(4)), Vocabulary(np.arange(4))
    columns: dict[str, Any] = {"time": time if timed else None, "weight": weight.astype(np.float32)}
    plain = Interactions(user.astype(np.int32), item.astype(np.int32), users, items, **columns)
    with in_pieces_of(size):
        data = Interactions.of(user, item, users=users, items=items, duplicates=duplicates, **columns)
    assert data.weight is not None
    times = [None] * len(data) if data.time is None else data.time.tolist()
    found = list(zip(data.user.tolist(), data.item.tolist(), times, data.weight.tolist(), strict=True))
    assert found == merged_at_once(plain, duplicates == "sum")


@given(ROWS, st.integers(1, 3), st.integers(1, 5))
def test_cleaning_in_pieces_leaves_the_same(rows: list[tuple[int, int, int, float]], least: int, size: int) -> None:
    data = Interactions.of(*zip(*[row[:2] for row in rows], strict=True), rating=[row[2] for row in rows])

    def cleaned() -> list[Any]:
        try:
            left = replace(data).clean(min_rating=least, k_core=least)  # a copy, without cached results
        except AleatorError as error:
            return [str(error)]
        return [pairs_of(left), left.notes, left.users.ids.tolist(), left.popularity.tolist()]

    at_once = cleaned()
    with in_pieces_of(size):
        assert cleaned() == at_once


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30))
def test_of_a_repeated_pair_the_first_in_time_stays(rows: list[tuple[int, int, int]]) -> None:
    user, item, time = zip(*rows, strict=True)
    data = Interactions.of(user, item, time=time, rating=range(len(rows)))
    first: dict[tuple[int, int], tuple[int, int]] = {}
    for place, (u, i, t) in enumerate(rows):
        first[u, i] = min(first.get((u, i), (t, place)), (t, place))
    assert data.time is not None
    assert data.rating is not None
    kept = dict(zip(pairs_of(data), zip(data.time.tolist(), data.rating.tolist(), strict=True), strict=True))
    assert kept == first
    extra = len(rows) - len(first)
    assert data.notes == ((f"duplicates: {extra} of {len(rows)} rows repeat a pair and were dropped",) if extra else ())


def test_without_times_the_first_row_of_a_pair_stays_in_its_place() -> None:
    data = of_pairs([(2, 1), (1, 1), (2, 1), (1, 0)], rating=[1, 2, 3, 4])
    assert pairs_of(data) == [(2, 1), (1, 1), (1, 0)]
    assert data.rating is not None
    assert data.rating.tolist() == [1, 2, 4]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=30))
def test_weights_of_a_repeated_pair_are_summed(rows: list[tuple[int, int, int]]) -> None:
    user, item, weight = zip(*rows, strict=True)
    total: Counter[tuple[int, int]] = Counter()
    for u, i, w in rows:
        total[u, i] += w
    data = Interactions.of(user, item, weight=weight, duplicates="sum")
    assert data.weight is not None
    assert dict(zip(pairs_of(data), data.weight.tolist(), strict=True)) == total
    counted = Interactions.of(user, item, duplicates="sum")
    extra = len(rows) - len(total)
    if extra:
        assert counted.weight is not None
        assert counted.weight.sum() == len(rows)
        assert counted.notes == (f"duplicates: {extra} of {len(rows)} rows added to a pair's weight",)
    else:
        assert counted.weight is None


def test_min_rating_keeps_high_ratings_and_forgets_who_is_left_with_none() -> None:
    data = of_pairs([("a", 1), ("a", 2), ("b", 3)], rating=[4, 3.5, 5]).clean(min_rating=4)
    assert pairs_of(data) == [("a", 1), ("b", 3)]
    assert data.items.ids.tolist() == [1, 3]
    assert data.notes == ("min_rating 4: 1 of 3 rows dropped",)


@given(PAIRS, st.integers(1, 4))
def test_k_core_is_the_largest_set_where_all_have_k(pairs: list[tuple[int, int]], k: int) -> None:
    left = set(pairs)
    while True:
        users, items = Counter(u for u, _ in left), Counter(i for _, i in left)
        smaller = {(u, i) for u, i in left if users[u] >= k and items[i] >= k}
        if smaller == left:
            break
        left = smaller
    data = of_pairs(pairs)
    if not left:
        with pytest.raises(AleatorError, match="cleaning left no interactions"):
            data.clean(k_core=k)
        return
    cleaned = data.clean(k_core=k)
    assert set(pairs_of(cleaned)) == left
    assert cleaned.users.ids.tolist() == sorted({u for u, _ in left})
    assert cleaned.items.ids.tolist() == sorted({i for _, i in left})
    assert cleaned.notes[-1] == f"{k}-core: {len(data) - len(left)} of {len(data)} rows dropped"


def test_cleaning_takes_all_columns_along() -> None:
    data = of_pairs([(9, 1), (7, 2), (7, 1)], time=[1, 2, 3], weight=[4, 5, 6], rating=[1, 2, 3])
    cleaned = data.with_titles({1: "one", 2: "two"}).clean(min_rating=3)
    assert pairs_of(cleaned) == [(7, 1)]
    assert [listed(cleaned.time), listed(cleaned.weight), listed(cleaned.rating)] == [[3], [6], [3]]
    assert cleaned.titles is not None
    assert cleaned.titles.tolist() == ["one"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"min_rating": 1}, "there is no rating"),
        ({"k_core": 0}, "k_core is 0"),
        ({"k_core": 9}, "left no interactions"),
    ],
)
def test_cleaning_that_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(AleatorError, match=says):
        of_pairs([(1, 1), (2, 1)]).clean(**options)


# Titles and parts


def test_titles_are_found_by_id_or_by_its_text_and_else_show_the_id() -> None:
    data = of_pairs([(1, 1), (1, 2), (1, 3)]).with_titles({1: "one", "2": "two", "03": "no"})
    assert data.titles is not None
    assert data.titles.tolist() == ["one", "two", "3"]
    assert data.notes == ("titles: 1 of 3 items have none and show their id",)
    assert listed(of_pairs([(1, "007")]).with_titles({7: "no", "007": "yes"}).titles) == ["yes"]


def test_together_a_part_without_weights_weighs_one() -> None:
    data = of_pairs([(1, 1), (1, 2), (2, 1)], weight=[2, 3, 4], time=[1, 2, 3])
    bare = Interactions(data.user[2:], data.item[2:], data.users, data.items, time=None)
    both = data.take(np.array([0, 1])).together(bare)
    assert pairs_of(both) == [(1, 1), (1, 2), (2, 1)]
    assert both.weight is not None
    assert both.weight.tolist() == [2, 3, 1]
    assert both.time is None


def test_the_order_in_time_is_the_time_or_the_order_of_the_rows() -> None:
    assert of_pairs([(1, 1), (1, 2)]).in_time() is None
    assert listed(of_pairs([(1, 1), (1, 2)], in_time_order=True).in_time()) == [0, 1]
    assert listed(of_pairs([(1, 1), (1, 2)], time=[5, 4], in_time_order=True).in_time()) == [5, 4]


def test_titles_that_are_no_dict_are_refused() -> None:
    with pytest.raises(AleatorError, match="the titles are a list; give a dict"):
        of_pairs([(1, 1)]).with_titles(["one"])  # type: ignore[arg-type]
