"""Recall on held-out pairs. Early stopping and the choice of lam use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.data.interactions import Interactions
from aleator.evaluation.metrics import recall
from aleator.ranking.top import blocks, hide, top_blends, top_k

Scorings = Callable[[Users], Iterable[Tensor]]  # takes a batch, returns scores [B, n_items] of each of V scorings
Parts = Callable[
    [Users], tuple[Tensor, Tensor]
]  # takes a batch, returns expectation and uncertainty, [B, n_items] each


class HeldOut:
    """Held-out pairs of the users who have any, or of a random sample of `most_users` of them.

    Items that a user took in `fitted` are not candidates. `tail` [n_items] marks the tail items; by default all are tail.
    """

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
        self.fitted = Histories(fitted.csr, device)
        self.held = Histories(held.csr, device)
        self.fingerprint = held.fingerprint
        self.tail = torch.ones(fitted.n_items, dtype=torch.bool) if tail is None else tail
        self.tail = self.tail.to(device)
        who = (self.held.size > 0).nonzero().squeeze(1)
        if most_users is not None and len(who) > most_users:
            draw = torch.randperm(len(who), generator=torch.Generator().manual_seed(seed))[:most_users]
            who = who[draw.to(device).sort().values]
        self.who = who

    def recall(self, scorings: Scorings, k: int = 20, tail_k: int = 50) -> tuple[Tensor, Tensor]:
        """Overall Recall@k and tail-absolute Recall@tail_k of each scoring and user, [V, U] each.

        The second is NaN for users without a held-out tail item.
        """

        def lists(users: Users) -> Iterator[Tensor]:
            for scores in scorings(users):
                hide(scores, users)
                yield top_k(scores, max(k, tail_k))[1]

        return self._recall(lists, k, tail_k)

    def recall_of_blends(
        self, parts: Parts, lams: Sequence[float], k: int = 20, tail_k: int = 50
    ) -> tuple[Tensor, Tensor]:
        """What `recall` returns, for the blend of expectation and uncertainty at each lam (ascending)."""
        return self._recall(lambda users: top_blends(*parts(users), lams, max(k, tail_k), users), k, tail_k)

    def _recall(self, lists: Scorings, k: int, tail_k: int) -> tuple[Tensor, Tensor]:
        """What `recall` returns, from the best items [B, n] of each scoring."""
        overall, tail = [], []
        size, _ = blocks(len(self.who), self.held.n_items, self.who.device)
        for index in pieces(self.who, size):
            users, held = self.fitted.batch(index), self.held.batch(index)
            relevant = torch.zeros((len(index), self.held.n_items), dtype=torch.bool, device=index.device)
            relevant[held.row, held.item] = True
            in_tail = self.tail[held.item]
            n_tail = torch.zeros_like(held.size).index_add_(0, held.row[in_tail], torch.ones_like(held.row[in_tail]))
            for_all, for_tail = [], []
            for items in lists(users):
                hits = relevant.gather(1, items.clamp_min(0)) & (items >= 0)
                for_all.append(recall(hits, held.size, k))
                of_tail = recall(hits & self.tail[items], n_tail, tail_k)
                for_tail.append(of_tail.masked_fill(n_tail == 0, torch.nan))
            overall.append(torch.stack(for_all))
            tail.append(torch.stack(for_tail))
        return torch.cat(overall, 1), torch.cat(tail, 1)
