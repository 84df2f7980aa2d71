"""The k best items: masks of seen items, and exact top-k in bounded memory on any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Users
from aleator.device import budget, halved
from aleator.ranking.blend import blend

Score = Callable[[Users, Tensor | None], Tensor]  # (users, items or None for all) -> [B, n]
_COPIES = 6  # blocks of the same shape in memory at once: two scores, the blend, the workspace of top-k


def top_k(scores: Tensor, k: int, items: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The k highest scores of each row of `scores` [B, n]: values and items, [B, k] each.

    `items` [B, n] are those that the scores belong to. By default, they are the columns. Equal scores are ordered by
    item, whatever the device or the size of the batch. Minus infinity marks an item that is not a candidate. The item is
    -1 where a row has fewer than k candidates.

    >>> top_k(torch.tensor([[1.0, 3.0, 3.0, float("-inf")]]), 4)[1].tolist()
    [[1, 2, 0, -1]]
    """
    n = scores.shape[1]
    k = min(k, n)
    values, found = scores.topk(min(k + 1, n))
    if n > k:
        tied = (values[:, k - 1] == values[:, k]) & (values[:, k] > -torch.inf)
        values, found = values[:, :k], found[:, :k]
        rows = tied.nonzero().squeeze(1)
        if len(rows):  # among equal scores at rank k, topk picks any: sort these rows to pick the lowest items
            some = scores[rows]
            order = torch.arange(n, device=some.device).expand_as(some) if items is None else items[rows].argsort(1)
            some, place = some.gather(1, order).sort(dim=1, descending=True, stable=True)
            values[rows], found[rows] = some[:, :k], order.gather(1, place[:, :k])
    listed, order = (found if items is None else items.gather(1, found)).sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    listed = listed.gather(1, order)
    return values, listed.masked_fill(values == -torch.inf, -1)


def top_blends(r: Tensor, sigma: Tensor, lams: Sequence[float], k: int, users: Users) -> Iterator[Tensor]:
    """The k best unseen items at each of many lams (ascending): their columns, [B, k] each, exact.

    All items are ranked at a few lams only, the anchors. At each anchor the best 2k items are candidates for all lams.
    Between two anchors, a blend is a weighted mean of the blends at both. An item that is not a candidate is at most
    as high as the same mean of the two lowest candidate scores. If the k-th best candidate is above that bound, no other
    item can belong to the k best. Otherwise all items are ranked at this lam too.
    """
    n_items = r.shape[1]
    depth = min(2 * k, n_items)
    anchors = sorted({*lams[::10], lams[-1]})
    tops = [top_k(_unseen(blend(r, sigma, lam), users), depth) for lam in anchors]
    lowest = [values[:, -1] for values, _ in tops]

    candidates = _distinct(torch.cat([columns for _, columns in tops], 1), n_items)
    padding = candidates == n_items
    some_r, some_sigma = (part.gather(1, candidates.clamp_max(n_items - 1)) for part in (r, sigma))
    for lam in lams:
        values, place = top_k(blend(some_r, some_sigma, lam).masked_fill_(padding, -torch.inf), k)
        found = candidates.gather(1, place.clamp_min(0)).masked_fill(place < 0, -1)
        if lam not in anchors and depth < n_items:
            right = next(i for i, anchor in enumerate(anchors) if anchor > lam)
            left = right - 1
            share = (anchors[right] - lam) / (anchors[right] - anchors[left])
            bound = share * lowest[left] + (1 - share) * lowest[right]
            unsure = (values[:, -1] <= bound).nonzero().squeeze(1)
            if len(unsure):
                some = blend(r[unsure], sigma[unsure], lam)
                some[users.of_rows(unsure)] = -torch.inf
                found[unsure] = top_k(some, k)[1]
        yield found


def _distinct(columns: Tensor, n: int) -> Tensor:
    """The distinct columns of each row, ascending, padded with `n`. A column of -1 is dropped."""
    columns = columns.sort(1).values
    dropped = (columns == -1) | F.pad(columns[:, 1:] == columns[:, :-1], (1, 0))
    columns = columns.masked_fill(dropped, n).sort(1).values
    width = max(int((columns < n).sum(1).max()), 1)
    return columns[:, :width].contiguous()


def _unseen(scores: Tensor, users: Users) -> Tensor:
    """`scores` with the history of each user hidden, in place."""
    hide(scores, users)
    return scores


def hide(scores: Tensor, users: Users, first: int | None = None) -> None:
    """Set the scores of each user's history items to minus infinity, in place.

    The columns of `scores` are all items, or those from the item `first` on.
    """
    if first is None:
        scores[users.row, users.item] = -torch.inf
        return
    inside = (users.item >= first) & (users.item < first + scores.shape[1])
    scores[users.row[inside], users.item[inside] - first] = -torch.inf


def blocks(n_users: int, n_items: int, device: torch.device, memory: int | None = None) -> tuple[int, int]:
    """How many users and how many items to score at a time within `memory` bytes."""
    most = budget(device).score_bytes if memory is None else halved(memory)
    cells = max(most // (4 * _COPIES), 1)
    items = min(n_items, max(cells, 1))
    return max(min(n_users, cells // items), 1), items


def best(
    score: Score,
    users: Users,
    k: int,
    n_items: int,
    *,
    seen: Users | None,
    candidates: Sequence[Tensor | None] = (None,),
    chunk: int | None = None,
) -> list[tuple[Tensor, Tensor]]:
    """The k best items of each set of candidates: a list of (values, items), [B, k] each.

    A set of candidates is a mask over the items, or None for all items. The histories in `seen` are not candidates.
    Items are scored `chunk` at a time and the best are merged, so memory does not grow with the catalogue.
    """
    chunk = chunk or n_items
    found: list[tuple[Tensor, Tensor] | None] = [None] * len(candidates)
    for first in range(0, n_items, chunk):
        last = min(first + chunk, n_items)
        whole = first == 0 and last == n_items
        items = None if whole else torch.arange(first, last, device=users.index.device)
        scores = score(users, items)
        if seen is not None:
            hide(scores, seen, None if whole else first)
        for place, mask in enumerate(candidates):
            if mask is None:
                values, columns = top_k(scores, k)
                picked = torch.where(columns >= 0, columns + first, columns)
            else:
                allowed = mask[first:last].nonzero().squeeze(1)
                if not len(allowed):
                    continue
                values, columns = top_k(scores[:, allowed], k)
                picked = torch.where(columns >= 0, allowed[columns.clamp_min(0)] + first, columns)
            earlier = found[place]
            if earlier is not None:
                values, picked = torch.cat([earlier[0], values], 1), torch.cat([earlier[1], picked], 1)
                values, columns = top_k(values, k)
                picked = picked.gather(1, columns.clamp_min(0)).masked_fill(columns < 0, -1)
            found[place] = values, picked
    nothing = scores.new_full((len(users), 0), 0), users.index.new_full((len(users), 0), -1)
    return [nothing if f is None else f for f in found]
