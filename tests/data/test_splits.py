"""Splits: the parts are disjoint and hold all pairs, and they do not depend on the order of the rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aleator.data.formats import read, write
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.errors import AleatorError

BYS: list[Any] = ["random", "user_time", "global_time", "last"]
Pairs = set[tuple[Any, Any]]

# (user, item, time), each pair once
ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 5)),
    min_size=2,
    max_size=50,
    unique_by=lambda row: row[:2],
)


def of_rows(rows: list[tuple[int, int, int]]) -> Interactions:
    user, item, time = zip(*rows, strict=True)
    return Interactions.of(user, item, time=time)


def pairs(data: Interactions) -> Pairs:
    return set(zip(data.users.decode(data.user).tolist(), data.items.decode(data.item).tolist(), strict=True))


def parts(split: Split) -> tuple[Pairs, Pairs, Pairs]:
    return pairs(split.train), pairs(split.valid), pairs(split.test)


def split_or_none(data: Interactions, **options: Any) -> Split | None:
    """The split, or None if there are too few data for one."""
    try:
        return data.split(**options)
    except AleatorError as error:
        if "leaves no" not in error.problem:
            raise
        return None


def world(n_users: int = 60, n_items: int = 40, seed: int = 0, **rest: Any) -> Interactions:
    """Users with 2 to 30 items each. All times differ."""
    rng = np.random.default_rng(seed)
    rows = [(u, i) for u in range(n_users) for i in rng.choice(n_items, rng.integers(2, 31), replace=False)]
    time = rng.permutation(len(rows))
    return Interactions.of([u for u, _ in rows], [i for _, i in rows], time=time, **rest)


# Properties of every split


@pytest.mark.parametrize("by", BYS)
@given(rows=ROWS, seed=st.integers(0, 9), valid=st.sampled_from([0.0, 0.1, 0.4]), test=st.sampled_from([0.2, 0.5]))
def test_parts_are_disjoint_and_hold_every_pair(
    by: Any, rows: list[tuple[int, int, int]], seed: int, valid: float, test: float
) -> None:
    data = of_rows(rows)
    made = split_or_none(data, by=by, valid=valid, test=test, seed=seed)
    assume(made is not None)
    assert made is not None
    assert len(made.train) + len(made.valid) + len(made.test) == len(data)
    assert set.union(*parts(made)) == pairs(data)
    assert len(made.test) > 0
    assert valid > 0 or len(made.valid) == 0
    assert made.train.users is data.users
    if by != "global_time":
        assert set(made.train.user.tolist()) == set(data.user.tolist()), "every user keeps a training pair"


@pytest.mark.parametrize("by", BYS)
@given(rows=ROWS, seed=st.integers(0, 9), shuffled=st.randoms(use_true_random=False))
def test_the_order_of_the_rows_is_no_matter(
    by: Any, rows: list[tuple[int, int, int]], seed: int, shuffled: Any
) -> None:
    mixed = list(rows)
    shuffled.shuffle(mixed)
    one, other = (split_or_none(of_rows(r), by=by, seed=seed, valid=0.2, test=0.3) for r in (rows, mixed))
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert parts(one) == parts(other)


@pytest.mark.parametrize("valid_by", ["random", "user_time", "global_time", "last", "balanced", "each"])
@given(rows=ROWS, seed=st.integers(0, 9), shuffled=st.randoms(use_true_random=False))
def test_what_is_carved_does_not_depend_on_the_order_of_the_rows(
    valid_by: Any, rows: list[tuple[int, int, int]], seed: int, shuffled: Any
) -> None:
    mixed = list(rows)
    shuffled.shuffle(mixed)
    carved: list[Any] = []
    for order in (rows, mixed):
        data = of_rows(order)
        nothing = data.take(np.zeros(len(data), bool))
        try:
            carved.append(parts(Split(data, nothing, nothing, valid_by=valid_by).carve(0.3, seed)))
        except AleatorError as error:
            carved.append(str(error))
    assert carved[0] == carved[1]


@pytest.mark.parametrize("by", ["user_time", "last"])
@given(rows=ROWS, seed=st.integers(0, 9))
def test_no_users_test_pair_is_older_than_its_training_pairs(
    by: Any, rows: list[tuple[int, int, int]], seed: int
) -> None:
    made = split_or_none(of_rows(rows), by=by, valid=0.3, test=0.3, seed=seed)
    assume(made is not None)
    assert made is not None
    for user in range(made.train.n_users):
        times = [p.time[p.user == user] for p in (made.train, made.valid, made.test) if p.time is not None]
        ordered = [t for t in times if len(t)]
        for earlier, later in pairwise(ordered):
            assert earlier.max() <= later.min()


@given(rows=ROWS)
def test_by_global_time_every_test_pair_is_as_late_as_all_others(rows: list[tuple[int, int, int]]) -> None:
    made = split_or_none(of_rows(rows), by="global_time", valid=0.2, test=0.3)
    assume(made is not None)
    assert made is not None
    times = [p.time for p in (made.train, made.valid, made.test) if p.time is not None and len(p)]
    for earlier, later in pairwise(times):
        assert earlier.max() <= later.min()
    assert len(made.test) == round(0.3 * len(rows))


# Shares and seeds


@pytest.mark.parametrize("by", ["random", "user_time"])
def test_each_user_gives_its_share(by: Any) -> None:
    data = world()
    made = data.split(by=by, valid=0.1, test=0.25, seed=1)
    size = np.bincount(data.user)
    held = np.bincount(made.test.user, minlength=data.n_users)
    assert (np.abs(held - 0.25 * size) < 1).all()
    assert len(made.test) == pytest.approx(0.25 * len(data), rel=0.05)
    assert len(made.valid) == pytest.approx(0.1 * len(data), rel=0.15)


def test_by_global_time_the_shares_are_exact() -> None:
    data = world()
    made = data.split(by="global_time", valid=0.1, test=0.2)
    assert len(made.test) == round(0.2 * len(data))
    assert len(made.valid) == round(0.125 * (len(data) - len(made.test)))


def test_by_last_one_pair_of_each_user_is_held_out() -> None:
    data = Interactions.of([1, 1, 1, 2, 2, 3], [5, 6, 7, 5, 6, 5], time=[3, 1, 2, 1, 2, 9])
    made = data.split(by="last")
    assert pairs(made.test) == {(1, 5), (2, 6)}
    assert pairs(made.valid) == {(1, 7)}
    assert pairs(made.train) == {(1, 6), (2, 5), (3, 5)}


def test_the_seed_decides_and_nothing_else() -> None:
    data = world()
    assert parts(data.split(seed=3)) == parts(data.split(seed=3))
    assert parts(data.split(seed=3)) != parts(data.split(seed=4))
    made = data.split(valid=0, seed=3)
    assert parts(made.carve(0.2, seed=5)) == parts(made.carve(0.2, seed=5))
    assert parts(made.carve(0.2, seed=5)) != parts(made.carve(0.2, seed=6))


def test_a_random_split_is_not_the_latest() -> None:
    data = world()
    made = data.split(by="random", valid=0)
    assert made.train.time is not None
    assert made.test.time is not None
    assert made.test.time.mean() == pytest.approx(made.train.time.mean(), rel=0.15)


def test_all_columns_go_along() -> None:
    data = world(weight=None)
    data = replace(data, weight=(data.item + 1).astype(np.float32), rating=data.user.astype(np.float32))
    made = data.split(valid=0.2)
    for part in (made.train, made.valid, made.test):
        assert part.weight is not None
        assert part.rating is not None
        assert (part.weight == part.item + 1).all()
        assert (part.rating == part.user).all()


def test_the_order_of_the_rows_is_the_time_where_that_is_said() -> None:
    data = Interactions.of([1, 1, 1, 2, 2], [9, 3, 5, 8, 2], in_time_order=True)
    assert pairs(data.split(by="last", valid=0.1).test) == {(1, 5), (2, 2)}
    assert pairs(data.split(by="last").valid) == {(1, 3)}


@pytest.mark.parametrize("by", ["user_time", "global_time", "last"])
def test_a_split_in_time_needs_times(by: Any) -> None:
    with pytest.raises(AleatorError, match=f"a split by {by} needs times; name the time column"):
        Interactions.of([1, 1, 2], [1, 2, 3]).split(by=by)


@pytest.mark.parametrize(
    ("valid", "test"), [(0.1, 0), (0.1, 1), (0.1, -0.1), (-0.1, 0.2), (0.5, 0.5), (1, 0.2), (0.1, float("nan"))]
)
def test_wrong_shares_are_refused(valid: float, test: float) -> None:
    with pytest.raises(AleatorError, match=r"valid is .* and test is .*; give shares"):
        world().split(valid=valid, test=test)


def test_a_misspelt_split_is_refused() -> None:
    with pytest.raises(AleatorError, match=r"unknown split 'user-time'; did you mean 'user_time'\?"):
        world().split(by=cast(Any, "user-time"))


@pytest.mark.parametrize("by", ["random", "user_time", "last"])
def test_users_of_one_pair_leave_no_test_pair(by: Any) -> None:
    with pytest.raises(AleatorError, match="the split leaves no test pair"):
        Interactions.of([1, 2, 3], [1, 1, 1], time=[1, 2, 3]).split(by=by)


def test_too_little_for_a_share_of_all() -> None:
    data = Interactions.of([1, 2], [1, 1], time=[1, 2])
    with pytest.raises(AleatorError, match="the split leaves no test pair"):
        data.split(by="global_time", test=0.1)
    with pytest.raises(AleatorError, match="the split leaves no training pair"):
        data.split(by="global_time", test=0.8, valid=0)


# Carving


def bare(data: Interactions, **about: Any) -> Split:
    nothing = data.take(np.zeros(len(data), bool))
    return Split(data, nothing, nothing, **about)


def test_what_is_carved_is_taken_from_train_alone() -> None:
    made = world().split(valid=0, test=0.2)
    carved = made.carve(0.1)
    assert carved.test is made.test
    assert pairs(carved.train) | pairs(carved.valid) == pairs(made.train)
    assert not pairs(carved.train) & pairs(carved.valid)
    assert len(carved.valid) == pytest.approx(0.1 * len(made.train), rel=0.1)
    assert pairs(carved.everything) == pairs(made.train)
    assert (carved.everything.popularity == made.train.popularity).all()
    assert carved.carve(0.5) is carved, "a validation part that is there stays"


@pytest.mark.parametrize("known", ["time", "order"])
def test_the_latest_are_carved_where_the_order_is_known(known: str) -> None:
    timed = world()
    assert timed.time is not None
    ordered = replace(timed.take(np.argsort(timed.time)), time=None, in_time_order=True)
    made = Split.of(timed if known == "time" else ordered, Interactions.of([0], [99]))
    assert made.valid_by == "user_time"
    carved = made.carve(0.2)
    when = {pair: t for t, pair in enumerate(zip(ordered.user.tolist(), ordered.item.tolist(), strict=True))}
    for user in range(timed.n_users):
        train, valid = ([when[p] for p in pairs(part) if p[0] == user] for part in (carved.train, carved.valid))
        assert not valid or max(train) < min(valid)
    assert len(carved.valid) == pytest.approx(0.2 * len(timed), rel=0.1)


def test_at_random_is_carved_where_no_order_is_known() -> None:
    data = replace(world(), time=None)
    made = Split.of(data, Interactions.of([0], [99]))
    assert made.valid_by == "random"
    assert len(made.carve(0.2).valid) == pytest.approx(0.2 * len(data), rel=0.1)


@pytest.mark.parametrize(
    ("share", "taken"),  # the lowest level that gives the share of 2484 pairs, at most half of an item's
    [(0.1, [2, 30, *[31] * 7]), (0.2, [2, 30, 60, *[68] * 6])],
)
def test_balanced_takes_as_many_of_every_item(share: float, taken: list[int]) -> None:
    rng = np.random.default_rng(0)
    rows = [(u, i) for i, size in enumerate([4, 60, 120, 300]) for u in rng.choice(400, size, replace=False)]
    rows += [(u, i) for u in range(400) for i in range(4, 9)]  # so that every user keeps a training pair
    data = Interactions.of([u for u, _ in rows], [i for _, i in rows])
    carved = bare(data, valid_by="balanced").carve(share)
    assert carved.valid.popularity.tolist() == taken
    assert set(carved.train.user.tolist()) == set(range(400))


def test_balanced_goes_no_higher_than_half_of_the_items_can() -> None:
    """Two popular items among 20 would otherwise give most of the part."""
    rng = np.random.default_rng(0)
    sizes = [8] * 10 + [20] * 8 + [300] * 2
    rows = [(u, i) for i, size in enumerate(sizes) for u in rng.choice(400, size, replace=False)]
    data = Interactions.of([u for u, _ in rows], [i for _, i in rows])
    carved = bare(data, valid_by="balanced").carve(0.2)  # 168 of 840 pairs: the share alone needs a level of 24
    half = data.popularity // 2
    assert int(np.minimum(half, 24).sum()) == 168
    level = int(np.median(half))
    assert level == 7  # of 4 and 10
    assert (carved.valid.popularity <= np.minimum(half, level)).all()
    assert int(np.minimum(half, level).sum()) - len(carved.valid) <= data.n_users
    assert carved.valid.popularity.max() == level


@given(rows=ROWS, share=st.sampled_from([0.05, 0.1, 0.3, 0.5, 0.9]), seed=st.integers(0, 9))
def test_balanced_is_the_least_level_that_holds_the_share(
    rows: list[tuple[int, int, int]], share: float, seed: int
) -> None:
    data = of_rows(rows)
    try:
        carved = bare(data, valid_by="balanced").carve(share, seed)
    except AleatorError:
        assume(False)
    half = data.popularity // 2
    levels = range(int(half.max()) + 1)
    level = next((c for c in levels if np.minimum(half, c).sum() >= share * len(data)), int(half.max()))
    level = min(level, max(int(np.median(half[half > 0])), 1)) if half.any() else 0
    full = np.minimum(half, level)
    assert (carved.valid.popularity <= full).all()
    given_back = int(full.sum()) - len(carved.valid)
    assert 0 <= given_back <= data.n_users
    assert set(carved.train.user.tolist()) == set(data.user.tolist()), "every user keeps a training pair"


def test_each_takes_as_many_of_every_user() -> None:
    data = world()
    carved = bare(data, valid_by="each").carve(0.1)
    wanted = round(0.1 * len(data) / data.n_users)
    size = np.bincount(data.user)
    assert np.bincount(carved.valid.user, minlength=data.n_users).tolist() == np.minimum(wanted, size // 2).tolist()


@pytest.mark.parametrize("share", [0, 1, -0.1, 2])
def test_a_wrong_share_is_not_carved(share: float) -> None:
    with pytest.raises(AleatorError, match=f"valid is {share}"):
        world().split(valid=0).carve(share)


def test_nothing_can_be_carved_from_users_of_one_pair() -> None:
    with pytest.raises(AleatorError, match="no validation pair could be carved"):
        bare(Interactions.of([1, 2], [1, 1])).carve()


def test_the_sizes_are_shown() -> None:
    made = replace(Interactions.of([1, 1, 2, 2], [1, 2, 1, 2], time=[1, 2, 3, 4]).split(by="last"), name="tiny")
    assert repr(made) == "Split(tiny: 2 users, 2 items; train 2, valid 0, test 2 pairs)"


# Given parts


def test_given_parts_get_one_vocabulary_and_keep_their_ids() -> None:
    train = Interactions.of(["b", "c"], [10, 20], weight=[2, 3])
    valid = Interactions.of(["a"], [5])
    test = Interactions.of(["z", "b"], [30, 5])
    made = Split.of(train, test, valid, name="mine")
    assert parts(made) == ({("b", 10), ("c", 20)}, {("a", 5)}, {("z", 30), ("b", 5)})
    for part in (made.train, made.valid, made.test):
        assert part.users.ids.tolist() == ["a", "b", "c", "z"]
        assert part.items.ids.tolist() == [5, 10, 20, 30]
    assert made.everything.weight is not None
    assert made.everything.weight.tolist() == [2, 3, 1]
    assert made.counts == {"train": 2, "valid": 1, "test": 2}
    assert made.name == "mine"


@given(ROWS, ROWS, ROWS)
def test_given_pairs_stand_in_the_first_part_that_has_them(a: Any, b: Any, c: Any) -> None:
    train, valid, test = of_rows(a), of_rows(b), of_rows(c)
    if not pairs(test) - pairs(train) - pairs(valid):
        with pytest.raises(AleatorError, match="the split leaves no test pair"):
            Split.of(train, test, valid)
        return
    made = Split.of(train, test, valid)
    assert parts(made) == (pairs(train), pairs(valid) - pairs(train), pairs(test) - pairs(train) - pairs(valid))
    for name, part, before in (("valid", made.valid, valid), ("test", made.test, test)):
        left_out = len(before) - len(part)
        told = f"{name}: {left_out} pairs that are also in an earlier part were left out"
        assert (told in part.notes) == (left_out > 0)
    assert made.counts == {"train": len(a), "valid": len(b), "test": len(c)}


def test_a_test_part_that_is_a_copy_of_train_is_refused() -> None:
    data = Interactions.of([1, 2], [1, 2])
    with pytest.raises(AleatorError, match="the split leaves no test pair"):
        Split.of(data, data)


def test_ids_of_different_widths_are_the_same_ids() -> None:
    train = Interactions.of(np.array([1, 2], np.int64), np.array([1, 2], np.int8))
    test = Interactions.of(np.array([2, 2**63 + 1], np.uint64), np.array([1, 200], np.uint8))
    made = Split.of(train, test)
    assert pairs(made.train) == {(1, 1), (2, 2)}
    assert pairs(made.test) == {(2, 1), (2**63 + 1, 200)}
    below = Interactions.of(np.array([-1], np.int64), [1])
    with pytest.raises(AleatorError, match="user ids take more than 64 bits"):
        Split.of(below, test)


@pytest.mark.parametrize("place", ["test", "valid"])
def test_parts_of_frames_with_ids_of_different_types_are_refused(place: str) -> None:
    train = Interactions.of([1, 2], [1, 2], frame="polars")
    other = Interactions.of(["1", "2"], [3, 4], frame="polars")
    test = other if place == "test" else Interactions.of([1, 2], [3, 4], frame="polars")
    with pytest.raises(AleatorError, match="user ids are integers in one part and texts in another"):
        Split.of(train, test, other if place == "valid" else None)


def test_floats_and_integers_are_different_types() -> None:
    with pytest.raises(AleatorError, match="item ids are floats in one part and integers in another"):
        Split.of(Interactions.of([1], [1.5]), Interactions.of([1], [2]))


@pytest.mark.parametrize("ending", ["csv", "tsv", "inter", "parquet", "npz"])
def test_a_split_that_was_written_is_the_same_when_read(ending: str, tmp_path: Path) -> None:
    items = ["1", "2", "3", "x", "10", "11"]  # texts, although one part may have only digits
    data = Interactions.of([1] * 6, items, time=range(6))
    for test_rows in ([0, 1], [0, 3], [4, 5]):
        held = np.isin(np.arange(6), test_rows)
        for name, rows in (("train", ~held), ("test", held)):
            write(data.take(rows), tmp_path / f"{name}.{ending}")
        made = Split.of(read(tmp_path / f"train.{ending}"), read(tmp_path / f"test.{ending}"))
        assert pairs(made.train) == pairs(data.take(~held))
        assert pairs(made.test) == pairs(data.take(held))


def test_a_real_title_wins_over_an_id_that_stands_in_for_one() -> None:
    train = Interactions.of([1, 1], [1, 2]).with_titles({1: "one", 2: "two"})
    test = Interactions.of([2, 2], [2, 3]).with_titles({3: "three"})
    made = Split.of(train, test)
    for part in (made.train, made.valid, made.test):
        assert part.titles is not None
        assert part.titles.tolist() == ["one", "two", "three"]


def test_a_balanced_split_tests_equally_many_pairs_of_each_item() -> None:
    data = world(n_users=200)
    made = data.split(valid=0.1, test=0.2, by="balanced", seed=3)
    tested = np.bincount(made.test.item, minlength=data.n_items)
    assert tested.max() - tested.min() <= 1
    assert len(made.test) == pytest.approx(0.2 * len(data), rel=0.1)
    assert np.bincount(data.item).std() > 2 * tested.std()
    assert (np.bincount(made.train.user, minlength=data.n_users) > 0).all()
    assert made.valid_by == "balanced"
    assert parts(data.split(valid=0.1, test=0.2, by="balanced", seed=3)) == parts(made)
    assert parts(data.split(valid=0.1, test=0.2, by="balanced", seed=4)) != parts(made)
    mixed = data.take(np.random.default_rng(0).permutation(len(data)))
    assert parts(mixed.split(valid=0.1, test=0.2, by="balanced", seed=3)) == parts(made)


# Pairs of equal time

SIZES = st.integers(2, 8)


@given(SIZES, st.sampled_from(["user_time", "last", "global_time"]))
def test_a_draw_decides_between_pairs_of_equal_time(size: int, by: Any) -> None:
    """Not always the highest id is held out."""
    data = of_rows([(0, item, 3) for item in range(size)])
    held = [pairs(data.split(valid=0.0, test=1 / size, by=by, seed=seed).test) for seed in range(40)]
    assert set().union(*held) - {(0, size - 1)}
    assert held == [pairs(data.split(valid=0.0, test=1 / size, by=by, seed=seed).test) for seed in range(40)]


@given(ROWS, st.sampled_from(["user_time", "last", "global_time"]), st.integers(0, 5))
def test_no_earlier_pair_is_held_out_before_a_later_one(rows: list[tuple[int, int, int]], by: Any, seed: int) -> None:
    data = of_rows(rows)
    try:
        made = data.split(valid=0.0, test=0.3, by=by, seed=seed)
    except AleatorError:
        assume(False)
        return
    train, test = ((part.user * (by != "global_time"), part.in_time()) for part in (made.train, made.test))
    for user in set(train[0].tolist()) & set(test[0].tolist()):
        earlier, later = (cast(Any, time)[of == user] for of, time in (train, test))
        assert earlier.max() <= later.min()


@given(SIZES, st.integers(0, 5))
def test_the_order_of_a_file_is_not_drawn(size: int, seed: int) -> None:
    item = list(range(size))[::-1]
    data = Interactions.of([0] * size, item, in_time_order=True)
    assert pairs(data.split(by="last", valid=0.0, seed=seed).test) == {(0, 0)}
    tied = Interactions.of([0] * size, item, time=[7] * size, in_time_order=True)
    assert pairs(tied.split(by="last", valid=0.0, seed=seed).test) == {(0, 0)}
