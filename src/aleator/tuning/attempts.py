"""The attempts of a search: ask the study for a trial, measure it in whatever process, and write down what came out.

The process that holds the study alone reads and writes it. A trial that is measured elsewhere asks there after each check
of its training whether it is pruned. So it does not matter to the study how often a trial was begun: it is told once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from aleator.aur import AUR
from aleator.engines.engine import Ask, Engine
from aleator.errors import AleatorError
from aleator.options import Among, Between
from aleator.progress import progress
from aleator.training.watch import Epoch, watching
from aleator.tuning.trials import DECIDED, SETTING, in_state, ranked, sound

if TYPE_CHECKING:
    import optuna

    from aleator.tuning.search import Search


class Asked(NamedTuple):
    """A trial that is to be measured."""

    number: int
    defaults: bool  # whether it has the default options; it is never pruned
    options: dict[str, Any]


class Check(NamedTuple):
    """A check of a training, of which a trial asks whether it is pruned."""

    number: int  # of the trial
    epoch: int
    metric: float


class Outcome(NamedTuple):
    """What came out of a trial."""

    state: str  # as Optuna calls it
    figures: dict[str, Any]


@dataclass(frozen=True)
class Measurer:
    """Measures a trial, in whatever process."""

    search: Search

    def __call__(self, asked: Asked, ask: Ask) -> Outcome:
        """What came out of a trial, which may be pruned or fail."""
        import optuna

        def watch(told: Epoch) -> None:
            if told.metric is None or not self.search.watched(told.stage):
                return
            if ask(Check(asked.number, told.epoch, told.metric)):
                raise optuna.TrialPruned

        state, figures, start = "COMPLETE", dict[str, Any](), time.perf_counter()
        try:
            with watching(watch):
                figures = self.search.measure(asked.options)
        except optuna.TrialPruned:
            state = "PRUNED"
        except (AleatorError, torch.OutOfMemoryError) as error:
            state, figures = "FAIL", {"problem": str(error)}
        return Outcome(state, {**figures, "seconds": round(time.perf_counter() - start, 2)})


def run(study: optuna.Study, search: Search, trials: int, timeout: float | None, engine: Engine) -> None:
    """Run trials until the study holds `trials` of them. Stopped trials do not count."""
    _enqueue_the_defaults(study, search)
    attempts = _Attempts(study, search, trials, timeout)
    try:
        with progress(f"tuning {search.model}", trials) as shown:
            shown.advance(len(in_state(study, *DECIDED)))
            for asked, outcome in engine.run(Measurer(search), attempts, answer=attempts.is_pruned, lost=_failed):
                attempts.tell(asked, outcome)
                shown.advance(1, **{f"best {search.metric}": best.values[0] for best in ranked(study)[:1]})
    except BaseException:
        attempts.stop()
        raise


def _failed(error: AleatorError) -> Outcome:
    """Of a trial that ended each of its workers: it is counted and passed over, as others that fail."""
    return Outcome("FAIL", {"problem": str(error)})


@dataclass
class _Attempts:
    """The trials that are to be measured, and those that are running."""

    study: optuna.Study
    search: Search
    trials: int
    timeout: float | None
    running: dict[int, tuple[Asked, optuna.Trial]] = field(default_factory=dict)
    checked: set[tuple[int, int]] = field(default_factory=set)  # the epochs of trials that are reported

    def __iter__(self) -> Iterator[Asked | None]:
        end = time.monotonic() + (self.timeout or math.inf)
        while len(in_state(self.study, *DECIDED)) + len(self.running) < self.trials and time.monotonic() < end:
            yield None if self._waits() else self._next()

    def _waits(self) -> bool:
        """Whether the next trial needs to know first how the estimator was trained in the trial of the defaults."""
        return isinstance(self.search.default, AUR) and any(asked.defaults for asked, _ in self.running.values())

    def _next(self) -> Asked:
        """Ask the study for a trial, and choose its options."""
        import optuna

        # Each trial has a sampler of its own seed. A search that was stopped then continues as if it had not been.
        begun = len(in_state(self.study, *DECIDED, "running"))
        draw = np.random.SeedSequence([self.search.default.seed, begun]).generate_state(1)
        with sound():
            self.study.sampler = optuna.samplers.TPESampler(seed=int(draw[0]), multivariate=False, constant_liar=False)
            trial = self.study.ask()
            known: list[str] | None = trial.user_attrs.get("defaults")  # None unless this is the trial of the defaults
        self.running[trial.number] = Asked(trial.number, known is not None, {}), trial
        names = self.search.ranges if known is None else known
        options = {name: _suggest(trial, name, self.search.ranges[name]) for name in names}
        asked = Asked(trial.number, known is not None, {**({} if known is not None else self._settled()), **options})
        self.running[trial.number] = asked, trial
        return asked

    def _settled(self) -> dict[str, Any]:
        """How the estimator was trained in the trial of the defaults, as options. Nothing if that trial did not end."""
        found = (trial.user_attrs for trial in in_state(self.study, "complete"))
        settings: list[dict[str, Any]] = [told[SETTING] for told in found if "defaults" in told and SETTING in told]
        return settings[0] if settings else {}

    @sound()
    def is_pruned(self, check: Check) -> bool:
        """Report a check of a trial. It may come a second time, from a trial that is run again."""
        asked, trial = self.running[check.number]
        if (check.number, check.epoch) not in self.checked:
            self.checked.add((check.number, check.epoch))
            trial.report(check.metric, check.epoch)
        return not asked.defaults and trial.should_prune()

    @sound()
    def tell(self, asked: Asked, outcome: Outcome) -> None:
        """Write what came out of a trial into the study."""
        import optuna

        _, trial = self.running.pop(asked.number)
        for name, value in outcome.figures.items():
            trial.set_user_attr(name, value)
        value = outcome.figures.get(self.search.metric)
        self.study.tell(trial, value, optuna.trial.TrialState[outcome.state])

    def stop(self) -> None:
        """Write into the study that all running trials were stopped."""
        for asked, _ in list(self.running.values()):
            self.tell(asked, Outcome("FAIL", {}))


@sound()
def _enqueue_the_defaults(study: optuna.Study, search: Search) -> None:
    """Make the default options the next trial, unless there is such a trial.

    Optuna gets only the defaults that lie in their range. The others, such as "auto", stay as they are.
    """
    if not any("defaults" in trial.user_attrs for trial in in_state(study, *DECIDED, "waiting")):
        known = {name: value for name, value in search.defaults.items() if _inside(search.ranges[name], value)}
        study.enqueue_trial(known, user_attrs={"defaults": list(known)})


def _inside(where: Between | Among, value: Any) -> bool:
    """Whether a value lies in a range."""
    if isinstance(where, Among):
        return any(value == each and type(value) is type(each) for each in where.values)
    return isinstance(value, (int, float)) and where.low <= value <= where.high


@sound()
def _suggest(trial: optuna.Trial, name: str, where: Between | Among) -> Any:
    """The value of an option that Optuna suggests for a trial."""
    if isinstance(where, Among):
        return trial.suggest_categorical(name, where.values)
    if where.whole:
        return trial.suggest_int(name, int(where.low), int(where.high), log=where.log)
    return trial.suggest_float(name, where.low, where.high, log=where.log)
