"""The choice of lam and of the discount of popularity on held-out pairs, by the one-standard-error rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from aleator.checkpoint.checks import Figure
from aleator.evaluation.held_out import HeldOut, Lams, Measured, Parts
from aleator.words import Select

LAMS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # a few lams: for early stopping, a race and discounts
DISCOUNTS = (0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.0)  # of popularity, to choose from


@dataclass(frozen=True)
class Point:
    """The held-out figures of one lam at one discount of popularity."""

    lam: float
    discount: float
    recall: Figure  # mean Recall@20
    ndcg: Figure  # mean NDCG@20
    tail: Figure  # mean tail-absolute Recall@50
    merit: Figure  # mean of m
    near: bool  # within one standard error of the best merit
    gains: bool  # gains on the bare model by one standard error, in Recall@20 and in NDCG@20

    def __str__(self) -> str:
        return f"lam {self.lam:.2f}" + (f" and discount {self.discount:.2f}" if self.discount else "")


@dataclass(frozen=True)
class Choice:
    """A choice of lam and of a discount, and what it rests on."""

    select: Select
    users: int  # users with held-out pairs
    chosen: Point
    best: Point  # the one with the highest merit
    bare: Point  # the bare model: lam 1 and no discount
    curve: list[Point]  # one for each lam at the chosen discount, ascending

    @property
    def lam(self) -> float:
        return self.chosen.lam

    @property
    def discount(self) -> float:
        return self.chosen.discount

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        """The curve, the guard and the price, for people."""
        some = self.curve[:: max(len(self.curve) // 10, 1)]
        shown = sorted({*some, self.chosen, self.best, self.bare}, key=lambda point: (-point.discount, point.lam))
        lines = [f"lam and discount on the held-out pairs of {self.users:,} users (select={self.select!r})"]
        lines += ["  lam   discount  Recall@20  NDCG@20  tail Recall@50"]
        for point in shown:
            marks = [
                name
                for name, is_so in (
                    ("chosen", point == self.chosen),
                    ("best overall", point == self.best),
                    ("the bare model", point == self.bare),
                    ("may be chosen", self.select == "balanced" and point.near and point.gains),
                )
                if is_so
            ]
            figures = f"{point.recall:9.4f}  {point.ndcg:7.4f}  {point.tail:14.4f}"
            lines.append(f"  {point.lam:4.2f}  {point.discount:8.2f}  {figures}   {', '.join(marks)}".rstrip())
        return "\n".join([*lines, self.why])

    @property
    def why(self) -> str:
        """Why this lam was chosen, and at what price."""
        bare, best, chosen = self.bare, self.best, self.chosen
        against_bare = (
            f"{_change(chosen.recall, bare.recall)} Recall@20, {_change(chosen.ndcg, bare.ndcg)} NDCG@20 and "
            f"{_change(chosen.tail, bare.tail)} tail Recall@50 against the bare model"
        )
        if chosen == bare:
            return (
                "lam 1, the bare model: no blend gains by a standard error in Recall@20 and in NDCG@20"
                if self.select == "balanced"
                else "lam 1, the bare model, is the best overall"
            )
        if chosen == best:
            return f"{chosen} is the best overall: {against_bare}"
        price = f"{_change(chosen.recall, best.recall)} Recall@20 and {_change(chosen.ndcg, best.ndcg)} NDCG@20"
        return (
            f"{chosen} has the most tail Recall@50 of the blends that are as good as the best ({best}) within a standard "
            f"error: {against_bare}. The price is {price} against the best"
        )


def choose_discount(held_out: HeldOut, parts: Parts, select: Select) -> float:
    """Choose the discount of popularity on held-out pairs, with a few lams. The rule is that of `choose_lam`."""
    return _chosen(held_out, parts, grid(LAMS, DISCOUNTS), select).discount


def choose_lam(held_out: HeldOut, parts: Parts, lams: Sequence[float], discount: float, select: Select) -> Choice:
    """Choose lam at a discount of popularity, on held-out pairs.

    The merit of a blend is the mean over users of m = (R_u / R + N_u / N) / 2. R_u and N_u are the Recall@20 and NDCG@20
    of the user. R and N are the means of the bare model (lam = 1, no discount).

    "overall" takes the blend of the highest merit. "balanced" is the one-standard-error rule. It takes the blend with the
    highest mean tail-absolute Recall@50, among those that are near the best and gain on the bare model. A blend is near
    if its merit is within one standard error of the highest. It gains if its mean Recall@20 and its mean NDCG@20 are each
    higher by at least one standard error. Both standard errors are those of the paired differences over users. If none
    remains, it takes the bare model. Of equally good blends it takes that with the lower discount and the higher lam.
    """
    return _chosen(held_out, parts, grid(lams, [discount]), select)


def _chosen(held_out: HeldOut, parts: Parts, lams: Lams, select: Select) -> Choice:
    with torch.no_grad():
        return choose(held_out.measure_blends(parts, lams), lams, select)


def grid(lams: Sequence[float], discounts: Sequence[float]) -> Lams:
    """All lams at each discount, the bare model last."""
    lams = sorted({*lams, 1.0})
    found: list[tuple[float, Sequence[float]]] = [(power, lams) for power in sorted({*discounts}, reverse=True)]
    return found if 0.0 in discounts else [*found, (0.0, [1.0])]


def choose(measured: Measured, lams: Lams, select: Select) -> Choice:
    """`choose_lam` from the metrics of each discount, lam and user. The last one is the bare model."""
    merit = merits(measured)
    mean = merit.mean(1)
    best = highest(mean)
    near = mean >= mean[best] - standard_error(merit - merit[best])
    gains = torch.ones_like(near)
    for metric in (measured.recall, measured.ndcg):
        gain = metric - metric[-1]
        gains &= (gain.mean(1) >= standard_error(gain)) & (gain.mean(1) > 0)
    tail = measured.tail.nanmean(1).nan_to_num()
    chosen = best
    if select == "balanced":
        allowed = near & gains
        chosen = highest(tail.masked_fill(~allowed, -torch.inf)) if bool(allowed.any()) else len(mean) - 1
    columns = (measured.recall.mean(1), measured.ndcg.mean(1), tail, mean, near, gains)
    at = [(lam, power) for power, own in lams for lam in own]
    points = [Point(*where, *row) for where, *row in zip(at, *(column.tolist() for column in columns), strict=True)]
    curve = [point for point in points if point.discount == points[chosen].discount]
    return Choice(select, merit.shape[1], points[chosen], points[best], points[-1], curve)


def merits(measured: Measured, bare: Measured | None = None) -> Tensor:
    """m of each scoring and user, [V, U]. The bare model is the last scoring, or that of `bare`."""
    of = bare or measured
    recall, ndcg = (part[-1].mean().clamp_min(1e-12) for part in (of.recall, of.ndcg))
    return (measured.recall / recall + measured.ndcg / ndcg) / 2


def highest(values: Tensor) -> int:
    """The place of the highest value, and the last one of equal values."""
    return len(values) - 1 - int(values.flip(0).argmax())


def standard_error(difference: Tensor) -> Tensor:
    """The standard error of the mean over users of paired differences [V, U], [V]."""
    n = difference.shape[1]
    spread: Tensor = difference.std(dim=1, correction=min(n - 1, 1))
    return spread.div(n**0.5)


def _change(value: float, reference: float) -> str:
    return f"{100 * (value / reference - 1):+.1f} %" if reference else f"{value:+.4f}"
