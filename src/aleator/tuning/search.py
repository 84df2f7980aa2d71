"""tune: search for good options with Optuna, in the `ranges` of each class.

A trial fits on train and is scored on the validation part, whatever the recipe. It never sees the test part. The first
trial has the default options, so the best options are no worse on validation than the defaults.

How the estimator is trained (residuals, unobserved, init) is left to a race only in the first trial. All later trials
take what won there, since a race in each trial would cost more than the search. The best options name it too.

tune      Checks its arguments and runs the search.
Search    Holds what is searched. It makes a recommender from options and measures it.
Tuned     The result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from aleator.aur import AUR
from aleator.aur.build import build
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.data.tail import DEFAULT_TAIL
from aleator.engines.engine import EngineName, check_engine, started
from aleator.errors import need, require
from aleator.models.base import Model
from aleator.models.cache import ModelCache
from aleator.options import Among, Between, Configurable, Ranges
from aleator.ranks import require_alone
from aleator.recommender import Recommender, as_split
from aleator.tuning.attempts import run
from aleator.tuning.trials import SETTING, at_work, importance, in_state, open_study, ranked, silent, sound, state
from aleator.uncertainty.factor import FactorEstimator
from aleator.uncertainty.products import LABEL
from aleator.words import DEFAULT_RECIPE, Only, RecipeName, Select

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

FIGURES = ("recall@20", "ndcg@20", "tail_recall@50")  # what a trial measures


@dataclass(frozen=True)
class Tuned:
    """The result of `tune`.

    Attributes:
        metric: The metric that was maximised on validation, such as "recall@20".
        value: The best value of the metric.
        default: The value with the default options. None if that trial failed.
        options: The best options and the fixed ones, as in a config file.
        trials: One row for each trial. Complete trials come first, the best of them at the top.
        importance: Share of each searched option in the variance of the metric. Empty if there are too few trials.
        best: A recommender with the best options. It is not fitted yet.
    """

    metric: str
    value: float
    default: float | None
    options: dict[str, Any]
    trials: list[dict[str, Any]]
    importance: dict[str, float]
    best: Recommender = field(repr=False)

    def to_toml(self, comment: str = "") -> str:
        """The best options as the text of a config file, below an optional comment."""
        lines = [f"# {line}" for line in comment.splitlines()]
        tables = {name: value for name, value in self.options.items() if isinstance(value, dict)}
        for title, table in [("", self.options), *tables.items()]:
            lines += ["", f"[{title}]"] if title else []
            lines += [
                f"{n} = {json.dumps(v, default=str)}"
                for n, v in table.items()
                if v is not None and not isinstance(v, dict)
            ]
        return "\n".join(lines).strip() + "\n"


def tune(
    data: Split | Interactions,
    model: str = "mf",
    *,
    uncertainty: bool = True,
    only: Only | None = None,
    select: Select | None = None,
    recipe: RecipeName = DEFAULT_RECIPE,
    settings: Mapping[str, Any] | None = None,
    trials: int = 30,
    timeout: float | None = None,
    study: str | Path | None = None,
    estimator: str = "factor",
    seed: int = 0,
    device: str | None = None,
    max_epochs: int | None = None,
    engine: EngineName = "process",
    workers: int | None = None,
) -> Tuned:
    """Search for the options of a model, and of the uncertainty on top of it, with the best Recall on validation.

    The test part is not used. The first trial has the default options. Trials that fall behind are pruned. A trial that
    fails counts as a trial, and the search goes on.

    Args:
        data: A split, or interactions without a split. Without a validation part, a share of train is held out.
        model: Name of the model, such as "mf" or "lightgcn".
        uncertainty: Tune an AUR with this model, or the bare model if False.
        only: Search only the options of the "model", or only those of the "uncertainty". By default both.
        select: With uncertainty, what to maximise at the chosen lam of each trial: "overall" is Recall@20 (the default),
            "balanced" is tail-absolute Recall@50. The best options hold it, so that a fit with them chooses lam by the
            same rule. A bare model is tuned for Recall@20.
        recipe: "ours" or "test", or "paper" to search the grids of the paper.
        settings: Options that are fixed, as in a config file, such as `{"alpha": 2, "model": {"dim": 64}}`.
        trials: Number of trials.
        timeout: No trial begins after so many seconds.
        study: A file that keeps all trials. A later call with the same file continues until it holds `trials` trials.
        estimator: Name of the estimator: "factor" or "mlp".
        seed: Seed of the search and of the fits.
        device: Where to compute: "cpu", "cuda", or "auto" for the GPU if there is one.
        max_epochs: Largest number of epochs of each training.
        engine: What runs the trials: this "process" one by one, or the workers of "ray" side by side, on the CPU.
            The trial of a worker that is lost is run again. With one worker, the trials are those of this process.
        workers: Workers of Ray, which share its cores out. By default one for each core.

    Returns:
        The best options, all trials, and a recommender with the best options that is not fitted yet.
    """
    need("optuna", "tuning")
    require_alone("tuning")
    require(isinstance(trials, int) and trials >= 1, f"trials is {trials!r}", "give a number of at least 1")
    require(only in (None, "model", "uncertainty"), f"only is {only!r}", "give 'model' or 'uncertainty'")
    require(timeout is None or timeout > 0, f"timeout is {timeout}", "give a number of seconds above 0")
    check_engine(engine, workers, device or "auto")

    fixed = dict(settings or {})
    require("lam" not in fixed, "lam is chosen in every trial", "leave it out")
    if uncertainty:
        fixed["select"] = select or fixed.get("select", "overall")
    else:
        require((only or select) is None, "select and only are for a model with uncertainty", "leave them out")
    where = "cpu" if engine == "ray" else device
    common: dict[str, Any] = {"seed": seed, "device": where, "max_epochs": max_epochs}
    common |= {"estimator": estimator} if uncertainty else {}
    default = build(model, fixed, with_uncertainty=uncertainty, recipe=recipe, **common)
    ranges = {name: where for name, (where, _) in _searched(default, only).items() if name not in _flat(fixed)}
    require(
        bool(ranges),
        f"no option of {model} is left to search",
        "fix fewer of them, search all parts, or use recipe ours",
    )

    split = as_split(data).carve(default.valid, default.seed)
    nothing = split.train.take(np.zeros(len(split.train), bool))
    search = Search(replace(split, test=nothing), model, default, ranges, _flat(fixed), common)
    with silent():
        opened = open_study(None if study is None else Path(study), search.about(), search.prune)
        with at_work(opened, None if study is None else Path(study)), started(engine, workers) as runs:
            run(opened, search, trials, timeout, runs)
        with sound(None if study is None else Path(study)):
            return _tuned(opened, search)


@dataclass(frozen=True)
class Search:
    """What is searched, and how options are measured. Options have their full names, such as model.dim."""

    part: Split  # train and valid, with an empty test part
    model: str  # its name
    default: Recommender  # with the default options and the fixed ones
    ranges: Ranges  # of the searched options
    fixed: dict[str, Any]  # options that the caller set
    common: dict[str, Any]  # arguments of `build` that all trials share
    cache: ModelCache = field(default_factory=lambda: ModelCache(everything=True))  # for trials that share their model

    @property
    def metric(self) -> str:
        """The metric to maximise."""
        balanced = isinstance(self.default, AUR) and self.default.select == "balanced"
        return "tail_recall@50" if balanced else "recall@20"

    @property
    def defaults(self) -> dict[str, Any]:
        """The default values of the searched options."""
        return {name: value for name, (_, value) in _searched(self.default, None).items() if name in self.ranges}

    def about(self) -> dict[str, Any]:
        """What trials must have in common to be comparable, as a dict for JSON."""
        about = {
            "dataset": self.part.name,
            "pairs": [self.part.train.fingerprint, self.part.valid.fingerprint],
            "model": self.model,
            "uncertainty": isinstance(self.default, AUR),
            "recipe": self.default.recipe,
            "metric": self.metric,
            "options": {n: v for n, v in (self.common | self.fixed).items() if v is not None and n != "device"},
            "ranges": {name: str(where) for name, where in self.ranges.items()},
        }
        made: dict[str, Any] = json.loads(json.dumps(about, default=str))
        return made

    def make(self, options: Mapping[str, Any]) -> Recommender:
        """A recommender with `options` and the fixed ones."""
        settings, with_uncertainty = _nested({**self.fixed, **options}), isinstance(self.default, AUR)
        return build(self.model, settings, with_uncertainty=with_uncertainty, recipe=self.default.recipe, **self.common)

    def measure(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Fit on train and measure on valid. Returns the figures, the chosen epochs, and lam and setting of an AUR."""
        without_refit = {"refit": False} if self.default.conventions.refits else {}
        made = self.make({**options, **without_refit})
        if isinstance(made, AUR):
            return self._measure_blend(made)
        assert isinstance(made, Model)
        fitted, held = self.part.train, self.part.valid
        tail = torch.from_numpy(DEFAULT_TAIL.mask(self.part.everything.popularity))
        held_out = made.hold_out(fitted, held, tail=tail)
        made.fit_pairs(fitted, held_out)
        with torch.no_grad():
            measured = held_out.measure(lambda users: [made.score_block(users)])
        columns = measured.recall, measured.ndcg, measured.tail
        found = [float(column.nanmean().nan_to_num()) for column in columns]
        return {**dict(zip(FIGURES, found, strict=True)), "epochs": made.log and made.log.best_epoch}

    def _measure_blend(self, made: AUR) -> dict[str, Any]:
        """`measure`, for an AUR."""
        part = self.part
        if made.conventions.on_test:  # it chooses on the test part: give it the validation part as that
            part = replace(part, valid=part.test, test=part.valid)
        made.fit(part, cache=self.cache if self.same_model else None)
        assert made.choice is not None
        point = made.choice.chosen
        found = {"lam": point.lam, **dict(zip(FIGURES, (point.recall, point.ndcg, point.tail), strict=True))}
        raced: dict[str, Any] = {"residuals": made.setting.residuals, "unobserved": made.setting.unobserved}
        if isinstance(made.estimator, FactorEstimator):
            raced["estimator.init"] = made.estimator.init
        return {**found, "epochs": made.estimator.log and made.estimator.log.best_epoch, SETTING: raced}

    @property
    def same_model(self) -> bool:
        """Whether all trials of an AUR have the same model."""
        return not any(name.startswith("model.") for name in self.ranges)

    def watched(self, label: str) -> bool:
        """Whether trials are pruned by the training of this label. It is that of the estimator, if there is one.

        The checks of a linear blend are relative to the bare model, so they compare trials only if these share it.
        """
        default = self.default
        if isinstance(default, AUR):
            return label == LABEL and (self.same_model or default.blend == "sigma")
        return label == type(default).__name__

    @property
    def prune(self) -> float:
        """The share of trials to prune. It is lower for an AUR, where a check says less about the result."""
        return 0.25 if isinstance(self.default, AUR) else 0.5


