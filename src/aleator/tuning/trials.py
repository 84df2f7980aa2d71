"""The trials of a search, in an Optuna study: open or continue it, and rank them."""

from __future__ import annotations

import importlib.util
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleator.errors import AleatorError, require
from aleator.locks import locked
from aleator.paths import as_path

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

    from aleator.tuning.search import Search

DECIDED = ("complete", "pruned", "failed")  # states of trials that count
ENOUGH = 10  # complete trials that the importance of options takes; with fewer it is chance
SETTING = "setting"  # how the estimator of a trial was trained, as options by their full names
_WARM_UP = 10  # epochs before a trial may be pruned, since a slow start can still end well
_COMPARED = 5  # trials that must have reached the same epoch before one is pruned there


@contextmanager
def sound(path: Path | None = None) -> Iterator[None]:
    """Inside, Optuna reads or writes a study. Whatever it raises about a damaged one becomes an `AleatorError`."""
    import optuna

    try:
        yield
    except (AleatorError, optuna.TrialPruned):
        raise
    except Exception as error:  # Optuna, SQLAlchemy and what they read with have errors of their own
        name = "the study" if path is None else f"the study '{path}'"
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]:.120}"
        raise AleatorError(f"{name} is damaged or cannot be written ({reason})", "give another file") from error


@contextmanager
def silent() -> Iterator[None]:
    """Inside, Optuna does not log each trial and does not warn of its experimental features."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


@sound()
def open_study(path: Path | None, about: dict[str, Any], prune: float) -> optuna.Study:
    """The study in a file, or a new one. Without a path, it is in memory. A study of other settings is refused.

    `about` holds the settings. `prune` is a share: of the trials that reach an epoch, the worst `prune` are pruned.
    """
    import optuna
    from sqlalchemy import URL
    from sqlalchemy.exc import SQLAlchemyError

    storage = None
    if path is not None:
        require(not as_path(path).exists() or _is_study(path), f"'{path}' is not a study", "give another file")
        try:
            storage = optuna.storages.RDBStorage(URL.create("sqlite", database=str(path)).render_as_string())
        except (RuntimeError, SQLAlchemyError) as error:
            problem = str(error).partition("\n")[0]
            raise AleatorError(f"the study '{path}' cannot be opened ({problem})", "give another file") from None
    pruner = optuna.pruners.PercentilePruner(100 * (1 - prune), n_warmup_steps=_WARM_UP, n_min_trials=_COMPARED)
    study = optuna.create_study(
        storage=storage, study_name="aleator", direction="maximize", pruner=pruner, load_if_exists=True
    )
    _require_same(study, about, path)
    for name, value in about.items():
        study.set_user_attr(name, value)
    return study


def _require_same(study: optuna.Study, about: dict[str, Any], path: Path | None) -> None:
    """Refuse a study whose settings differ from `about`. The message names the settings that differ."""
    there = study.user_attrs or about
    other = [
        f"{name} ({there.get(name)} there, {here} here)" for name, here in about.items() if there.get(name) != here
    ]
    require(
        not other,
        f"'{path}' is a study of other settings: " + ", ".join(o if len(o) < 200 else o.split()[0] for o in other),
        "give another file, or the settings that it was made with",
    )


def _is_study(path: Path) -> bool:
    """Whether a file holds an Optuna study."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            return bool(file.execute("SELECT 1 FROM sqlite_master WHERE name = 'studies'").fetchone())
    except (sqlite3.Error, UnicodeError):
        return False


def state(trial: FrozenTrial) -> str:
    """The state of a trial: "complete", "pruned", "failed", "stopped", "running" or "waiting".

    "stopped" is a trial that Ctrl-C or a kill ended. "running" may also be a killed one, until the study is opened again.
    """
    name = trial.state.name.lower()
    if name != "fail":
        return name
    return "failed" if "problem" in trial.user_attrs else "stopped"


@sound()
def in_state(study: optuna.Study, *states: str) -> list[FrozenTrial]:
    """The trials in one of these states."""
    return [trial for trial in study.get_trials(deepcopy=False) if state(trial) in states]


@sound()
def ranked(study: optuna.Study) -> list[FrozenTrial]:
    """The complete trials, the best first. Of equal ones the earlier is first, so that the defaults win a tie."""
    return sorted(in_state(study, "complete"), key=lambda trial: (-trial.values[0], trial.number))


@contextmanager
def at_work(study: optuna.Study, path: Path | None) -> Iterator[None]:
    """Inside, other processes see that this one works on the study.

    If no other does, the trials that are still running are those of processes that were killed. They are stopped ones
    then, as after Ctrl-C, and the search goes on as if they had not been.
    """
    import optuna

    if path is None:
        yield
        return
    lock = Path(f"{path}.lock")
    with locked(lock) as alone:
        if alone:
            for trial in in_state(study, "running"):
                with sound():
                    study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    with locked(lock, shared=True):
        yield


def importance(trials: list[FrozenTrial], search: Search) -> dict[str, float]:
    """The share of each option in the variance of the results (fANOVA, Hutter et al., 2014), the largest first.

    `trials` are complete and ranked. The result is empty if there are too few of them, if all have the same value, if one
    option is searched, or without scikit-learn.
    """
    import optuna

    whole = [trial for trial in trials if trial.params.keys() == search.ranges.keys()]
    enough = len(whole) >= ENOUGH and len(search.ranges) > 1 and whole[0].values != whole[-1].values
    if not enough or importlib.util.find_spec("sklearn") is None:
        return {}
    study = optuna.create_study(direction="maximize")
    study.add_trials(whole)
    # PED-ANOVA would need no scikit-learn, but it hardly sees options with a few values.
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in shares.items()}
