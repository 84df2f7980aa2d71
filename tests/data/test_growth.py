"""Interactions that grow: known ids keep their dense ids, and new pairs, titles and weights come in by stated rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleator.data.formats import read
from aleator.data.growth import grow
from aleator.data.interactions import Interactions
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError


def pairs(data: Interactions) -> list[tuple[Any, Any]]:
    return list(zip(data.users.decode(data.user).tolist(), data.items.decode(data.item).tolist(), strict=True))


ids = st.lists(st.integers(-50, 50), min_size=1, max_size=30)


@given(ids, ids, ids)
def test_known_ids_keep_their_dense_ids_and_all_are_found(
    first: list[int], second: list[int], third: list[int]
) -> None:
    for kind in (int, str, float):
        known, *more = (np.array([kind(n) for n in part]) for part in (first, second, third))
        vocabulary, _ = Vocabulary.of(known, "user")
        for part in more:
            grown = vocabulary.extended(Vocabulary.of(part, "user")[0].ids)
            assert grown.ids[: len(vocabulary)].tolist() == vocabulary.ids.tolist()
            assert sorted(grown.ids.tolist()) == sorted({*vocabulary.ids.tolist(), *part.tolist()})
            assert grown.encode(grown.ids).tolist() == list(range(len(grown)))
            assert grown.decode(grown.encode(part)).tolist() == part.tolist()
            vocabulary = grown
        assert vocabulary.encode([kind(99), "no id"]).tolist() == [-1, -1]


def test_integers_of_any_width_go_together_without_rounding() -> None:
    small, large = np.array([3, 2**62 + 1], np.int64), np.array([2**63 + 1], np.uint64)
    grown = Vocabulary(small).extended(large)
    assert grown.ids.tolist() == [3, 2**62 + 1, 2**63 + 1]
    with pytest.raises(AleatorError, match="more than 64 bits"):
        Vocabulary(np.array([-1])).extended(large)


def test_a_known_pair_stays_as_it_is_or_its_weights_are_added() -> None:
    known = Interactions.of(["a", "b"], [1, 2], weight=[2.0, 3.0])
    new = Interactions.of(["b", "c"], [2, 1], weight=[5.0, 7.0])
    first, added = grow(known, new), grow(known, new, "sum")
    assert pairs(first.after) == pairs(added.after) == [("a", 1), ("b", 2), ("c", 1)]
    assert first.after.weight is not None
    assert added.after.weight is not None
    assert first.after.weight.tolist() == [2.0, 3.0, 7.0]
    assert added.after.weight.tolist() == [2.0, 8.0, 7.0]
    assert first.counts == {"pairs": 1, "users": 1, "items": 0}
    with pytest.raises(AleatorError, match="did you mean 'sum'"):
        grow(known, new, "sums")  # type: ignore[arg-type]


def test_pairs_without_weights_count_1_beside_weighted_ones() -> None:
    known, new = Interactions.of([1, 2], [1, 2], weight=[2.0, 3.0]), Interactions.of([3, 1], [1, 2])
    after = grow(known, new).after
    assert after.weight is not None
    assert after.weight.tolist() == [2.0, 3.0, 1.0, 1.0]


def test_titles_of_both_are_known_and_the_new_ones_win() -> None:
    known = Interactions.of([1, 2], [1, 2]).with_titles({1: "one", 2: "two"})
    new = Interactions.of([3, 3], [2, 7]).with_titles({2: "deux", 7: "sept"})
    after = grow(known, new).after
    assert after.titles is not None
    assert after.titles.tolist() == ["one", "deux", "sept"]
    untitled = grow(known, Interactions.of([3], [9])).after
    assert untitled.titles is not None
    assert untitled.titles.tolist() == ["one", "two", "9"]
    assert untitled.notes == known.notes
    assert grow(Interactions.of([1], [1]), Interactions.of([3], [9])).after.titles is None


def test_whole_numbers_of_a_text_file_are_texts_where_the_known_ids_are(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("user,item\n12,5\n")
    known = Interactions.of(["u1", "12"], [1, 2])
    after = grow(known, read(tmp_path / "new.csv")).after
    assert pairs(after)[-1] == ("12", 5)
    assert after.n_users == 2


def test_ids_of_another_kind_are_refused() -> None:
    known = Interactions.of([1, 2], ["a", "b"])
    with pytest.raises(AleatorError, match=r"the user ids of the new pairs are texts, and those that .* are integers"):
        grow(known, Interactions.of(["x"], ["a"]))
    with pytest.raises(AleatorError, match="the item ids of the new pairs are floats"):
        grow(known, Interactions.of([1], [2.5]))


def test_rows_are_in_order_of_time_only_if_both_are() -> None:
    known, new = (Interactions.of([1], [n], in_time_order=True) for n in (1, 2))
    assert grow(known, new).after.in_time_order
    assert not grow(known, Interactions.of([1], [2])).after.in_time_order


def test_attributes_of_new_items_join_those_of_the_known_ones() -> None:
    known = Interactions.of([1, 2], ["a", "b"]).with_attributes({"item": ["a", "b"], "genre": ["Drama", "War"]})
    new = Interactions.of([3, 3], ["c", "a"]).with_attributes({"item": ["c", "a"], "genre": ["Comedy", "Drama"]})
    after = grow(known, new).after
    genre = after.attributes["genre"]
    assert after.items.decode(genre.item).tolist() == ["a", "b", "c"]
    assert genre.values.tolist() == ["Drama", "War", "Comedy"]
