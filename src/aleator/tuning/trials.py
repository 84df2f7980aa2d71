"""The trials of a search, kept in an Optuna study: opened or continued, made one by one, ranked."""

from __future__ import annotations

import importlib.util
import math
import sqlite3
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from aleator.errors import AleatorError, require
from aleator.options import Among, Between
from aleator.progress import progress
from aleator.training.loop import watching

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

    from aleator.tuning.search import Search

DECIDED = ("complete", "pruned", "failed")
ENOUGH = 10  # complete trials before importance is more than chance
_WARM_UP = 10  # epochs before a trial may be pruned: a slow start need not end badly
_COMPARED = 5  # trials that came as far


@contextmanager
def silent() -> Iterator[None]:
    """Optuna neither logs each trial nor warns of what is experimental in it."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def open_study(path: Path | None, about: dict[str, Any], prune: float) -> optuna.Study:
    """The study of a file, made where there is none; one that belongs to other settings is refused.

    Of the trials that come to an epoch, the worst `prune` (a share) go no further.
    """
    import optuna
    from sqlalchemy import URL
    from sqlalchemy.exc import SQLAlchemyError

    storage = None
    if path is not None:
        require(not path.exists() or _is_study(path), f"'{path}' is no study", "give another file")
        try:
            storage = optuna.storages.RDBStorage(URL.create("sqlite", database=str(path)).render_as_string())
        except (RuntimeError, SQLAlchemyError) as error:
            problem = str(error).partition("\n")[0]
            raise AleatorError(f"the study '{path}' cannot be opened ({problem})", "give another file") from None
    pruner = optuna.pruners.PercentilePruner(100 * (1 - prune), n_warmup_steps=_WARM_UP, n_min_trials=_COMPARED)
    study = optuna.create_study(
        storage=storage, study_name="aleator", direction="maximize", pruner=pruner, load_if_exists=True
    )
    there = study.user_attrs or about
    other = [f"{n} ({there.get(n)} there, {here} here)" for n, here in about.items() if there.get(n) != here]
    require(
        not other,
        f"'{path}' is a study of other settings: " + ", ".join(o if len(o) < 200 else o.split()[0] for o in other),
        "give another file, or the settings that it was made with",
    )
    for name, value in about.items():
        study.set_user_attr(name, value)
    return study


def _is_study(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            return bool(file.execute("SELECT 1 FROM sqlite_master WHERE name = 'studies'").fetchone())
    except sqlite3.Error:
        return False


def state(trial: FrozenTrial) -> str:
    """complete, pruned, failed; stopped by Ctrl-C; running, here, elsewhere or until it was killed; or waiting."""
    name = trial.state.name.lower()
    return name if name != "fail" else "failed" if "problem" in trial.user_attrs else "stopped"


def in_state(study: optuna.Study, *states: str) -> list[FrozenTrial]:
    return [t for t in study.get_trials(deepcopy=False) if state(t) in states]


def ranked(study: optuna.Study) -> list[FrozenTrial]:
    """Complete ones, the best first; of equal ones the earlier, so that the defaults win a tie."""
    return sorted(in_state(study, "complete"), key=lambda t: (-t.values[0], t.number))


def run(study: optuna.Study, search: Search, trials: int, timeout: float | None) -> None:
    """Make trials until there are so many, those that were stopped not counted."""
    _enqueue_the_defaults(study, search)
    end = time.monotonic() + (timeout or math.inf)
    with progress(f"tuning {search.model}", trials) as shown:
        shown.advance(len(in_state(study, *DECIDED)))
        while len(in_state(study, *DECIDED)) < trials and time.monotonic() < end:
            _attempt(study, search)
            shown.advance(1, **{f"best {search.metric}": t.values[0] for t in ranked(study)[:1]})


def _enqueue_the_defaults(study: optuna.Study, search: Search) -> None:
    """As the next trial, unless there was one. Options whose default lies outside their range ("auto") are not told."""
    if not any("defaults" in t.user_attrs for t in in_state(study, *DECIDED, "waiting")):
        known = {n: v for n, v in search.defaults.items() if _inside(search.ranges[n], v)}
        study.enqueue_trial(known, user_attrs={"defaults": list(known)})


def _inside(where: Between | Among, value: Any) -> bool:
    if isinstance(where, Among):
        return any(value == v and type(value) is type(v) for v in where.values)
    return isinstance(value, (int, float)) and where.low <= value <= where.high


def _suggest(trial: optuna.Trial, name: str, where: Between | Among) -> Any:
    if isinstance(where, Among):
        return trial.suggest_categorical(name, where.values)
    if where.whole:
        return trial.suggest_int(name, int(where.low), int(where.high), log=where.log)
    return trial.suggest_float(name, where.low, where.high, log=where.log)


def _attempt(study: optuna.Study, search: Search) -> None:
    """One trial, from the choice of its options to its result in the study."""
    import optuna

    # a sampler for each: a search that was stopped then goes on as if it had not been
    draw = np.random.SeedSequence([search.default.seed, len(in_state(study, *DECIDED, "running"))]).generate_state(1)
    study.sampler = optuna.samplers.TPESampler(seed=int(draw[0]), multivariate=False, constant_liar=False)
    trial = study.ask()
    known: list[str] | None = trial.user_attrs.get("defaults")

    def watch(label: str, epoch: int, metric: float) -> None:
        if search.watched(label):
            trial.report(metric, epoch)
            if known is None and trial.should_prune():
                raise optuna.TrialPruned

    def tell(state: str, **figures: Any) -> None:
        for name, value in {**figures, "seconds": round(time.perf_counter() - start, 2)}.items():
            trial.set_user_attr(name, value)
        study.tell(trial, figures.get(search.metric), optuna.trial.TrialState[state])

    start = time.perf_counter()
    try:
        options = {n: _suggest(trial, n, search.ranges[n]) for n in (search.ranges if known is None else known)}
        with watching(watch):
            figures = search.measure(options)
    except optuna.TrialPruned:
        tell("PRUNED")
    except (AleatorError, torch.OutOfMemoryError) as error:
        tell("FAIL", problem=str(error))
    except BaseException:
        tell("FAIL")
        raise
    else:
        tell("COMPLETE", **figures)


def importance(trials: list[FrozenTrial], search: Search) -> dict[str, float]:
    """The share of each option in the variance of the results (fANOVA, Hutter et al., 2014), the largest first.

    Empty for too few trials, equal ones or one option, and without scikit-learn. Trials come ranked.
    """
    import optuna

    whole = [t for t in trials if t.params.keys() == search.ranges.keys()]
    enough = len(whole) >= ENOUGH and len(search.ranges) > 1 and whole[0].values != whole[-1].values
    if not enough or importlib.util.find_spec("sklearn") is None:
        return {}
    study = optuna.create_study(direction="maximize")
    study.add_trials(whole)
    # not PED-ANOVA, which needs no library: it hardly sees options of a few values
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in shares.items()}
