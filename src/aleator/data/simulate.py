"""Simulated worlds in which the true label of every pair is known, also of the pairs that were not observed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from aleator.data.interactions import Interactions
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError, require, require_seed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BLOCK = 8192  # users generated at a time, to limit the memory
ROUNDS = 20  # how often a user who has liked nothing yet is shown more items
SAMPLE = 100_000  # random pairs on which the share of liked pairs is set


@dataclass(frozen=True, eq=False, repr=False)
class World:
    """Simulated interactions and the truth behind them, as `simulate` makes them.

    External and dense ids are the same: 0 .. n - 1.

    Attributes:
        interactions: The pairs that were shown and liked.
        user_taste: Taste of each user times sharpness / sqrt(dim), [dim, n_users].
        item_taste: Taste of each item, [dim, n_items].
        appeal: Log-odds that a user without any taste likes the item, [n_items].
        exposure: Probability that a showing is of this item, [n_items]. Sums to 1.
        seed: Seed that the world was made with.

    Example:
        >>> world = simulate(n_users=50, n_items=30)
        >>> bool(world.likes(world.interactions.user, world.interactions.item).all())
        True
    """

    interactions: Interactions
    user_taste: Floats
    item_taste: Floats
    appeal: Floats
    exposure: Floats
    seed: int

    def probability(self, user: Any, item: Any) -> Floats:
        """Probability p_ui that the user likes the item. The arguments broadcast; the result has their shape."""
        return np.asarray(expit(self._logit(user, item)))

    def likes(self, user: Any, item: Any) -> Bools:
        """The true label of each pair. The arguments broadcast; the result has their shape.

        Each label is drawn with probability p_ui. It is the same whenever it is asked for.
        """
        return np.asarray(self.probability(user, item) > _uniform(self.seed, user, item))

    def unobserved(self, n: int, seed: int = 0) -> tuple[Ints, Ints, Bools]:
        """Independent, uniformly random pairs without an interaction.

        Args:
            n: Number of pairs.
            seed: Seed of the draw.

        Returns:
            User [n], item [n] and true label [n].
        """
        n_users, n_items = self.interactions.n_users, self.interactions.n_items
        require(n >= 1, f"n is {n}", "ask for at least 1 pair")
        require(seed >= 0, f"seed is {seed}", "give a seed of at least 0")
        require(len(self.interactions) < n_users * n_items, "every pair is observed", "simulate with a lower per_user")
        observed = np.sort(self.interactions.user.astype(np.int64) * n_items + self.interactions.item)
        rng = np.random.default_rng((self.seed, seed, 1))  # the 1 keeps it apart from the stream that made the world
        pairs = np.empty(0, np.int64)
        while len(pairs) < n:
            drawn = rng.integers(n_users * n_items, size=n)
            place = np.minimum(np.searchsorted(observed, drawn), len(observed) - 1)
            pairs = np.r_[pairs, drawn[observed[place] != drawn]]
        user, item = np.divmod(pairs[:n], n_items)
        return user, item, self.likes(user, item)

    def _logit(self, user: Any, item: Any) -> Floats:
        user, item = np.broadcast_arrays(np.asarray(user, np.int64), np.asarray(item, np.int64))
        for kind, ids, n in (("user", user, self.user_taste.shape[1]), ("item", item, len(self.appeal))):
            known = bool(((ids >= 0) & (ids < n)).all())
            require(known, f"a {kind} is not in this world", f"give {kind}s from 0 to {n - 1}")
        total: Floats = self.appeal[item]
        # one dimension at a time: sums in a fixed order, so that a pair's label never depends on its batch
        for of_users, of_items in zip(self.user_taste, self.item_taste, strict=True):
            total = total + of_users[user] * of_items[item]
        return total

    def __repr__(self) -> str:
        return f"World({self.interactions!r}, seed={self.seed})"


def simulate(
    *,
    n_users: int = 1000,
    n_items: int = 500,
    per_user: float = 100.0,
    skew: float = 1.0,
    merit: float = 0.3,
    liked: float = 0.15,
    dim: int = 8,
    sharpness: float = 3.0,
    seed: int = 0,
) -> World:
    """Simulate a world in which the true label of every pair is known.

    A pair is an interaction if the item was shown to the user and the user likes it, and only then. A user likes an
    item with probability p_ui = sigmoid(sharpness * <x_u, y_i> + appeal_i). The tastes x and y have `dim` numbers, and
    <x_u, y_i> has variance 1. The appeals have variance 1.

    A user gets a random number of showings. Each is of an item drawn with a probability proportional to rank^-skew.
    An item that is shown twice counts once, so a larger skew leaves fewer interactions. A user who liked nothing gets
    as many showings again by the same rule, up to 20 times. So nearly every user has an interaction.

    Args:
        n_users: Number of users.
        n_items: Number of items.
        per_user: Mean number of showings of a user.
        skew: How unevenly items are shown. 0 shows all items equally often.
        merit: How far the rank of an item follows its appeal, 0 to 1. With 0 it is random. With 1 the most appealing
            item is shown most.
        liked: Share of all pairs that are liked, between 0 and 1. It sets the mean appeal.
        dim: Number of dimensions of the tastes.
        sharpness: How strongly taste decides. With 0 only the appeal does.
        seed: Seed of all random draws.

    Returns:
        The world: its `interactions`, and the truth through `likes`, `probability` and `unobserved`.

    Example:
        >>> world = simulate(n_users=50, n_items=30, seed=1)
        >>> world.interactions.n_users, world.interactions.n_items
        (50, 30)
        >>> user, item, label = world.unobserved(1000)  # label: liked, although it was not observed
    """
    for name, value in {"n_users": n_users, "n_items": n_items, "per_user": per_user, "dim": dim}.items():
        require(1 <= value < 2**63, f"{name} is {value}", f"give a finite {name} of at least 1")
    for name, value in {"skew": skew, "sharpness": sharpness}.items():
        require(0 <= value < 2**63, f"{name} is {value}", f"give a finite {name} of at least 0")
    require(0 <= merit <= 1, f"merit is {merit}", "give a merit from 0 to 1")
    require(0 < liked < 1, f"liked is {liked}", "give a share between 0 and 1")
    require_seed(seed)
    try:
        return _simulated(n_users, n_items, per_user, skew, merit, liked, dim, sharpness, seed)
    except (MemoryError, ValueError):  # numpy has the second for sizes beyond 64 bits
        told = (
            f"a world of {n_users:,} users, {n_items:,} items, {dim:,} dimensions and {per_user:g} showings of a user"
        )
        raise AleatorError(f"{told} takes more memory than there is", "take smaller numbers") from None


def _simulated(
    n_users: int,
    n_items: int,
    per_user: float,
    skew: float,
    merit: float,
    liked: float,
    dim: int,
    sharpness: float,
    seed: int,
) -> World:
    """What `simulate` does."""
    rng = np.random.default_rng(seed)
    user_taste = rng.normal(size=(dim, n_users)) * sharpness / dim**0.5
    item_taste = rng.normal(size=(dim, n_items))
    appeal = rng.normal(size=n_items)
    exposure = _exposure(appeal, merit, skew, rng)
    users, items = Vocabulary(np.arange(n_users)), Vocabulary(np.arange(n_items))
    nothing = Interactions(np.empty(0, np.int32), np.empty(0, np.int32), users, items)
    world = _set_share_of_liked(World(nothing, user_taste, item_taste, appeal, exposure, seed), liked, rng)
    blocks = [np.arange(start, min(start + BLOCK, n_users)) for start in range(0, n_users, BLOCK)]
    pairs = np.concatenate([_shown_and_liked(world, block, per_user, rng) for block in blocks])
    require(len(pairs) > 0, "nobody liked anything that was shown", "raise per_user, liked or n_users")
    user, item = np.divmod(pairs, n_items)
    return replace(world, interactions=Interactions.of(user, item, users=users, items=items))


def _exposure(appeal: Floats, merit: float, skew: float, rng: np.random.Generator) -> Floats:
    """Probability that a showing is of each item, [n_items]."""
    from scipy.stats import rankdata  # slow to import

    fame = merit * appeal + (1 - merit**2) ** 0.5 * rng.normal(size=len(appeal))
    shown = rankdata(-fame, method="ordinal") ** -float(skew)
    return np.asarray(shown / shown.sum())


def _set_share_of_liked(world: World, liked: float, rng: np.random.Generator) -> World:
    """The same world with all appeals moved by one number, so that the share `liked` of all pairs is liked."""
    from scipy.optimize import brentq  # slow to import

    n_users, n_items = world.interactions.n_users, world.interactions.n_items
    sample = world._logit(rng.integers(n_users, size=SAMPLE), rng.integers(n_items, size=SAMPLE))
    low = logit(liked) - sample.max() - 1  # at this level the probability of every pair is below `liked`
    high = logit(liked) - sample.min() + 1  # and at this one above
    level = brentq(lambda level: expit(sample + level).mean() - liked, low, high)
    return replace(world, appeal=world.appeal + level)


def auroc(label: Any, score: Any) -> float:
    """Probability that a random pair with label 1 scores above a random pair with label 0. Ties count half.

    >>> auroc([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.5])
    0.875
    """
    from scipy.stats import rankdata  # slow to import

    label = np.asarray(label, bool).reshape(-1)
    score = np.asarray(score, np.float64).reshape(-1)
    require(
        len(label) == len(score),
        f"{len(label)} labels and {len(score)} scores were given",
        "give one score for each label",
    )
    require(not np.isnan(score).any(), "a score is not a number", "check how the scores were made")
    positive = int(label.sum())
    negative = len(label) - positive
    require(positive > 0 and negative > 0, "all labels are the same", "give pairs with both labels")
    wins = rankdata(score)[label].sum() - positive * (positive + 1) / 2
    return float(wins / (positive * negative))


def _shown_and_liked(world: World, users: Ints, per_user: float, rng: np.random.Generator) -> Ints:
    """The interactions of `users` as sorted keys user * n_items + item."""
    n_items = len(world.exposure)
    found = []
    for _ in range(1 + ROUNDS):
        activity = rng.gamma(4, 1 / 4, len(users))  # some users are more active than others; the mean is 1
        showings = np.maximum(1, rng.poisson(per_user * activity))
        shown = rng.choice(n_items, int(showings.sum()), p=world.exposure)
        keys = np.sort(np.repeat(users, showings) * n_items + shown)
        keys = keys[np.diff(keys, prepend=-1) > 0]
        keys = keys[world.likes(*np.divmod(keys, n_items))]
        found.append(keys)
        users = users[~np.isin(users, keys // n_items)]  # only users who liked nothing are shown more
        if not len(users):
            break
    return np.sort(np.concatenate(found))


def _uniform(seed: int, user: Any, item: Any) -> Floats:
    """A number in [0, 1) for each pair that depends only on seed, user and item: splitmix64 (Steele et al., 2014)."""
    user, item = np.broadcast_arrays(np.asarray(user, np.uint64), np.asarray(item, np.uint64))
    state = np.array([seed], np.uint64)  # an array, because uint64 scalars warn when they overflow
    for part in (np.zeros(1, np.uint64), user.reshape(-1), item.reshape(-1)):
        state = (state ^ part) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return np.asarray((state >> np.uint64(11)) * 2.0**-53).reshape(user.shape)