def _searched(made: Recommender, only: Only | None) -> dict[str, tuple[Between | Among, Any]]:
    """The range and the value of each option that has a range, by the full name of the option."""
    parts: dict[str, Configurable] = {"model.": made}
    if isinstance(made, AUR):
        parts = {"model.": made.model} if only != "uncertainty" else {}
        parts |= {"": made, "estimator.": made.estimator} if only != "model" else {}
    of_paper = made.conventions.paper_options
    return {
        prefix + name: (where, getattr(part, name))
        for prefix, part in parts.items()
        for name, where in (part.paper_ranges if of_paper else part.ranges).items()
    }


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested options by their full names.

    >>> _flat({"alpha": 2, "model": {"dim": 64}})
    {'alpha': 2, 'model.dim': 64}
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= {f"{name}.{last}": v for last, v in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Options with full names as nested dicts: the inverse of `_flat`."""
    made: dict[str, Any] = {}
    for name, value in flat.items():
        table, _, last = name.rpartition(".")
        (made.setdefault(table, {}) if table else made)[last] = value
    return made


def _tuned(study: optuna.Study, search: Search) -> Tuned:
    """The result of a search, from the trials in its study."""
    complete = ranked(study)
    rest = in_state(study, "pruned", "failed", "stopped", "running")
    problems = [trial.user_attrs["problem"] for trial in rest if "problem" in trial.user_attrs]
    reason = problems[-1] if problems else "too little time"
    require(bool(complete), f"no trial came to its end ({reason})", "change the settings")
    best = complete[0]
    options = {**best.user_attrs.get(SETTING, {}), **search.fixed, **best.params}
    return Tuned(
        metric=search.metric,
        value=best.values[0],
        default=next((t.values[0] for t in complete if "defaults" in t.user_attrs), None),
        options=_nested(options),
        trials=[_row(trial, search) for trial in [*complete, *rest]],
        importance=importance(complete, search),
        best=search.make(options),
    )


def _row(trial: FrozenTrial, search: Search) -> dict[str, Any]:
    """One trial as a row: its number and state, whether it has the default options, its figures and its options."""
    figures = dict(trial.user_attrs)
    default = figures.pop("defaults", None) is not None
    options = {**(search.defaults if default else {}), **trial.params}
    return {"trial": trial.number, "state": state(trial), "default": default, **figures, "options": options}
