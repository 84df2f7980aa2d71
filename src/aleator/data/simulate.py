"""Simulated worlds with known truth: the label of every pair is known, also of the missing ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from aleator.data.interactions import Interactions
from aleator.data.vocabulary import Vocabulary
from aleator.errors import require

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BLOCK = 8192  # users generated at a time: bounds the memory
ROUNDS = 20  # how often a user who liked nothing yet is shown more
SAMPLE = 100_000  # pairs on which the share of liked ones is set


@dataclass(frozen=True, eq=False, repr=False)
class World:
    """Interactions, and the truth behind them. Ids are 0 .. n - 1, inside and outside alike.

    >>> world = simulate(n_users=50, n_items=30)
    >>> bool(world.likes(world.interactions.user, world.interactions.item).all())
    True
    """

    interactions: Interactions  # the pairs that were shown and liked
    user_taste: Floats  # [dim, n_users]
    item_taste: Floats  # [dim, n_items]
    appeal: Floats  # [n_items] log-odds of being liked by a user without any taste
    exposure: Floats  # [n_items] probability that a showing is of this item; sums to 1
    seed: int

    def probability(self, user: Any, item: Any) -> Floats:
        """Probability p_ui that each user likes each item; the arguments broadcast, the result has their shape."""
        return np.asarray(expit(self._logit(user, item)))

    def likes(self, user: Any, item: Any) -> Bools:
        """The true label of any pairs: drawn once with probability p_ui, the same whenever it is asked for."""
        return np.asarray(self.probability(user, item) > _uniform(self.seed, user, item))

    def unobserved(self, n: int, seed: int = 0) -> tuple[Ints, Ints, Bools]:
        """`n` independent, uniformly random pairs without an interaction: user [n], item [n] and true label [n]."""
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
        for x, y in zip(self.user_taste, self.item_taste, strict=True):
            total = total + x[user] * y[item]
        return total

    def __repr__(self) -> str:
        return f"World({self.interactions!r}, seed={self.seed})"


def simulate(
    *, n_users: int = 1000, n_items: int = 500, per_user: float = 100.0, skew: float = 1.0, merit: float = 0.3,
    liked: float = 0.15, dim: int = 8, sharpness: float = 3.0, seed: int = 0
) -> World:  # fmt: skip
    """A world where a pair is an interaction if, and only if, the item was shown to the user and the user likes it.

    A user likes an item with p_ui = sigmoid(sharpness * <x_u, y_i> + appeal_i): tastes x and y of `dim` numbers,
    <x_u, y_i> of variance 1, appeals of variance 1 around the level at which the share `liked` of all pairs is liked.
    A user gets a random number of showings, `per_user` on average, each of an item drawn with probability
    proportional to rank^-skew (0: uniform); an item shown twice counts once, so that a larger skew also leaves fewer
    interactions. `merit` ties the rank to the appeal (0: fame is chance, 1: the most appealing is shown most).
    A user who liked nothing gets as many showings again by the same rule, up to `ROUNDS` times: nearly everyone has
    an interaction, and none is made up.
    """
    from scipy.optimize import brentq  # slow to import
    from scipy.stats import rankdata

    for least, options in (
        (1, {"n_users": n_users, "n_items": n_items, "per_user": per_user, "dim": dim}),
        (0, {"skew": skew, "sharpness": sharpness, "seed": seed}),
    ):
        for name, value in options.items():
            require(least <= value < 2**63, f"{name} is {value}", f"give a finite {name} of at least {least}")
    require(0 <= merit <= 1, f"merit is {merit}", "give a merit from 0 to 1")
    require(0 < liked < 1, f"liked is {liked}", "give a share between 0 and 1")
    rng = np.random.default_rng(seed)
    user_taste = rng.normal(size=(dim, n_users)) * sharpness / dim**0.5
    item_taste = rng.normal(size=(dim, n_items))
    appeal = rng.normal(size=n_items)
    fame = merit * appeal + (1 - merit**2) ** 0.5 * rng.normal(size=n_items)
    exposure = rankdata(-fame, method="ordinal") ** -float(skew)
    users, items = Vocabulary(np.arange(n_users)), Vocabulary(np.arange(n_items))
    nothing = Interactions(np.empty(0, np.int32), np.empty(0, np.int32), users, items)
    world = World(nothing, user_taste, item_taste, appeal, exposure / exposure.sum(), seed)
    sample = world._logit(rng.integers(n_users, size=SAMPLE), rng.integers(n_items, size=SAMPLE))
    low, high = logit(liked) - sample.max() - 1, logit(liked) - sample.min() + 1  # every pair below, or above, `liked`
    world = replace(world, appeal=appeal + brentq(lambda level: expit(sample + level).mean() - liked, low, high))
    blocks = [np.arange(start, min(start + BLOCK, n_users)) for start in range(0, n_users, BLOCK)]
    pairs = np.concatenate([_shown_and_liked(world, block, per_user, rng) for block in blocks])
    require(len(pairs) > 0, "nobody liked anything that was shown", "raise per_user, liked or n_users")
    user, item = np.divmod(pairs, n_items)
    return replace(world, interactions=Interactions.of(user, item, users=users, items=items))


def auroc(label: Any, score: Any) -> float:
    """Probability that a random pair with label 1 scores above a random one with label 0, ties counted half.

    >>> auroc([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.5])
    0.875
    """
    from scipy.stats import rankdata

    label, score = np.asarray(label, bool).reshape(-1), np.asarray(score, np.float64).reshape(-1)
    require(len(label) == len(score), f"{len(label)} labels and {len(score)} scores were given", "give as many of each")
    require(not np.isnan(score).any(), "a score is not a number", "check what made the scores")
    positive = int(label.sum())
    negative = len(label) - positive
    require(positive > 0 and negative > 0, "all labels are the same", "give pairs with both labels")
    return float((rankdata(score)[label].sum() - positive * (positive + 1) / 2) / (positive * negative))


def _shown_and_liked(world: World, users: Ints, per_user: float, rng: np.random.Generator) -> Ints:
    """Sorted keys user * n_items + item of the interactions of `users`."""
    n_items = len(world.exposure)
    found = []
    for _ in range(1 + ROUNDS):
        showings = np.maximum(1, rng.poisson(per_user * rng.gamma(4, 1 / 4, len(users))))  # gamma: some are more active
        shown = rng.choice(n_items, int(showings.sum()), p=world.exposure)
        keys = np.sort(np.repeat(users, showings) * n_items + shown)
        keys = keys[np.diff(keys, prepend=-1) > 0]
        keys = keys[world.likes(*np.divmod(keys, n_items))]
        found.append(keys)
        users = users[~np.isin(users, keys // n_items)]
        if not len(users):
            break
    return np.sort(np.concatenate(found))  # rounds share no user: only those who liked nothing are shown more


def _uniform(seed: int, user: Any, item: Any) -> Floats:
    """Numbers in [0, 1) that are a function of (seed, user, item) alone: chained splitmix64 (Steele et al., 2014)."""
    user, item = np.broadcast_arrays(np.asarray(user, np.uint64), np.asarray(item, np.uint64))
    state = np.array([seed], np.uint64)  # arrays, since uint64 scalars warn where they wrap around
    for part in (np.zeros(1, np.uint64), user.reshape(-1), item.reshape(-1)):
        state = (state ^ part) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return np.asarray((state >> np.uint64(11)) * 2.0**-53).reshape(user.shape)
