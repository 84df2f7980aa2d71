"""Search for good options: Optuna over the ranges that stand beside each class, chosen on validation alone.

A trial fits on the training pairs less a validation part and is scored on that part, whatever the recipe; the test part
does not reach it. The first trial has the default options, so that what is found is no worse than these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from aleator.aur import AUR
from aleator.aur.build import build
from aleator.aur.choice import Select
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.data.tail import DEFAULT_TAIL
from aleator.errors import need, require
from aleator.models.base import Model
from aleator.models.cache import ModelCache
from aleator.options import Among, Between, Configurable, Ranges
from aleator.recipe import DEFAULT_RECIPE, RecipeName
from aleator.recommender import Recommender, as_split
from aleator.tuning.trials import importance, in_state, open_study, ranked, run, silent, state
from aleator.uncertainty.products import LABEL

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

Only = Literal["model", "uncertainty"]


@dataclass(frozen=True)
class Tuned:
    """What a search found."""

    metric: str  # what was maximised, on validation
    value: float  # its best
    default: float | None  # what the default options reach; None where they failed
    options: dict[str, Any]  # the best, and those that were fixed, as a config file has them
    trials: list[dict[str, Any]]  # one row each, the best first and then those that did not come to an end
    importance: dict[str, float]  # share of each searched option in the variance; empty for too few trials
    best: Recommender = field(repr=False)  # with the best options, not fitted yet

    def to_toml(self, comment: str = "") -> str:
        """The best options as a config file."""
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
) -> Tuned:
    """Search the options of a model, and of the uncertainty on top of it, for the best Recall on validation.

    Maximised is the Recall@20 of the bare model; with `uncertainty`, what `select` says, at the best lam of each trial
    ("overall", which is Recall@20, if not told). Options in `settings` (as in a config file) are fixed; `only` searches
    one part and leaves the other as it is.

    `study` is a file that keeps all trials: calling again goes on until it holds `trials` of them. No trial begins after
    `timeout` seconds. Trials that fall behind others are pruned; those that fail are counted and passed over.
    """
    need("optuna", "tuning")
    require(isinstance(trials, int) and trials >= 1, f"trials is {trials!r}", "give a number of at least 1")
    require(only in (None, "model", "uncertainty"), f"only is {only!r}", "give 'model' or 'uncertainty'")
    require(timeout is None or timeout > 0, f"timeout is {timeout}", "give a number of seconds above 0")
    fixed = dict(settings or {})
    require("lam" not in fixed, "lam is chosen in every trial", "leave it out")
    if uncertainty:
        fixed["select"] = select or fixed.get("select", "overall")
    else:
        require((only or select) is None, "select and only are for a model with uncertainty", "leave them out")
    common: dict[str, Any] = {"seed": seed, "device": device, "max_epochs": max_epochs}
    common |= {"estimator": estimator} if uncertainty else {}
    default = build(model, fixed, with_uncertainty=uncertainty, recipe=recipe, **common)
    ranges = {n: where for n, (where, _) in _searched(default, only).items() if n not in _flat(fixed)}
    require(
        bool(ranges),
        f"no option of {model} is left to search",
        "fix fewer of them, search all parts, or use recipe ours",
    )
    part = as_split(data).carve(default.valid, default.seed)
    nothing = part.train.take(np.zeros(len(part.train), bool))
    search = Search(replace(part, test=nothing), model, default, ranges, _flat(fixed), common)
    with silent():
        opened = open_study(None if study is None else Path(study), search.about(), search.prune)
        run(opened, search, trials, timeout)
        return _tuned(opened, search)


@dataclass(frozen=True)
class Search:
    """What is searched, and how well options do. Options go by their full names, such as model.dim."""

    part: Split  # train and valid, and nothing to test on
    model: str
    default: Recommender
    ranges: Ranges
    fixed: dict[str, Any]
    common: dict[str, Any]
    cache: ModelCache = field(default_factory=lambda: ModelCache(everything=True))  # for trials that share their model

    @property
    def metric(self) -> str:
        balanced = isinstance(self.default, AUR) and self.default.select == "balanced"
        return "tail_recall@50" if balanced else "recall@20"

    @property
    def defaults(self) -> dict[str, Any]:
        """The default values of what is searched."""
        return {n: value for n, (_, value) in _searched(self.default, None).items() if n in self.ranges}

    def about(self) -> dict[str, Any]:
        """What trials must have in common to be compared, as JSON."""
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
        """A recommender with `options` beside those that are fixed."""
        settings, with_uncertainty = _nested({**self.fixed, **options}), isinstance(self.default, AUR)
        return build(self.model, settings, with_uncertainty=with_uncertainty, recipe=self.default.recipe, **self.common)

    def measure(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Fit on train and look at valid: the Recalls, lam, and the epochs that were chosen."""
        made = self.make({**options, "refit": False})
        if isinstance(made, AUR):
            return self._measure_blend(made)
        assert isinstance(made, Model)
        fitted, held = self.part.train, self.part.valid
        tail = torch.from_numpy(DEFAULT_TAIL.mask(self.part.everything.popularity))
        held_out = made.hold_out(fitted, held, tail=tail)
        made.fit_pairs(fitted, held_out)
        with torch.no_grad():
            overall, of_tail = held_out.recall(lambda users: [made.score_block(users)])
        found = {"recall@20": float(overall.mean()), "tail_recall@50": float(of_tail.nanmean().nan_to_num())}
        return {**found, "epochs": made.log and made.log.best_epoch}

    def _measure_blend(self, made: AUR) -> dict[str, Any]:
        part = self.part
        if made.conventions.on_test:  # it chooses on what it takes for the test part
            part = replace(part, valid=part.test, test=part.valid)
        same_model = not any(name.startswith("model.") for name in self.ranges)
        made.fit(part, cache=self.cache if same_model else None)
        (row,) = (row for row in made.curve if row["lam"] == made.lam_used)
        return {**row, "epochs": made.estimator.log and made.estimator.log.best_epoch}

    def watched(self, label: str) -> bool:
        """Whether a training of this name is the one that trials are pruned by: the estimator's, where there is one."""
        default = self.default
        return label == (LABEL if isinstance(default, AUR) else type(default).__name__)

    @property
    def prune(self) -> float:
        """The share to prune: fewer where a check, by the uncertainty alone, says less about the blend."""
        return 0.25 if isinstance(self.default, AUR) else 0.5


