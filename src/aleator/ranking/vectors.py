"""Vectors of users and items whose inner products rank the items, for a nearest-neighbour index or a vector database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aleator.batches import Users, pieces
from aleator.data.arrays import Array, flat
from aleator.errors import AleatorError, require
from aleator.ranking.top import best, blocks

if TYPE_CHECKING:
    from aleator.recommender import Recommender, Who

Factors = Callable[[Users], tuple[Tensor, Tensor] | None]  # see `Recommender.factors`
_SAMPLED, _LISTED = 1000, 20  # users and items of each user's list, when the recall of an approximation is measured


@dataclass(frozen=True, eq=False)
class Vectors:
    """The result of `vectors`: inner products of the rows of `user_vectors` and `item_vectors` are the scores.

    The last coordinate serves users without a history. It holds the share of users who took the item, and such a user
    has 1 there and 0 elsewhere. To all other users it adds nothing. Lists like those of `recommend` take only trained
    items, and leave out what a user has seen.

    Attributes:
        user_ids: External ids, or the names of newcomers, [n_users].
        user_vectors: Their vectors, [n_users, dim].
        item_ids: External ids of all items, [n_items].
        item_vectors: Their vectors, [n_items, dim].
        trained: Whether each item has a training interaction, [n_items].
        recall: None if inner products are the scores. With `rank` they approximate them, and this is the share of the
            first 20 items by score that are among the first 20 by inner product. It is a mean over at most 1000 random
            users of the training data.
    """

    user_ids: Array
    user_vectors: NDArray[np.float32]
    item_ids: Array
    item_vectors: NDArray[np.float32]
    trained: NDArray[np.bool_]
    recall: float | None = None


@torch.no_grad()
def vectors(of: Recommender, users: Who | None, rank: int | None) -> Vectors:
    """The vectors of users and of all items; see `Recommender.vectors`."""
    data = of.fitted
    factors = of.factors if rank is None else _low_rank(of, rank)
    sides = factors(of.histories.batch(torch.arange(0)))
    if sides is None:
        raise _no_vectors(of)
    y = sides[1]
    whole = of.histories.batch(torch.arange(data.n_users)) if users is None else of.users(users)
    made, first = np.empty((len(whole), y.shape[1] + 1), np.float32), 0
    for block in user_vectors(of, whole, rank):
        made[first : first + len(block)] = block
        first += len(block)
    share = torch.from_numpy(data.popularity / data.n_users).to(y)
    return Vectors(
        user_ids=_ids(of, users, whole),
        user_vectors=made,
        item_ids=data.items.decode(np.arange(data.n_items)),
        item_vectors=torch.cat([y, share[:, None]], 1).float().cpu().numpy(),
        trained=data.popularity > 0,
        recall=None if rank is None else _recall(of, factors),
    )


@torch.no_grad()
def user_vectors(of: Recommender, users: Users, rank: int | None) -> Iterator[NDArray[np.float32]]:
    """The vectors of a batch, in blocks [n, dim]. The vectors of the items are not touched, except with a `rank`."""
    side = of.user_factors if rank is None else _user_side(_low_rank(of, rank))
    size, _ = blocks(len(users), of.fitted.n_items, of.torch_device)
    for first in range(0, len(users), size):
        block = users.part(first, min(first + size, len(users)))
        x = side(block)
        if x is None:
            raise _no_vectors(of)
        empty = (block.size == 0)[:, None]
        yield torch.cat([x.masked_fill(empty, 0), empty.to(x)], 1).float().cpu().numpy()


def _no_vectors(of: Recommender) -> AleatorError:
    return AleatorError(
        f"the scores of this {type(of).__name__} are not inner products of vectors",
        "use recommend, or give rank= if it scores by an item-item matrix",
    )


def _user_side(factors: Factors) -> Callable[[Users], Tensor | None]:
    def side(users: Users) -> Tensor | None:
        found = factors(users)
        return None if found is None else found[0]

    return side


def _ids(of: Recommender, users: Any, whole: Users) -> Array:
    """External ids of a batch, or the names of newcomers."""
    if isinstance(users, Mapping):
        return flat(list(users))
    known = of.fitted.users.decode(whole.index.clamp_min(0).cpu().numpy())
    new = (whole.index < 0).cpu().numpy()
    return np.where(new, np.array(None), known) if new.any() else known


def _low_rank(of: Recommender, rank: int) -> Factors:
    n_items = of.fitted.n_items
    require(
        type(rank) is not bool and isinstance(rank, (int, np.integer)) and 1 <= rank <= n_items,
        f"rank is {rank!r}",
        f"give a whole number from 1 to {n_items}, the number of items",
    )
    kind = type(of).__name__
    exact = of.factors(of.histories.batch(torch.arange(0)))
    require(exact is None, f"the scores of this {kind} are inner products already", "leave rank out")
    found = of.low_rank(int(rank))
    if found is None:
        raise AleatorError(f"the scores of this {kind} have no approximation by inner products", "use recommend")
    return found


def _recall(of: Recommender, factors: Factors) -> float:
    """The mean share of each user's first items by score that are among the first by the inner products of `factors`.

    An item with the same score as the last of them counts as one of them.
    """
    histories, n_items = of.histories, of.fitted.n_items
    who = (histories.host_size > 0).nonzero().squeeze(1)
    draw = torch.randperm(len(who), generator=torch.Generator().manual_seed(of.seed))[:_SAMPLED]
    trained = torch.from_numpy(of.fitted.popularity > 0).to(of.torch_device)
    shares, k = [], min(_LISTED, n_items)
    for index in pieces(who[draw].sort().values, blocks(_SAMPLED, n_items, of.torch_device)[0]):
        users = histories.batch(index)
        ((values, exact),) = of.top(users, k, seen=users, candidates=[trained])
        ((_, near),) = best(_product(factors), users, k, n_items, seen=users, candidates=[trained])
        listed = exact >= 0
        last = values.masked_fill(~listed, torch.inf).amin(1, keepdim=True)
        found = (of.score_listed(users, near) >= last - 1e-6 * last.abs()) & listed  # rounding sets equal scores apart
        shares.append((found.sum(1) / listed.sum(1))[listed.any(1)])
    return float(torch.cat(shares).mean())


def _product(factors: Factors) -> Callable[[Users, Tensor | None], Tensor]:
    """The scores of blocks, from their factors."""

    def score(users: Users, items: Tensor | None) -> Tensor:
        found = factors(users)
        assert found is not None, "there are vectors"
        x, y = found
        return x @ (y if items is None else y[items]).T

    return score
