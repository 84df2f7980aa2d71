"""Similar items: those whose scores go up and down together, over newcomers who took one item each.

The measure is the correlation of the scores of two items. What the scores of an item have in common for all newcomers
has no part in it, such as a prior of popularity. Nor has their scale, such as a discount of popularity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.data.arrays import Array, picked
from aleator.data.frames import to_frame
from aleator.errors import require
from aleator.ranking.lists import check_k, dense_items
from aleator.ranking.top import blocks, top_k

if TYPE_CHECKING:
    from aleator.recommender import Recommender

_NEWCOMERS = 4096  # at most, each with one of the most popular items
_SCORES = 1 << 27  # at most, of all newcomers and items, where they are kept
_FLAT = 1e-10  # a variance below this share of the squared mean is rounding


class Moments(NamedTuple):
    """The second moments of the scores over newcomers. Covariances are products of the rows of two tables."""

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


def moments(of: Recommender) -> Moments:
    """The moments of the scores of all items."""
    n_items, popularity = of.fitted.n_items, of.fitted.popularity
    products = of.factors(newcomers(of, np.arange(1))) is not None
    most = _NEWCOMERS if products else max(min(_NEWCOMERS, _SCORES // n_items), 2)
    order = np.argsort(-popularity, kind="stable")[: min(most, int((popularity > 0).sum()))]
    size, _ = blocks(len(order), n_items, of.torch_device)
    batches = (newcomers(of, some) for some in np.split(order, range(size, len(order), size)))
    if not products:
        scores = torch.cat([of.score_block(users) for users in batches]).T
        mean, root = scores.mean(1), len(order) ** 0.5
        centred = (scores - mean[:, None]) / root
        return Moments.of(centred, centred, mean)
    x, y = _factors(of, batches)
    mean = x.mean(0)
    covariance = (x - mean).T @ (x - mean) / len(x)
    return Moments.of(y @ covariance.to(y), y, y @ mean.to(y))


def newcomers(of: Recommender, items: Array) -> Users:
    """Newcomers who took one item (dense ids) each."""
    made = Histories.of_lists(list(items[:, None]), of.fitted.n_items, of.torch_device)
    return made.batch(torch.arange(len(items)), known=False)


def _factors(of: Recommender, batches: Iterator[Users]) -> tuple[Tensor, Tensor]:
    """The factors of the newcomers of all batches, in float64, and those of the items."""
    found = [pair for pair in map(of.factors, batches) if pair is not None]
    return torch.cat([x.double() for x, _ in found]), found[0][1]


@torch.no_grad()
def similar(of: Recommender, items: Any, k: int) -> Any:
    """The k most similar items of each item, as a frame; see `Recommender.similar_items`."""
    data = of.fitted
    check_k(k, data.n_items)
    asked = dense_items(of, [items] if np.ndim(items) == 0 else items)
    found, kind = moments(of), type(of).__name__
    told = f"the scores of this {kind} do not follow from the items of a history, so no items are similar by them"
    require(of.follows_histories and bool(found.spread.any()), told, "use another model")
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
    return _frame(of, **{name: np.concatenate(values) for name, values in rows.items()})


def _frame(of: Recommender, *, item: Array, rank: Array, similar_item: Array, similarity: Array) -> Any:
    """The frame of `similar`, from dense ids."""
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
    return to_frame(columns, data.frame)
