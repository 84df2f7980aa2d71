"""Similar items: those whose scores go up and down together, over users.

The measure is the correlation of the scores of two items. What the scores of an item have in common for all users has no
part in it, such as the popularity of the item. Nor has their scale, such as a discount of popularity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from aleator.batches import pieces
from aleator.data.arrays import Array, picked
from aleator.data.frames import to_frame
from aleator.errors import require
from aleator.ranking.lists import check_k, dense_items
from aleator.ranking.top import blocks, top_k

if TYPE_CHECKING:
    from aleator.recommender import Recommender

_USERS = 1 << 14  # random users that scores are compared over, at most
_SCORES = 1 << 27  # at most, of all these users and items, where scores are kept
_FLAT = 1e-10  # a variance below this share of the squared mean is rounding


class Moments(NamedTuple):
    """The second moments of the scores over users. Covariances are products of the rows of two tables."""

    left: Tensor  # [n_items, dim]
    right: Tensor  # [n_items, dim]
    spread: Tensor  # [n_items] standard deviations; 0 where all scores are the same

    @classmethod
    def of(cls, left: Tensor, right: Tensor, mean: Tensor) -> Moments:
        """With the mean scores [n_items], which tell what is rounding."""
        variance = (left * right).sum(1)
        return cls(left, right, variance.masked_fill(variance <= _FLAT * mean.square(), 0).sqrt())

    def correlations(self, items: Tensor) -> Tensor:
        """[m, n_items] of the scores of some items with those of all. NaN where all scores are the same."""
        return self.left[items] @ self.right.T / (self.spread[items, None] * self.spread)


@torch.no_grad()
def moments(of: Recommender) -> Moments:
    """The moments of the scores of all items, over random users with a history."""
    histories, n_items = of.histories, of.fitted.n_items
    who = (histories.host_size > 0).nonzero().squeeze(1)
    first = of.factors(histories.batch(who[:1]))
    most = _USERS if first is not None else max(min(_USERS, _SCORES // n_items), 2)
    draw = torch.randperm(len(who), generator=torch.Generator().manual_seed(of.seed))[:most]
    size, _ = blocks(len(draw), n_items, of.torch_device)
    batches = map(histories.batch, pieces(who[draw].sort().values, size))
    if first is None:
        scores = torch.cat([of.score_block(users) for users in batches]).T
        mean = scores.mean(1)
        centred = (scores - mean[:, None]) / len(draw) ** 0.5
        return Moments.of(centred, centred, mean)
    y = first[1]
    x = torch.cat([found[0].double() for found in map(of.factors, batches) if found is not None])
    mean = x.mean(0)
    covariance = (x - mean).T @ (x - mean) / len(x)
    return Moments.of(y @ covariance.to(y), y, y @ mean.to(y))


def similar(of: Recommender, items: Any, k: int) -> Any:
    """The k most similar items of each item, as a frame; see `Recommender.similar_items`."""
    check_k(k, of.fitted.n_items)
    asked = dense_items(of, [items] if np.ndim(items) == 0 else items)
    return to_frame(similar_columns(of, moments(of.without_prior()), asked, k), of.fitted.frame)


@torch.no_grad()
def similar_columns(of: Recommender, found: Moments, asked: Tensor, k: int) -> dict[str, Any]:
    """The columns of `similar` for dense ids, from the moments of `of.without_prior()`."""
    data = of.fitted
    told = f"the scores of this {type(of).__name__} do not say which items go together"
    require(of.personalises and bool(found.spread.any()), told, "use another model")
    trained = torch.from_numpy(data.popularity > 0).to(asked.device)
    rows: dict[str, list[Array]] = {}
    size, _ = blocks(len(asked), data.n_items, of.torch_device)
    for some in pieces(asked, size):
        values = found.correlations(some)
        values[~(values > 0)] = -torch.inf
        values[:, ~trained] = -torch.inf
        values[~trained[some]] = -torch.inf
        values.scatter_(1, some[:, None], -torch.inf)
        highest, listed = top_k(values, k)
        row, column = (listed >= 0).nonzero(as_tuple=True)
        similarity = highest[row, column].clamp_max(1).double()
        parts = {"item": some[row], "rank": column + 1, "similar_item": listed[row, column], "similarity": similarity}
        for name, value in parts.items():
            rows.setdefault(name, []).append(value.cpu().numpy())
    return _columns(of, **{name: np.concatenate(values) for name, values in rows.items()})


def _columns(of: Recommender, *, item: Array, rank: Array, similar_item: Array, similarity: Array) -> dict[str, Any]:
    """The columns of `similar`, from dense ids."""
    data = of.fitted
    columns = {
        "item_id": data.items.decode(item),
        "rank": rank,
        "similar_item": data.items.decode(similar_item),
        "similarity": similarity,
        "popularity": data.popularity[similar_item],
        "tail": of.tail_mask.cpu().numpy()[similar_item],
    }
    if data.titles is not None:
        columns |= {"title": picked(data.titles, item), "similar_title": picked(data.titles, similar_item)}
    return columns
