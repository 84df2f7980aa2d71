"""Splits: train, validation and test parts, with validation pairs that are taken like the test pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from aleator.data.arrays import Array
from aleator.data.attributes import Attribute
from aleator.data.interactions import Interactions
from aleator.data.splits_on_disk import hold_out_on_disk
from aleator.data.tail import Tail
from aleator.data.vocabulary import Vocabulary, kind_of, of_one_type
from aleator.errors import require, require_seed, unknown_name
from aleator.words import By

ValidBy = Literal["random", "user_time", "global_time", "last", "balanced", "each"]
Rows = NDArray[np.bool_]  # a mask of rows, [n]


@dataclass(frozen=True, eq=False)
class Split:
    """Train, validation and test parts of interactions.

    The parts have no pair in common and share their vocabularies. Make a split with `Interactions.split`, from parts
    that were read separately with `Split.of`, or with `aleator.load_dataset`.

    Attributes:
        train: Training pairs.
        valid: Validation pairs. Empty until `carve` takes them out of `train`, if there are none.
        test: Test pairs.
        valid_by: How `carve` takes validation pairs, so that they look like the test pairs. "random", "user_time",
            "global_time", "last" and "balanced" are those of `Interactions.split`. "each" takes equally many pairs of
            each user.
        name: Name of the dataset.
        paper_tail: Tail of the paper's released program, for the datasets of the paper.
        counts: Number of pairs of each part in the files.
        judged: Test pairs with ratings, high and low, if `test` has only those that are rated high.

    Example:
        >>> train = Interactions.of(["ann", "bob"], ["x", "y"])
        >>> test = Interactions.of(["ann"], ["y"])
        >>> Split.of(train, test, name="mine")
        Split(mine: 2 users, 2 items; train 2, valid 0, test 1 pairs)
    """

    train: Interactions
    valid: Interactions
    test: Interactions
    valid_by: ValidBy = "random"
    name: str | None = None
    paper_tail: Tail | None = None
    counts: dict[str, int] = field(default_factory=dict)
    judged: Interactions | None = None

    def __post_init__(self) -> None:
        require(len(self.train) > 0, "the split leaves no training pair", "hold out less")

    @classmethod
    def of(cls, train: Interactions, test: Interactions, valid: Interactions | None = None, **about: Any) -> Split:
        """Make a split from parts that were read separately.

        Their ids are put into one vocabulary. A validation pair that is also in train is left out. So is a test pair
        that is also in train or validation. The notes of the part say how many were left out.

        Args:
            train: Training pairs.
            test: Test pairs.
            valid: Validation pairs, if there are any.
            **about: Other attributes of `Split`: valid_by, name, paper_tail. Without valid_by, it is "user_time" if
                the order in time is known and "random" otherwise.
        """
        given = {"train": train, "test": test} | ({} if valid is None else {"valid": valid})
        counts = {name: len(given[name]) if name in given else 0 for name in ("train", "valid", "test")}
        parts = _with_shared_ids(given)
        train = parts["train"]
        valid = _without(parts["valid"], [train], "valid") if "valid" in parts else nothing_of(train)
        test = _without(parts["test"], [train, valid], "test")
        require(len(test) > 0, "the split leaves no test pair", "check that the test part is not a copy of train")
        about.setdefault("valid_by", "user_time" if train.in_time() is not None else "random")
        shared: dict[str, Any] = {"titles": train.titles, "attributes": train.attributes}
        return cls(train, replace(valid, **shared), replace(test, **shared), counts=counts, **about)

    @cached_property
    def everything(self) -> Interactions:
        """Train and validation pairs together. The final model is fitted on them, and popularity is counted on them."""
        return self.train.together(self.valid) if len(self.valid) else self.train

    def carve(self, valid: float = 0.1, seed: int = 0) -> Split:
        """The same split with a validation part that is taken out of train.

        A split that has a validation part already comes back unchanged.

        Args:
            valid: Share of the training pairs, between 0 and 1.
            seed: Seed of the random draws.
        """
        if len(self.valid):
            return self
        require(0 < valid < 1, f"valid is {valid}", "give a share between 0 and 1")
        require_seed(seed)
        train, held = _divide(self.train, valid, self.valid_by, np.random.default_rng(seed))
        enough = len(held) > 0
        require(enough, "no validation pair could be carved from train", "give more data or a validation part")
        return replace(self, train=train, valid=held)

    def __repr__(self) -> str:
        sizes = f"train {len(self.train):,}, valid {len(self.valid):,}, test {len(self.test):,} pairs"
        return f"Split({self.name or 'unnamed'}: {self.train.n_users:,} users, {self.train.n_items:,} items; {sizes})"


def split(data: Interactions, *, valid: float, test: float, by: By, seed: int) -> Split:
    """Split `data`; see `Interactions.split`."""
    if by not in get_args(By):
        raise unknown_name("split", by, get_args(By))
    require(
        0 < test < 1 and 0 <= valid < 1 and valid + test < 1,
        f"valid is {valid} and test is {test}",
        "give shares of at least 0 that sum to less than 1, with a test share above 0",
    )
    require_seed(seed)
    rng = np.random.default_rng(seed)
    rest, held = _divide(data, test, by, rng)
    require(len(held) > 0, "the split leaves no test pair", "give users with more pairs or a larger test share")
    made = Split(rest, nothing_of(rest), held, valid_by=by)
    if valid == 0:
        return made
    train, held = _divide(rest, valid / (1 - test), by, rng)
    return replace(made, train=train, valid=held)


def nothing_of(data: Interactions) -> Interactions:
    """None of the pairs, with the same vocabularies."""
    return data.take(slice(0, 0))


def _divide(
    data: Interactions, share: float, by: ValidBy, rng: np.random.Generator
) -> tuple[Interactions, Interactions]:
    """The pairs that stay, and those that are held out."""
    if data.on_disk is not None:
        alone = by in ("random", "user_time", "last")
        require(alone, f"pairs on disk cannot be split by {by}", "split by random, user_time or last")
        return hold_out_on_disk(
            data, data.on_disk, f"{by}-{share:.6g}", partial(_held_of_users, share=share, by=by), rng
        )
    held = _hold_out(data, share, by, rng)
    return data.take(~held), data.take(held)


def _with_shared_ids(parts: dict[str, Interactions]) -> dict[str, Interactions]:
    """The parts with one vocabulary of users and one of items; train has the titles and attributes of all parts."""
    typed = any(part.frame is not None for part in parts.values())
    sides = {kind: [getattr(part, f"{kind}s").ids for part in parts.values()] for kind in ("user", "item")}
    users, user_of = _one_vocabulary(sides["user"], typed, "user")
    items, item_of = _one_vocabulary(sides["item"], typed, "item")
    notes = tuple(
        f"{kind} ids: whole numbers in one part and texts in another; all of them are texts now, such as '1' for 1"
        for kind, ids in sides.items()
        if len({own.dtype.kind in "iu" for own in ids}) > 1
    )
    moved = {}
    for (name, part), new_user, new_item in zip(parts.items(), user_of, item_of, strict=True):
        user = new_user[part.user].astype(np.int32)
        item = new_item[part.item].astype(np.int32)
        told = part.notes + notes
        moved[name] = replace(part, user=user, item=item, users=users, items=items, titles=None, notes=told)
    titles, train = titles_of(parts.values()), moved["train"]
    moved["train"] = replace(
        train,
        titles=train.with_titles(titles).titles if titles else None,
        attributes=attributes_of(parts.values(), item_of),
    )
    return moved


def attributes_of(parts: Iterable[Interactions], item_of: list[Array]) -> dict[str, Attribute]:
    """The attributes of all parts. `item_of` has the new dense ids of the items of each."""
    found: dict[str, Attribute] = {}
    for part, new_item in zip(parts, item_of, strict=True):
        for name, attribute in part.attributes.items():
            own = attribute.moved(new_item)
            found[name] = own if name not in found else found[name].joined(own, name)
    return found


def titles_of(parts: Iterable[Interactions]) -> dict[Any, str]:
    """Titles of all parts by external item id. An id that stands in for a title does not count."""
    titles: dict[Any, str] = {}
    for part in parts:
        if part.titles is not None:
            ids = part.items.decode(np.arange(part.n_items)).tolist()
            for item_id, title in zip(ids, part.titles.tolist(), strict=True):
                if title != str(item_id):
                    titles[item_id] = title
    return titles


def _without(part: Interactions, earlier: list[Interactions], name: str) -> Interactions:
    """The pairs of a part that are in none of the earlier parts."""

    def keys(data: Interactions) -> NDArray[np.int64]:
        return data.user.astype(np.int64) * data.n_items + data.item

    own, known = keys(part), np.sort(np.concatenate([keys(other) for other in earlier]))
    seen = np.searchsorted(known, own, "right") > np.searchsorted(known, own)  # quicker than np.isin
    if not seen.any():
        return part
    return part.take(~seen, f"{name}: {int(seen.sum())} pairs that are also in an earlier part were left out")


def _one_vocabulary(ids: list[Array], typed: bool, kind: str) -> tuple[Vocabulary, list[Array]]:
    """One vocabulary of the ids of all parts, and for each part the new dense ids of its old ones.

    Text files have no types and are read one by one. So the same ids may be integers in one part and texts in another,
    which has an id that is not a number. Then all of them become texts. In frames (`typed`) this is an error.
    """
    types = {kind_of(own) for own in ids}
    if types == {"integers", "texts"} and not typed:
        ids = [own.astype(np.dtypes.StringDType()) for own in ids]
        types = {"texts"}
    require(
        len(types) == 1,
        f"the {kind} ids are {' in one part and '.join(sorted(types))} in another",
        "read all parts with ids of one type",
    )
    vocabulary = Vocabulary(np.unique(np.concatenate(of_one_type(ids, kind))))
    return vocabulary, [vocabulary.encode(own) for own in ids]


def _hold_out(data: Interactions, share: float, by: ValidBy, rng: np.random.Generator) -> Rows:
    """Which rows are held out. The result does not depend on the order of the rows, unless that order is the time."""
    if by == "balanced":
        return _balanced(data, share, rng)
    key = _random_key(data, rng)
    if by == "global_time":
        return _latest_of_all(data, share, key)
    return _held_of_users(data, key, rng.random(data.n_users), share, by)


def _held_of_users(
    data: Interactions, key: NDArray[np.float64], draw: NDArray[np.float64], share: float, by: ValidBy
) -> Rows:
    """Which rows are held out by a rule that looks at each user alone.

    `key` has a random number for each row, and `draw` one for each user.
    """
    if by not in ("random", "each"):
        key = _time_key(data, by, key)
    size = np.bincount(data.user, minlength=data.n_users)
    wanted = np.floor(share * size + draw)
    if by == "last":
        wanted = np.ones(len(size))
    elif by == "each":  # MovieLens' ua split was drawn so: equally many of each user, but at most half of them
        n_active = max((size > 0).sum(), 1)
        wanted = np.minimum(round(share * len(data) / n_active), size // 2)
    held_of_user = np.minimum(wanted, np.maximum(size - 1, 0))
    return _rank_from_top(data.user, key) < held_of_user[data.user]


def _random_key(data: Interactions, rng: np.random.Generator) -> NDArray[np.float64]:
    """A random number for each row. It is drawn in the order of the ids, so the order of the rows does not matter."""
    by_ids = np.argsort(data.user.astype(np.int64) * data.n_items + data.item, kind="stable")  # quick if sorted already
    key = np.empty(len(data))
    key[by_ids] = rng.random(len(data))
    return key


def _time_key(data: Interactions, by: ValidBy, draw: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rank of each row in time, the latest highest.

    Rows of equal time are ordered by `draw`: by their ids, the same items would always count as the latest. Where the
    order of the rows is the time, it stays.
    """
    time = data.in_time()
    require(time is not None, f"a split by {by} needs times", "name the time column or split at random")
    assert time is not None
    key = np.empty(len(data))
    key[np.lexsort((np.arange(len(data)) if data.in_time_order else draw, time))] = np.arange(len(data))
    return key


