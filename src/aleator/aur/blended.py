"""Blended: a fitted model, an estimator that is trained on it, and the two parts of their blend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from aleator.aur.choice import LAMS, grid, merits
from aleator.aur.residuals import Residuals, Unobserved, expectations
from aleator.batches import Users, pieces
from aleator.checkpoint.checks import fit, typed
from aleator.checkpoint.manifest import without_nan
from aleator.evaluation.held_out import HeldOut, Lams, Measured
from aleator.models.base import Model
from aleator.ranking.blend import Blending, Spreads, spreads, uncertainty
from aleator.training.journal import recorded
from aleator.training.loop import Log
from aleator.training.stop import Stop
from aleator.training.whole import Content
from aleator.uncertainty.base import Estimator, Expectation
from aleator.uncertainty.objective import Objective

_USERS, _AT_A_TIME = 1024, 128  # users that spreads are measured on, in all and at a time
_SCORES = 1 << 25  # most scores at a time: of fewer users, where the catalogue is very large


@dataclass(frozen=True)
class Setting:
    """How an estimator is trained: what a race decides."""

    residuals: Residuals  # expectations of the observed pairs in the estimator's loss
    unobserved: Unobserved  # expectations of the other pairs
    options: tuple[tuple[str, Any], ...] = ()  # options of the estimator, by name

    def __str__(self) -> str:
        shown = {"residuals": self.residuals, "unobserved": self.unobserved, **dict(self.options)}
        return ", ".join(f"{name} {value}" for name, value in shown.items())


@dataclass
class Blended:
    """A fitted model and an estimator that is trained on it by a setting."""

    model: Model
    estimator: Estimator
    setting: Setting
    objective: Objective
    blending: Blending
    spreads: Spreads | None = None  # of the linear blend
    discounts: Sequence[float] = (0.0,)  # of popularity, to be judged by

    def __str__(self) -> str:
        return f"{type(self.model).__name__}, {self.setting}"

    def learn(self, stop: Stop) -> None:
        """Train the estimator, or take what it learned from the journal."""
        estimator = self.estimator

        def learn() -> None:
            estimator.learn(self.model.histories, self._expected(), self.objective, stop)

        def pack() -> Content:
            return {"log": None if estimator.log is None else estimator.log.to_dict()}, estimator.tensors()

        def take(facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
            fit(tensors, estimator.learned, n_items=estimator.take_rows(self.model.fitted.n_items, tensors))
            estimator.log = typed(Log | None, without_nan(facts["log"]), "the log")
            estimator.set_tensors({name: value.to(self.model.torch_device) for name, value in tensors.items()})

        recorded(f"estimator of {self}", learn, pack, take)
        self.measure_spreads()

    def go_on(self, stop: Stop) -> None:
        """Train the estimator on from what it learned."""
        self.estimator.go_on(self.model.histories, self._expected(), self.objective, stop)
        self.measure_spreads()

    def _expected(self) -> Expectation:
        """What the estimator is trained on. The constant is sqrt(beta): s is then 0 where nothing speaks for a pair."""
        return expectations(self.model, self.setting.residuals, self.setting.unobserved, self.objective.beta**0.5)

    @torch.no_grad()
    def measure_spreads(self) -> None:
        """Measure the spreads of the linear blend, on a sample of users."""
        if self.blending == "linear":
            self.spreads = spreads(self._sampled())

    def _sampled(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """r, s and a mask of the pairs that count, of some users at a time."""
        histories, fitted = self.model.histories, self.model.fitted
        who = (histories.host_size > 0).nonzero().squeeze(1)
        draw = torch.randperm(len(who), generator=torch.Generator().manual_seed(self.model.seed))[:_USERS]
        trained = torch.from_numpy(fitted.popularity > 0).to(histories.device)
        size = max(min(_AT_A_TIME, _SCORES // fitted.n_items), 1)
        for index in pieces(who[draw].sort().values, size):
            users = histories.batch(index)
            counted = self.model.candidates(users)
            counted = trained.expand(len(users), -1).clone() if counted is None else counted & trained
            counted[users.row, users.item] = False
            yield *self.raw(users), counted

    def raw(self, users: Users, items: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The expectations r and the log-variances s, [B, n_items] or [B, len(items)] each."""
        return self.model.score_block(users, items), self.estimator.log_variance(users, items)

    def parts(self, users: Users, items: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The two parts of the blend, [B, n_items] or [B, len(items)] each: its value is lam * a + (1 - lam) * b."""
        return self.scaled(*self.raw(users, items))

    def scaled(self, r: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """The two parts of the blend, from the expectations r and the log-variances s."""
        if self.blending == "sigma":
            return r, uncertainty(s, self.objective.k)
        assert self.spreads is not None, "the estimator is trained"
        return self.spreads.scaled(r, s)

    @torch.no_grad()
    def measure(self, held_out: HeldOut) -> Measured:
        """The metrics of the blend at each of `lams`, the bare model last. The spreads are measured."""
        return held_out.measure_blends(self.parts, self.lams)

    @property
    def lams(self) -> Lams:
        """A few lams at each of the discounts."""
        return grid(LAMS, self.discounts)

    def progress(self, held_out: HeldOut) -> Callable[[], float]:
        """What early stopping watches: the merit of the best blend, or the paper's Recall@20 by the uncertainty alone."""

        def by_uncertainty() -> float:
            with torch.no_grad():
                measured = held_out.measure(lambda users: [self.estimator.log_variance(users)])
            return float(measured.recall.mean())

        def by_blend() -> float:
            self.measure_spreads()
            return float(merits(self.measure(held_out)).mean(1).max())

        return by_uncertainty if self.blending == "sigma" else by_blend
