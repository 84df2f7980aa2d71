"""The choice of lam on held-out pairs, by the one-standard-error rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from aleator.evaluation.held_out import HeldOut, Measured, Parts

Select = Literal["balanced", "overall"]


@dataclass(frozen=True)
class Point:
    """The held-out figures of one lam."""

    lam: float
    recall: float  # mean Recall@20
    ndcg: float  # mean NDCG@20
    tail: float  # mean tail-absolute Recall@50
    merit: float  # mean of m
    near: bool  # within one standard error of the best merit
    gains: bool  # gains on the bare model by one standard error, in Recall@20 and in NDCG@20


@dataclass(frozen=True)
class Choice:
    """A choice of lam, and what it rests on."""

    lam: float
    select: Select
    users: int  # users with held-out pairs
    curve: list[Point]  # one for each lam, ascending; the last is the bare model

    @property
    def chosen(self) -> Point:
        return next(point for point in self.curve if point.lam == self.lam)

    @property
    def best(self) -> Point:
        """The point with the highest merit."""
        return max(self.curve, key=lambda point: (point.merit, point.lam))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def restore(cls, kept: dict[str, Any]) -> Choice:
        return cls(**{**kept, "curve": [Point(**point) for point in kept["curve"]]})

    def __str__(self) -> str:
        """The curve, the guard and the price, for people."""
        bare, best, chosen = self.curve[-1], self.best, self.chosen
        shown = sorted({*self.curve[:: max(len(self.curve) // 10, 1)], chosen, best, bare}, key=lambda point: point.lam)
        lines = [f"lam on the held-out pairs of {self.users:,} users (select={self.select!r})"]
        lines += ["  lam   Recall@20  NDCG@20  tail Recall@50"]
        for point in shown:
            marks = [
                name
                for name, is_so in (
                    ("chosen", point is chosen),
                    ("best overall", point is best),
                    ("the bare model", point is bare),
                    ("may be chosen", self.select == "balanced" and point.near and point.gains),
                )
                if is_so
            ]
            figures = f"{point.recall:9.4f}  {point.ndcg:7.4f}  {point.tail:14.4f}"
            lines.append(f"  {point.lam:4.2f}  {figures}   {', '.join(marks)}".rstrip())
        return "\n".join([*lines, self.why])

    @property
    def why(self) -> str:
        """Why this lam was chosen, and at what price."""
        bare, best, chosen = self.curve[-1], self.best, self.chosen
        against_bare = (
            f"{_change(chosen.recall, bare.recall)} Recall@20, {_change(chosen.ndcg, bare.ndcg)} NDCG@20 and "
            f"{_change(chosen.tail, bare.tail)} tail Recall@50 against the bare model"
        )
        if chosen is bare:
            return (
                "lam 1, the bare model: no blend gains by a standard error in Recall@20 and in NDCG@20"
                if self.select == "balanced"
                else "lam 1, the bare model, is the best overall"
            )
        if chosen is best:
            return f"lam {chosen.lam:.2f} is the best overall: {against_bare}"
        price = f"{_change(chosen.recall, best.recall)} Recall@20 and {_change(chosen.ndcg, best.ndcg)} NDCG@20"
        return (
            f"lam {chosen.lam:.2f} has the most tail Recall@50 of the lams that are as good as the best (lam "
            f"{best.lam:.2f}) within a standard error: {against_bare}. The price is {price} against the best"
        )


def choose_lam(held_out: HeldOut, parts: Parts, lams: Sequence[float], select: Select) -> Choice:
    """Choose lam on held-out pairs.

    The merit of a lam is the mean over users of m = (R_u / R + N_u / N) / 2. R_u and N_u are the Recall@20 and NDCG@20 of
    the user. R and N are the means of the bare model (lam = 1).

    "overall" takes the lam of the highest merit. "balanced" is the one-standard-error rule. It takes the lam with the
    highest mean tail-absolute Recall@50, among the lams that are near the best and gain on the bare model. A lam is near
    if its merit is within one standard error of the highest. It gains if its mean Recall@20 and its mean NDCG@20 are each
    higher by at least one standard error. Both standard errors are those of the paired differences over users. If no lam
    remains, it takes lam = 1. Of equally good lams it takes the highest.
    """
    lams = sorted({*lams, 1.0})
    with torch.no_grad():
        measured = held_out.measure_blends(parts, lams)
    return choose(measured, lams, select)


def choose(measured: Measured, lams: Sequence[float], select: Select) -> Choice:
    """`choose_lam` from the metrics of each lam and user. The last lam is 1."""
    merit = merits(measured)
    mean = merit.mean(1)
    best = highest(mean)
    near = mean >= mean[best] - standard_error(merit - merit[best])
    gains = torch.ones_like(near)
    for metric in (measured.recall, measured.ndcg):
        gain = metric - metric[-1]
        gains &= (gain.mean(1) >= standard_error(gain)) & (gain.mean(1) > 0)
    tail = measured.tail.nanmean(1).nan_to_num()
    if select == "balanced":
        allowed = near & gains
        best = highest(tail.masked_fill(~allowed, -torch.inf)) if bool(allowed.any()) else len(lams) - 1
    columns = (measured.recall.mean(1), measured.ndcg.mean(1), tail, mean, near, gains)
    rows = zip(lams, *(column.tolist() for column in columns), strict=True)
    return Choice(lams[best], select, merit.shape[1], [Point(*row) for row in rows])


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
