"""Metrics on held-out pairs. Early stopping, the race of estimators and the choice of lam use them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.data.interactions import Interactions
from aleator.device import in_smaller_blocks
from aleator.evaluation.metrics import ndcg, recall
from aleator.ranking.blend import discounts
from aleator.ranking.top import blocks, hide, top_blends, top_k
from aleator.ranks import here

K, TAIL_K = 20, 50  # cut-offs of the overall metrics and of the tail's

Scorings = Callable[[Users], Iterable[Tensor]]  # takes a batch, returns scores [B, n_items] of each of V scorings
Parts = Callable[[Users], tuple[Tensor, Tensor]]  # takes a batch, returns the two parts of a blend, [B, n_items] each
Lams = Sequence[tuple[float, Sequence[float]]]  # discounts of popularity, and lams (ascending) to blend by at each


@dataclass(frozen=True)
class Measured:
    """Metrics of V scorings and U users on held-out pairs, [V, U] each."""

    recall: Tensor  # Recall@20
    ndcg: Tensor  # NDCG@20
    tail: Tensor  # tail-absolute Recall@50; NaN for a user without a held-out tail item

    def __getitem__(self, which: Tensor) -> Measured:
        """Some of the scorings."""
        return Measured(self.recall[which], self.ndcg[which], self.tail[which])


class HeldOut:
    """Held-out pairs of the users who have any, or of a random sample of `most_users` of them.

    Items that a user took in `fitted` are not candidates. `tail` [n_items] marks the tail items; by default all are tail.
    Scorings see the histories of `fitted`, or those of newcomers who took a part of them (`cut`).
    """

    newcomers: Histories | None = None  # cut histories

    def __init__(
        self,
        fitted: Interactions,
        held: Interactions,
        device: torch.device,
        *,
        tail: Tensor | None = None,
        most_users: int | None = None,
        seed: int = 0,
    ) -> None:
        self.fitted = Histories.of(fitted, device)
        self.held = Histories.of(held, device)
        self.fingerprint = held.fingerprint
        self.tail = torch.ones(fitted.n_items, dtype=torch.bool) if tail is None else tail
        self.tail = self.tail.to(device)
        who = (self.held.size > 0).nonzero().squeeze(1)
        if most_users is not None and len(who) > most_users:
            draw = torch.randperm(len(who), generator=torch.Generator().manual_seed(seed))[:most_users]
            who = who[draw.to(device).sort().values]
        self.who = who

    def measure(self, scorings: Scorings) -> Measured:
        """The metrics of each scoring and user."""

        def lists(users: Users) -> Iterator[Tensor]:
            shown = users if self.newcomers is None else self.newcomers.batch(users.index, known=False)
            for scores in scorings(shown):
                hide(scores, users)
                yield top_k(scores, max(K, TAIL_K))[1]

        return self._measure(lists)

    def cut(self, sizes: Sequence[int], seed: int) -> HeldOut:
        """The same held-out pairs, of newcomers. Each history is cut to random items, and their number is one of `sizes`.

        What was cut away is no candidate either. It serves `measure` alone.
        """
        fitted = self.fitted.only(self.who) if self.fitted.mapped else self.fitted
        draw, host = torch.Generator().manual_seed(seed), fitted.host_size
        most = torch.tensor(sizes)[torch.randint(len(sizes), (len(host),), generator=draw)]
        row = torch.repeat_interleave(torch.arange(len(host)), host)
        order = torch.rand(len(row), generator=draw).argsort()
        order = order[row[order].argsort(stable=True)]  # by user, in a random order each
        place = torch.arange(len(row)) - (host.cumsum(0) - host)[row]
        kept = order[place < most[row]].sort().values
        made = copy.copy(self)
        made.newcomers = fitted.take(kept.to(fitted.device))
        return made

    def measure_blends(self, parts: Parts, lams: Lams) -> Measured:
        """The metrics of the blend of two parts, at each discount and its lams."""

        def lists(users: Users) -> Iterator[Tensor]:
            one, other = parts(users)
            for power, own in lams:
                less = discounts(self.fitted.popularity, power)
                pair = (one, other) if power == 0 else (one * less, other * less)
                yield from top_blends(*pair, own, max(K, TAIL_K), users)

        return self._measure(lists)

    @in_smaller_blocks
    def _measure(self, lists: Scorings) -> Measured:
        """The metrics of each user, from the best items [B, n] of each scoring."""
        found: list[list[Tensor]] = [[], [], []]
        size, _ = blocks(len(self.who), self.held.n_items, self.who.device)
        for index in pieces(self.who, size):
            users, held = self.fitted.batch(index), self.held.batch(index)
            relevant = torch.zeros((len(index), self.held.n_items), dtype=torch.bool, device=index.device)
            relevant[held.row, held.item] = True
            in_tail = self.tail[held.item]
            n_tail = torch.zeros_like(held.size).index_add_(0, held.row[in_tail], torch.ones_like(held.row[in_tail]))
            batch: list[list[Tensor]] = [[], [], []]
            for items in lists(users):
                hits = relevant.gather(1, items.clamp_min(0)) & (items >= 0)
                of_tail = recall(hits & self.tail[items], n_tail, TAIL_K).masked_fill(n_tail == 0, torch.nan)
                values = recall(hits, held.size, K), ndcg(hits, held.size, K), of_tail
                for kept, value in zip(batch, values, strict=True):
                    kept.append(value)
            for kept, values_of_batch in zip(found, batch, strict=True):
                kept.append(torch.stack(values_of_batch))
        figures = [torch.cat(kept, 1) for kept in found]
        here().broadcast(*figures)  # all ranks choose by the same figures, to the last bit
        return Measured(*figures)
