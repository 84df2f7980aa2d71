"""Confidence: the probability that a recommended item is among the next items that its user takes.

The event has a size. With m next items, p = 1 - exp(-m * rate), and log(rate) = level + by_rank * log(rank) +
by_score * score. This is a regression with a complementary log-log link (McCullagh and Nelder, 1989) of hits among the
first 50 items on held-out pairs. log(m) is its offset, with the number of the user's held-out items as m. An isotonic
regression then corrects what the formula misses. It is one of rates, not of hits, for the m of users differ. So what is
learned on a validation part of any size holds for any m.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from aleator.batches import Users, pieces
from aleator.checkpoint.checks import typed
from aleator.evaluation.held_out import HeldOut
from aleator.models.calibration import Map, isotonic
from aleator.ranking.derived import Derived
from aleator.ranking.top import blocks, hide, top_k

NEXT = 10  # items that a user takes next, in the event of the column `confidence`
LISTED = 50  # ranks that have a confidence
_STEPS = 25  # of Newton's method
_BIN, _BINS = 100, 1024  # fewest listed items in a bin of the isotonic regression, and most bins

Score = Callable[[Users], Tensor]  # takes a batch, returns scores [B, n_items]


@dataclass(frozen=True)
class Confidence:
    """The probability of the event, from the rank and the score of an item: lower by rank, higher by score."""

    level: float
    by_rank: float  # at most 0
    by_score: float  # at least 0
    knots: tuple[tuple[float, float], ...]  # of the map from p by the formula to the probability, both at m = 10

    def __call__(self, scores: Tensor, n_next: Tensor | float = NEXT) -> Tensor:
        """The confidence of the first items of lists. NaN beyond rank 50, and where there is no item.

        Args:
            scores: [B, k], the scores of each list from its first rank on; -inf where there is no item.
            n_next: How many items a user takes next: one number, or one for each user [B, 1].
        """
        found = self._map(scores.device)(among_next(self.rate(scores))).clamp(0, 1)
        if isinstance(n_next, Tensor) or n_next != NEXT:
            found = -torch.expm1(n_next / NEXT * torch.log1p(-found))
        found = found.masked_fill(scores.isinf(), torch.nan)
        found[:, LISTED:] = torch.nan
        return found.to(scores.dtype)

    def rate(self, scores: Tensor) -> Tensor:
        """[B, k] the rate by the formula, of the first items of lists."""
        ranks = torch.arange(1, scores.shape[1] + 1, device=scores.device, dtype=torch.float64)
        return (self.level + self.by_rank * ranks.log() + self.by_score * scores.double()).exp()

    @cached_property
    def _map(self) -> Derived[Map]:
        """The map of the knots, on a device."""
        return Derived(self._map_on)

    def _map_on(self, device: torch.device) -> Map:
        return Map(*self._knots(device))

    def _knots(self, device: torch.device) -> Sequence[Tensor]:
        """x and y of the knots."""
        return torch.tensor(self.knots, dtype=torch.float64, device=device).T.contiguous().unbind()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def restore(cls, kept: Any) -> Self:
        """A confidence from its dict in a manifest."""
        made: Self = typed(cls, kept, "chance")
        Map.restore(*made._knots(torch.device("cpu")))
        return made


class Lists(NamedTuple):
    """The first 50 items of users, against held-out pairs. -inf is the score where there is no item."""

    scores: Tensor  # [B, 50]
    items: Tensor  # [B, 50], dense ids
    hits: Tensor  # [B, 50], which of them are held out
    n_next: Tensor  # [B], how many items of the user are held out


def fit_confidence(score: Score, held_out: HeldOut) -> Confidence | None:
    """The confidence of a recommender, from its lists and held-out pairs. None if no listed item was taken."""
    found = lists(score, held_out)
    return None if found is None else learn(found.scores, found.hits, found.n_next)


def learn(scores: Tensor, hits: Tensor, n_next: Tensor, *, ranked: bool = True) -> Confidence | None:
    """The confidence of listed items with these scores. Without `ranked`, the rank does not count."""
    listed = scores.isfinite()
    if not bool(hits[listed].any()):
        return None
    formula = Confidence(*regression(scores, hits, n_next, listed, ranked), ((0.0, 0.0), (1.0, 1.0)))
    sizes = n_next[:, None].expand(scores.shape)[listed]
    return replace(formula, knots=corrected(formula.rate(scores)[listed], hits[listed].double(), sizes))


def among_next(rate: Tensor) -> Tensor:
    """The probability that an item with this rate is among the next 10."""
    return -torch.expm1(-NEXT * rate)


def corrected(rate: Tensor, hits: Tensor, sizes: Tensor) -> tuple[tuple[float, float], ...]:
    """The knots that bring the rates [n] by the formula to those of the hits [n] of events of these sizes [n].

    Listed items are put into bins by their rate. The rate of a bin solves sum(1 - exp(-size * rate)) = hits.
    """
    n = min(max(len(rate) // _BIN, 1), _BINS)
    place = torch.empty(len(rate), dtype=torch.long, device=rate.device)
    place[rate.argsort()] = torch.arange(len(rate), device=rate.device) * n // len(rate)

    def total(values: Tensor) -> Tensor:
        return values.new_zeros(n).index_add_(0, place, values)

    exposure, count = total(sizes), total(torch.ones_like(hits))
    taken = total(hits).minimum(count - 0.5)  # if all were taken, no rate would be enough
    found = taken / exposure
    for _ in range(_STEPS):  # of Newton's method, which nears the solution from below
        left = (-sizes * found[place]).exp()
        found = found + (taken - count + total(left)) / total(sizes * left)
    x, y = isotonic([(among_next(total(sizes * rate) / exposure), exposure, found)])
    y = among_next(torch.as_tensor(y, dtype=torch.float64))
    return tuple(zip(map(float, x), y.tolist(), strict=True))


@torch.no_grad()
def lists(score: Score, held_out: HeldOut) -> Lists | None:
    """The lists of the users with held-out pairs. None if there are no such users.

    Items of the history and items that nobody took are no candidates. Users without a history are left out.
    """
    fitted, held = held_out.fitted, held_out.held
    who = held_out.who[fitted.size[held_out.who] > 0]
    size, _ = blocks(max(len(who), 1), held.n_items, who.device)
    found: list[Lists] = []
    for index in pieces(who, size) if len(who) else []:
        users, taken = fitted.batch(index), held.batch(index)
        scores = score(users).masked_fill(fitted.popularity == 0, -torch.inf)
        hide(scores, users)
        values, items = top_k(scores, LISTED)
        relevant = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
        relevant[taken.row, taken.item] = True
        items = items.clamp_min(0)
        found.append(Lists(values, items, relevant.gather(1, items) & values.isfinite(), taken.size.double()))
    return Lists(*(torch.cat(part) for part in zip(*found, strict=True))) if found else None


def regression(
    scores: Tensor, hits: Tensor, n_next: Tensor, listed: Tensor, ranked: bool = True
) -> tuple[float, float, float]:
    """Level, slope by log(rank) and slope by score. A slope of the wrong sign is left out."""
    ranks = torch.arange(1, scores.shape[1] + 1, device=scores.device, dtype=torch.float64).log()
    x = torch.stack([ranks.expand(scores.shape)[listed], scores[listed].double()], 1)
    centre, spread = x.mean(0), x.std(0).clamp_min(1e-12)
    x = (x - centre) / spread
    y, offset = hits[listed].double(), n_next[:, None].expand(scores.shape)[listed].log()
    slopes = torch.zeros(2, dtype=torch.float64, device=scores.device)
    kept = torch.tensor([ranked, True])
    signs = torch.tensor([-1.0, 1.0], dtype=torch.float64, device=scores.device)
    while True:
        level, found = _newton(x[:, kept], y, offset)
        slopes.zero_()[kept] = found
        wrong = (slopes * signs).cpu() < 0
        if not bool(wrong.any()):
            break
        kept &= ~wrong
    slopes /= spread
    by_rank, by_score = slopes.tolist()
    return float(level - (slopes * centre).sum()), by_rank, by_score


def _newton(x: Tensor, y: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
    """The level and the slopes of a regression with the complementary log-log link, by Fisher scoring."""
    x = torch.cat([torch.ones_like(y)[:, None], x], 1)
    beta = x.new_zeros(x.shape[1])
    beta[0] = (-torch.log1p(-y.mean().clamp(1e-9, 1 - 1e-9))).log() - offset.mean()
    for _ in range(_STEPS):
        mean = (x @ beta + offset).exp().clamp(1e-12, 30)
        p = -torch.expm1(-mean)
        weight = mean * mean * (-mean).exp() / p  # of Fisher's information
        step = (y - p) * mean / p
        information = (x.T * weight) @ x
        information.diagonal().add_(1e-9 * information.diagonal().mean())
        move = torch.linalg.solve(information, x.T @ step)
        beta = beta + move.clamp(-2, 2)
        if float(move.abs().max()) < 1e-9:
            break
    return beta[0], beta[1:]