def _searched(made: Recommender, only: Only | None) -> dict[str, tuple[Between | Among, Any]]:
    """The range and the value of each option that has a range, by full name."""
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
    """Options by full name, from tables.

    >>> _flat({"alpha": 2, "model": {"dim": 64}})
    {'alpha': 2, 'model.dim': 64}
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= {f"{name}.{last}": v for last, v in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `_flat`."""
    made: dict[str, Any] = {}
    for name, value in flat.items():
        table, _, last = name.rpartition(".")
        (made.setdefault(table, {}) if table else made)[last] = value
    return made


def _tuned(study: optuna.Study, search: Search) -> Tuned:
    complete, rest = ranked(study), in_state(study, "pruned", "failed", "stopped", "running")
    problems = [t.user_attrs["problem"] for t in rest if "problem" in t.user_attrs]
    require(
        bool(complete), f"no trial came to its end ({(problems or ['too little time'])[-1]})", "change the settings"
    )
    best = complete[0]
    return Tuned(
        metric=search.metric,
        value=best.values[0],
        default=next((t.values[0] for t in complete if "defaults" in t.user_attrs), None),
        options=_nested({**search.fixed, **best.params}),
        trials=[_row(trial, search) for trial in [*complete, *rest]],
        importance=importance(complete, search),
        best=search.make(best.params),
    )


def _row(trial: FrozenTrial, search: Search) -> dict[str, Any]:
    figures = dict(trial.user_attrs)
    default = figures.pop("defaults", None) is not None
    options = {**(search.defaults if default else {}), **trial.params}
    return {"trial": trial.number, "state": state(trial), "default": default, **figures, "options": options}
