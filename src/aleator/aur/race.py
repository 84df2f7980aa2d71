"""The race: models and settings of the estimator against each other, on held-out pairs.

No setting wins on all data, so validation decides, by successive halving (Jamieson and Talwalkar, 2016). Every entry
trains for a few epochs and is judged by its best blend under `select`, not by s alone. The best quarter goes on, for
twice as many epochs. The winner is then trained to its end. Of entries within a standard error of the best, the first
in the order of `settings` wins, which is the simplest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from aleator.aur.blended import Blended, Setting
from aleator.aur.choice import DISCOUNTS, choose, highest, merits, standard_error
from aleator.aur.residuals import Residuals, Unobserved
from aleator.batches import Users
from aleator.checkpoint.checks import Figure, fit
from aleator.evaluation.held_out import HeldOut, Measured
from aleator.ranking.blend import discounts
from aleator.training.journal import recorded
from aleator.training.stop import Stop
from aleator.training.watch import phase
from aleator.uncertainty.base import Estimator
from aleator.uncertainty.factor import RANDOM_INIT, FactorEstimator
from aleator.uncertainty.spectral import keeping_spectra
from aleator.words import Select

_FIRST = 3  # epochs of the first round
_KEPT = 4  # one of so many entries goes on


@dataclass(frozen=True)
class Result:
    """The best blend of an entry in its last round, on held-out pairs."""

    model: str
    setting: str
    epochs: int  # that the estimator was trained for
    lam: float
    discount: float  # of popularity
    recall: Figure  # mean Recall@20
    ndcg: Figure  # mean NDCG@20
    tail: Figure  # mean tail-absolute Recall@50

    def __str__(self) -> str:
        figures = f"{self.recall:.4f} {self.ndcg:.4f} {self.tail:.4f}"
        at = f"lam {self.lam:.1f}" + (f", discount {self.discount:.2f}" if self.discount else "")
        return f"{self.model}, {self.setting}: {figures} at {at} after {self.epochs} epochs"


def settings(
    residuals: Residuals | Literal["auto"], unobserved: Unobserved | Literal["auto"], estimator: Estimator
) -> list[Setting]:
    """The settings that options leave open, in the order in which they win a tie.

    First the model's expectation on the observed pairs alone, which costs no products with the model. Then no model at
    all. Last the paper's, where all pairs take the model's: it follows the model, and so it is the least stable. From a
    random start, an estimator on the expectations of the model takes many epochs. So a random start is only tried with a
    constant on the unobserved pairs.
    """
    pairs: list[tuple[Residuals, Unobserved]] = [
        pair
        for pair in (("in-sample", "constant"), ("constant", "constant"), ("in-sample", "model"))
        if residuals in ("auto", pair[0]) and unobserved in ("auto", pair[1])
    ]
    if residuals not in ("auto", "in-sample", "constant") or not pairs:
        chosen: Residuals = "in-sample" if residuals == "auto" else residuals
        others: list[Unobserved] = ["constant", "model"] if unobserved == "auto" else [unobserved]
        pairs = [(chosen, other) for other in others]
    if not isinstance(estimator, FactorEstimator) or estimator.init != "auto":
        return [Setting(*pair) for pair in pairs]
    spectral, random = (("init", "spectral"),), (("init", RANDOM_INIT),)
    found = [Setting(*pair, spectral) for pair in pairs]
    return found + [Setting(*pair, random) for pair in pairs if pair[1] == "constant"]


def open_discounts(score: Callable[[Users], Tensor], held_out: HeldOut) -> tuple[float, ...]:
    """The discounts of popularity that the blends of a model race at: none, and that which suits the bare model best."""

    def scorings(users: Users) -> Iterator[Tensor]:
        scores = score(users)
        yield from (scores * discounts(held_out.fitted.popularity, power) for power in DISCOUNTS)

    with torch.no_grad():
        merit = merits(held_out.measure(scorings)).mean(1)
    return tuple(sorted({DISCOUNTS[highest(merit)], 0.0}, reverse=True))


@keeping_spectra()
def decide(field: Sequence[Blended], held_out: HeldOut, select: Select) -> tuple[Blended, list[Result]]:
    """Let the entries race, the simplest first, and train the winner to its end. Returns it and what was compared."""
    left, results, epochs = list(field), list[Result](), _FIRST
    while len(left) > 1:
        measured = []
        with phase(f"race over {epochs} epochs", len(left)) as shown:
            for entry in left:
                with phase(str(entry)):
                    measured.append(judge(entry, Stop(epochs=epochs), held_out))
                shown.advance(1)
        order = ranking(measured, select)
        going_on = math.ceil(len(left) / _KEPT)
        results = [_result(left[i], measured[i], select, epochs) for i in order[going_on:]] + results
        left, epochs = [left[i] for i in sorted(order[:going_on])], 2 * epochs
    (winner,) = left
    with phase(str(winner)):
        winner.learn(Stop(winner.progress(held_out)))
    if results:
        log = winner.estimator.log
        results.insert(0, _result(winner, winner.measure(held_out), select, log.best_epoch if log else 0))
    return winner, results


def judge(entry: Blended, stop: Stop, held_out: HeldOut) -> Measured:
    """Train an entry and measure it. What it learned is forgotten: many entries may not fit in memory together."""
    found: list[Measured] = []

    def learn_and_measure() -> None:
        entry.learn(stop)
        found.append(entry.measure(held_out))
        entry.estimator.forget()

    def take(facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        fit(tensors, dict.fromkeys(("recall", "ndcg", "tail"), "[n_scorings, n_users] float64"))
        found.append(Measured(**{name: value.to(entry.model.torch_device) for name, value in tensors.items()}))

    recorded(f"judgement of {entry}", learn_and_measure, lambda: ({}, vars(found[0])), take)
    return found[0]


def ranking(measured: Sequence[Measured], select: Select) -> list[int]:
    """The places of the entries, the best first. Entries are given the simplest first.

    Entries are compared by the same rule as lams: see `choose_lam`. The merit is relative to the best bare model.
    """
    bare = max(measured, key=lambda each: float(each.recall[-1].mean()))
    merit = [merits(each, bare) for each in measured]
    best = [each[int(each.mean(1).argmax())] for each in merit]
    top = best[int(torch.stack([each.mean() for each in best]).argmax())]
    values = []
    for each, own, most in zip(measured, merit, best, strict=True):
        value, allowed = most, torch.zeros(len(own), dtype=torch.bool)
        if select == "balanced":
            allowed = _allowed(each, own, bare, top)
        if bool(allowed.any()):
            tail = each.tail.nanmean(1).nan_to_num().masked_fill(~allowed.to(each.tail.device), -torch.inf)
            value = each.tail[int(tail.argmax())].nan_to_num()
        values.append((bool(allowed.any()), value))
    order = sorted(range(len(values)), key=lambda i: (values[i][0], float(values[i][1].mean())), reverse=True)
    first_allowed, first = values[order[0]]
    for i in range(order[0]):  # a simpler one
        allowed_too, value = values[i]
        if allowed_too == first_allowed and float((first - value).mean()) <= float(
            standard_error((first - value)[None])
        ):
            order.remove(i)
            order.insert(0, i)
            break
    return order


def _allowed(measured: Measured, merit: Tensor, bare: Measured, top: Tensor) -> Tensor:
    """[V] which lams are as good as the best blend of all within a standard error, and gain on the best bare model."""
    near = merit.mean(1) >= top.mean() - standard_error(merit - top)
    for metric, reference in ((measured.recall, bare.recall), (measured.ndcg, bare.ndcg)):
        gain = metric - reference[-1]
        near &= (gain.mean(1) >= standard_error(gain)) & (gain.mean(1) > 0)
    return near.cpu()


def _result(entry: Blended, measured: Measured, select: Select, epochs: int) -> Result:
    point = choose(measured, entry.lams, select).chosen
    name = type(entry.model).__name__
    return Result(name, str(entry.setting), epochs, point.lam, point.discount, point.recall, point.ndcg, point.tail)