def _rank_from_top(group: NDArray[Any], key: NDArray[Any]) -> NDArray[np.int64]:
    """Position of each row within its group, starting with the largest key, [n]."""
    order = np.lexsort((-key, group))
    start = np.r_[0, np.cumsum(np.bincount(group))][group[order]]
    rank = np.empty(len(group), np.int64)
    rank[order] = np.arange(len(group)) - start
    return rank


def _latest_of_all(data: Interactions, share: float, draw: NDArray[np.float64]) -> Rows:
    require(data.time is not None, "a split by global_time needs times", "name the time column or split at random")
    held: Rows = _time_key(data, "global_time", draw) >= len(data) - round(share * len(data))
    return held


def _balanced(data: Interactions, share: float, rng: np.random.Generator) -> Rows:
    """Equally many random pairs of each item, but at most half of them. Each user keeps at least one pair.

    The number of pairs (the level) is the lowest at which all items together give the share, but at most the number that
    half of the items can give. At a higher level popular items would give most of the pairs, and the part would follow
    popularity after all.
    """
    key = _random_key(data, rng)
    most = data.popularity // 2
    gained = np.cumsum(np.bincount(most)[::-1])[::-1]  # [c]: items that give a c-th pair
    level = int(np.searchsorted(np.r_[0, np.cumsum(gained[1:])], share * len(data)))
    level = min(level, max(int(np.median(most[most > 0])) if most.any() else 0, 1))
    held = _rank_from_top(data.item, key) < np.minimum(most, level)[data.item]
    size = np.bincount(data.user, minlength=data.n_users)
    lost_all = np.bincount(data.user[held], minlength=data.n_users) == size
    drawn_last = _rank_from_top(data.user, -key) == 0
    kept: Rows = held & ~(lost_all[data.user] & drawn_last)
    return kept
