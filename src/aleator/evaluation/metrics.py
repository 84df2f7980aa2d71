"""Metrics of ranked lists, each defined once. They agree with ranx.

`hits` [B, K] is true where the item at that rank is relevant. `relevant` [B] is the number of relevant items of each
user, listed or not. Every function returns [B], with 0 for a user without a relevant item.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def recall(hits: Tensor, relevant: Tensor, k: int) -> Tensor:
    """Number of relevant items among the first k, divided by the number of all relevant items.

    >>> recall(torch.tensor([[True, False, True]]), torch.tensor([4]), 3).tolist()
    [0.5]
    """
    return hits[:, :k].sum(1).double() / relevant.clamp_min(1)


def precision(hits: Tensor, relevant: Tensor, k: int) -> Tensor:
    """Number of relevant items among the first k, divided by k."""
    return hits[:, :k].sum(1).double() / k


def hit_rate(hits: Tensor, relevant: Tensor, k: int) -> Tensor:
    """1 if any of the first k items is relevant, else 0."""
    return hits[:, :k].any(1).double()


def mrr(hits: Tensor, relevant: Tensor, k: int) -> Tensor:
    """One over the rank of the first relevant item, or 0 if none is among the first k."""
    ranks = torch.arange(1, hits[:, :k].shape[1] + 1, device=hits.device, dtype=torch.float64)
    return (hits[:, :k] / ranks).amax(1) if hits.shape[1] else relevant.double() * 0


def ndcg(hits: Tensor, relevant: Tensor, k: int) -> Tensor:
    """Sum of 1 / log2(rank + 1) over the hits among the first k, divided by the sum of an ideal list.

    An ideal list has min(k, relevant) hits at the top.
    """
    discount = 1 / torch.log2(torch.arange(2, k + 2, device=hits.device, dtype=torch.float64))
    ideal = torch.cat([discount.new_zeros(1), discount.cumsum(0)])[relevant.clamp_max(k)]
    gained = (hits[:, :k] * discount[: hits[:, :k].shape[1]]).sum(1)
    return gained / ideal.clamp_min(1e-12) * (relevant > 0)


def average_precision(hits: Tensor, relevant: Tensor, k: int) -> Tensor:
    """Sum of the precision at the rank of each hit among the first k, divided by the number of relevant items."""
    top = hits[:, :k].double()
    ranks = torch.arange(1, top.shape[1] + 1, device=hits.device, dtype=torch.float64)
    return (top * top.cumsum(1) / ranks).sum(1) / relevant.clamp_min(1)


METRICS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "recall": recall,
    "ndcg": ndcg,
    "precision": precision,
    "hit_rate": hit_rate,
    "mrr": mrr,
    "map": average_precision,
}


def gini(counts: Tensor) -> float:
    """The Gini coefficient of `counts`: 0 if all are equal, near 1 if one has everything.

    >>> round(gini(torch.tensor([0, 0, 0, 4])), 2), gini(torch.tensor([1, 1]))
    (0.75, 0.0)
    """
    ordered = counts.double().sort().values
    n, total = len(ordered), ordered.sum()
    if total == 0:
        return 0.0
    rank = torch.arange(1, n + 1, device=counts.device, dtype=torch.float64)
    return float((2 * (rank * ordered).sum() / (n * total)) - (n + 1) / n)
