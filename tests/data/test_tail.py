"""Tail: as many whole popularity levels as fit, starting with the least popular one."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleator.data.archives import read_parts
from aleator.data.tail import DEFAULT_TAIL, Tail
from aleator.errors import AleatorError

ARCHIVES = Path(os.environ.get("ALEATOR_DATA") or Path(__file__).parents[3] / "shared" / "data")
POPULARITY = st.lists(st.integers(0, 12), min_size=1, max_size=40)
PERCENT = st.integers(1, 99)


def brute_force(weights: list[int], popularity: list[int], share: Fraction) -> int:
    """The highest level up to which the sum of the weights stays within the share."""
    cut = -1
    for level in sorted(set(popularity)):
        within = sum(w for w, p in zip(weights, popularity, strict=True) if p <= level)
        if within > share * sum(weights):
            break
        cut = level
    return cut


@given(POPULARITY, PERCENT)
def test_mass_is_the_most_levels_within_the_share_of_the_interactions(popularity: list[int], percent: int) -> None:
    counts = np.array(popularity)
    tail = Tail.mass(percent / 100)
    assert tail.cut(counts) == brute_force(popularity, popularity, Fraction(percent, 100))
    assert 100 * counts[tail.mask(counts)].sum() <= percent * counts.sum()


@given(POPULARITY, PERCENT)
def test_items_is_the_most_levels_within_the_share_of_the_items(popularity: list[int], percent: int) -> None:
    counts = np.array(popularity)
    tail = Tail.items(percent / 100)
    assert tail.cut(counts) == brute_force([1] * len(popularity), popularity, Fraction(percent, 100))
    assert 100 * tail.mask(counts).sum() <= percent * len(counts)


@given(POPULARITY, st.integers(0, 12), PERCENT)
def test_items_of_equal_popularity_are_never_apart(popularity: list[int], most: int, percent: int) -> None:
    counts = np.array(popularity)
    for tail in (Tail.count(most), Tail.mass(percent / 100), Tail.items(percent / 100)):
        mask = tail.mask(counts)
        assert mask.tolist() == [p <= tail.cut(counts) for p in popularity]
    assert Tail.count(most).mask(counts).tolist() == [p <= most for p in popularity]


@pytest.mark.parametrize("scale", [1, 10**7])
def test_a_level_that_just_fits_is_tail_at_any_size(scale: int) -> None:
    counts = np.array([29, 71]) * scale
    assert Tail.mass(0.29).cut(counts) == 29 * scale  # 0.29 * 100 is less than 29 in floating point
    counts[0] += 1
    assert Tail.mass(0.29).cut(counts) == -1


def test_nothing_is_tail_where_the_lowest_level_is_too_much() -> None:
    counts = np.array([3, 3, 3])
    assert Tail.mass(0.5).cut(counts) == -1
    assert not Tail.mass(0.5).mask(counts).any()
    assert Tail.mass(0.5).describe(counts).startswith("no item")


def test_items_without_interactions_are_tail() -> None:
    assert Tail.mass(0.5).mask(np.array([0, 9, 0])).tolist() == [True, False, True]


def test_the_default_tail_has_half_of_the_interactions() -> None:
    assert Tail.mass(0.5) == DEFAULT_TAIL


@pytest.mark.parametrize("text", ["mass:0.5", "count:56", "items:0.85", "count:1234567", "mass:0.123456789", "count:0"])
def test_a_tail_is_written_as_it_is_parsed(text: str) -> None:
    assert str(Tail.parse(text)) == text
    assert Tail.parse(str(Tail.parse(text))) == Tail.parse(text)


def test_parse_gives_the_rule() -> None:
    assert Tail.parse("mass:0.5") == Tail.mass(0.5)
    assert Tail.parse("count:56") == Tail.count(56)
    assert Tail.parse("items:0.85") == Tail.items(0.85)


@pytest.mark.parametrize("share", ["", "x", "0", "1", "-1", "2", "nan", "inf", "0.5:1"])
@pytest.mark.parametrize("rule", ["mass", "items", "share"])
def test_what_is_no_share_is_refused(rule: str, share: str) -> None:
    with pytest.raises(AleatorError):
        Tail.parse(f"{rule}:{share}")


@pytest.mark.parametrize("text", ["", "mass", "0.5", "count:-1", "count:2.7", "count:inf", "count:nan", "count:x"])
def test_what_is_no_tail_is_refused(text: str) -> None:
    with pytest.raises(AleatorError):
        Tail.parse(text)


def test_describe_says_cut_and_shares() -> None:
    text = Tail.mass(0.5).describe(np.array([1, 1, 2, 4, 8]))
    assert text == "popularity <= 4: 80.00 % of the items, 50.0 % of the interactions"


def test_on_yelp2018_half_the_mass_is_popularity_up_to_55() -> None:
    path = ARCHIVES / "yelp2018.npz"
    if not path.is_file():
        pytest.skip(f"no archive {path}; set ALEATOR_DATA to the folder that has it")
    parts = read_parts(path)
    n_items = int(max(part["item"].max() for part in parts.values())) + 1
    popularity = np.bincount(parts["train"]["item"], minlength=n_items)
    assert Tail.mass(0.5).cut(popularity) == 55
    assert f"{Tail.mass(0.5).mask(popularity).mean():.2%}" == "86.29%"
    assert Tail.mass(0.5).describe(popularity).startswith("popularity <= 55: 86.29 % of the items")
