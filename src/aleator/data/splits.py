"""Splits: train, validation and test parts, where validation looks like the test that comes next."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aleator.data.arrays import Array
from aleator.data.interactions import Interactions
from aleator.data.tail import Tail
from aleator.data.vocabulary import Vocabulary
from aleator.errors import require, unknown_name

By = Literal["random", "user_time", "global_time", "last"]
ValidBy = Literal["random", "user_time", "global_time", "last", "balanced", "each"]
Rows = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Split:
    """Three disjoint sets of pairs that share their vocabularies. `valid` is empty until it is carved."""

    train: Interactions
    valid: Interactions
    test: Interactions
    valid_by: ValidBy = "random"  # how a validation part looks like the test
    name: str | None = None
    paper_tail: Tail | None = None  # the cut of the paper's released program, where it has one
    counts: dict[str, int] = field(default_factory=dict)  # pairs of each part as the files gave them

    def __post_init__(self) -> None:
        require(len(self.train) > 0, "the split leaves no training pair", "hold out less")

    @classmethod
    def of(cls, train: Interactions, test: Interactions, valid: Interactions | None = None, **about: Any) -> Split:
        """A split from parts that were read apart: their ids are put into one vocabulary.

        A pair of the test (or validation) part that also stands in train is left out of the former, and counted.
        """
        parts = [train, test] + ([valid] if valid is not None else [])
        typed = any(p.frame is not None for p in parts)
        users, user_of = _one_vocabulary([p.users.ids for p in parts], typed, "user")
        items, item_of = _one_vocabulary([p.items.ids for p in parts], typed, "item")
        titles: dict[Any, str] = {}
        for part in parts:
            if part.titles is not None:
                named = zip(part.items.decode(np.arange(part.n_items)).tolist(), part.titles.tolist(), strict=True)
                titles |= {i: title for i, title in named if title != str(i)}  # the rest only show their id

        def moved(place: int) -> Interactions:
            part = parts[place]
            user, item = user_of[place][part.user].astype(np.int32), item_of[place][part.item].astype(np.int32)
            return replace(part, user=user, item=item, users=users, items=items, titles=None)

        def without(part: Interactions, others: list[Interactions], name: str) -> Interactions:
            key = part.user.astype(np.int64) * len(items) + part.item
            seen = np.isin(key, np.concatenate([o.user.astype(np.int64) * len(items) + o.item for o in others]))
            notes = (
                (f"{name}: {int(seen.sum())} pairs that also stand in an earlier part were left out",)
                if seen.any()
                else ()
            )
            return part.take(~seen, *notes)

        train = moved(0)
        if titles:
            train = replace(train, titles=train.with_titles(titles).titles)
        valid = train.take(np.zeros(len(train), bool)) if valid is None else without(moved(2), [train], "valid")
        test = without(moved(1), [train, valid], "test")
        require(len(test) > 0, "the split leaves no test pair", "check that the test part is not a copy of train")
        about.setdefault("valid_by", "user_time" if train.in_time() is not None else "random")
        counts = {"train": len(parts[0]), "valid": len(parts[2]) if len(parts) > 2 else 0, "test": len(parts[1])}
        return cls(
            train, replace(valid, titles=train.titles), replace(test, titles=train.titles), counts=counts, **about
        )

    @cached_property
    def everything(self) -> Interactions:
        """Train and valid together: what the final model is fitted on and what popularity is counted on."""
        return self.train.together(self.valid) if len(self.valid) else self.train

    def carve(self, valid: float = 0.1, seed: int = 0) -> Split:
        """The same split with a validation part taken out of train, unless there is one already."""
        if len(self.valid):
            return self
        require(0 < valid < 1, f"valid is {valid}", "give a share between 0 and 1")
        held = _hold_out(self.train, valid, self.valid_by, np.random.default_rng(seed))
        require(
            bool(held.any()), "no validation pair could be carved from train", "give more data or a validation part"
        )
        return replace(self, train=self.train.take(~held), valid=self.train.take(held))

    def __repr__(self) -> str:
        sizes = f"train {len(self.train):,}, valid {len(self.valid):,}, test {len(self.test):,} pairs"
        return f"Split({self.name or 'unnamed'}: {self.train.n_users:,} users, {self.train.n_items:,} items; {sizes})"


def split(data: Interactions, *, valid: float, test: float, by: By, seed: int) -> Split:
    """Split `data`; `valid` and `test` are shares of all pairs (one pair of each user with `by="last"`).

    "random" draws from each user, "user_time" takes each user's latest, "global_time" the latest of all, "last" each
    user's last one. A user always keeps a training pair, except with "global_time". Validation is taken by the same
    rule as the test, so that what is chosen on it fits what comes next.
    """
    if by not in ("random", "user_time", "global_time", "last"):
        raise unknown_name("split", by, ["random", "user_time", "global_time", "last"])
    require(
        0 < test < 1 and 0 <= valid < 1 and valid + test < 1,
        f"valid is {valid} and test is {test}",
        "give shares of at least 0 that sum to less than 1, with a test share above 0",
    )
    rng = np.random.default_rng(seed)
    held = _hold_out(data, test, by, rng)
    require(bool(held.any()), "the split leaves no test pair", "give users with more pairs or a larger test share")
    rest = data.take(~held)
    made = Split(rest, rest.take(np.zeros(len(rest), bool)), data.take(held), valid_by=by)
    if valid == 0:
        return made
    held = _hold_out(rest, valid / (1 - test), by, rng)
    return replace(made, train=rest.take(~held), valid=rest.take(held))


def _one_vocabulary(ids: list[Array], typed: bool, kind: str) -> tuple[Vocabulary, list[Array]]:
    """The ids of all parts, none of them changed, and the dense ids of each part's.

    Files without types are read one by one, so that the same ids may be integers in one and texts in another, which
    has an id that is no number: they are texts in both then. In frames (`typed`) that is a mistake.
    """
    types = {{"i": "integers", "u": "integers", "f": "floats"}.get(i.dtype.kind, "texts") for i in ids}
    if types == {"integers", "texts"} and not typed:
        ids, types = [i.astype(np.dtypes.StringDType()) for i in ids], {"texts"}
    require(
        len(types) == 1,
        f"the {kind} ids are {' in one part and '.join(sorted(types))} in another",
        "read all parts with ids of one type",
    )
    dtype = np.result_type(*(i.dtype for i in ids))
    if types == {"integers"} and dtype.kind == "f":  # numpy's way with int64 and uint64
        dtype = np.dtype(np.uint64 if all(i[0] >= 0 for i in ids) else np.int64)
        fits = all(i[-1] <= np.iinfo(dtype).max for i in ids)
        require(fits, f"the {kind} ids take more than 64 bits", "make them strings")
    vocabulary = Vocabulary(np.unique(np.concatenate([i.astype(dtype) for i in ids])))
    return vocabulary, [vocabulary.encode(i) for i in ids]


def _hold_out(data: Interactions, share: float, by: ValidBy, rng: np.random.Generator) -> Rows:
    """Which rows are held out. Draws are made in the order of the ids, so that the order of the rows is no matter."""
    if by == "balanced":
        return _balanced(data, share, rng)
    if by == "global_time":
        return _latest_of_all(data, share)
    canonical = np.lexsort((data.item, data.user))
    key = np.empty(len(data))
    key[canonical] = rng.random(len(data))
    if by not in ("random", "each"):
        time = data.in_time()
        require(time is not None, f"a split by {by} needs times", "name the time column or split at random")
        assert time is not None
        key = np.empty(len(data))  # ties in time are ordered by item
        key[np.lexsort((data.item, time))] = np.arange(len(data))
    size = np.bincount(data.user, minlength=data.n_users)
    wanted = np.floor(share * size + rng.random(len(size)))
    if by == "last":
        wanted = np.ones(len(size))
    elif by == "each":  # as many of every user, at most half of what there is: how MovieLens' ua split was drawn
        wanted = np.minimum(round(share * len(data) / max((size > 0).sum(), 1)), size // 2)
    held_of_user = np.minimum(wanted, np.maximum(size - 1, 0))
    return _rank_from_top(data.user, key) < held_of_user[data.user]


def _rank_from_top(group: NDArray[Any], key: NDArray[Any]) -> NDArray[np.int64]:
    """Position of each row within its group, the largest key first."""
    order = np.lexsort((-key, group))
    start = np.r_[0, np.cumsum(np.bincount(group))][group[order]]
    rank = np.empty(len(group), np.int64)
    rank[order] = np.arange(len(group)) - start
    return rank


def _latest_of_all(data: Interactions, share: float) -> Rows:
    require(data.time is not None, "a split by global_time needs times", "name the time column or split at random")
    assert data.time is not None
    order = np.lexsort((data.item, data.user, data.time))
    held = np.zeros(len(data), bool)
    held[order[len(data) - round(share * len(data)) :]] = True
    return held


def _balanced(data: Interactions, share: float, rng: np.random.Generator) -> Rows:
    """The same number of pairs of each item, at most half of an item's, drawn at random from users with two or more."""
    canonical = np.lexsort((data.item, data.user))
    key = np.empty(len(data))
    key[canonical] = rng.random(len(data))
    most = data.popularity // 2
    gained = np.cumsum(np.bincount(most)[::-1])[::-1]  # [c] pairs that the level c adds to the level below, c > 0
    level = int(np.searchsorted(np.r_[0, np.cumsum(gained[1:])], share * len(data)))
    held = _rank_from_top(data.item, key) < np.minimum(most, level)[data.item]
    # a user whose every pair was drawn keeps the one drawn last
    size = np.bincount(data.user, minlength=data.n_users)
    stripped = np.bincount(data.user[held], minlength=data.n_users) == size
    last = _rank_from_top(data.user, -key) == 0
    kept: Rows = held & ~(stripped[data.user] & last)
    return kept
