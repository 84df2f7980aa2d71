"""Workbench: what studies share on one dataset under one recipe and seed: fitted methods, their reports, the tail."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from aleator.aur import AUR
from aleator.data.simulate import World
from aleator.data.splits import Split
from aleator.data.tail import Tail
from aleator.evaluation.protocols import Scorer, evaluate
from aleator.evaluation.report import Report
from aleator.models.cache import ModelCache
from aleator.recipe import RECIPES, Recipe
from aleator.recommender import Recommender
from aleator.studies.methods import Method, make, options_of
from aleator.studies.records import Against, Chosen, Conventions, Measured, PairedTest, versions

HELD = ("MF", "LGCN", "VAE")  # the backbones that many studies ask for: methods on them stay fitted
TESTED = tuple(
    (protocol, f"{metric}@{cut}")
    for protocol in ("overall", "tail_absolute", "tail_relative")
    for metric in ("recall", "ndcg")
    for cut in (20, 50)
)
_kept: ContextVar[Path | None] = ContextVar("kept", default=None)  # where fits are kept while they run


@contextmanager
def fits_kept_in(folder: Path) -> Iterator[None]:
    """Inside, each fit of a workbench is kept in this folder while it runs. One that was killed goes on from there."""
    before = _kept.set(folder)
    try:
        yield
    finally:
        _kept.reset(before)
        with suppress(OSError):  # it has unfinished fits
            folder.rmdir()


@dataclass(eq=False)
class Workbench:
    """Fits each method once for all studies of a run. `quick` trains too little for real figures."""

    dataset: str
    split: Split
    recipe: Recipe = RECIPES["ours"]
    seed: int = 0
    device: str = "auto"
    quick: bool = False
    world: World | None = None  # for a simulated dataset
    plain: bool = False  # whether methods have default options, and not those found for the dataset

    seconds: dict[str, float] = field(default_factory=dict)  # of each fit, with what the cache saved
    cache: ModelCache = field(default_factory=ModelCache)
    _fitted: dict[str, Recommender] = field(default_factory=dict)
    _reports: dict[str, Report] = field(default_factory=dict)
    _others: dict[str, Workbench] = field(default_factory=dict)

    def fit(self, method: Method) -> Recommender:
        """The method, fitted on the split. It is kept for the next study if its backbone is in `HELD`."""
        if method.key in self._fitted:
            return self._fitted[method.key]
        if self._as_untuned(method):
            system = self.untuned.fit(method)
            self.seconds[method.key] = self.untuned.seconds[method.key]
            return system
        start, saved = time.perf_counter(), self.cache.saved
        split = self.split_for(method)
        system = self.make(method, split).fit(split, cache=self.cache, checkpoint=self._checkpoint(method))
        self.seconds[method.key] = time.perf_counter() - start + self.cache.saved - saved
        if method.backbone in HELD and not method.settings:
            self._fitted[method.key] = system
        return system

    def _checkpoint(self, method: Method) -> Path | None:
        """The folder that keeps a fit, if fits are kept. What the bits of a fit depend on is in its name."""
        folder = _kept.get()
        if folder is None:
            return None
        about = [method.key, self.plain, self.conventions(), self.device, versions(), torch.get_num_threads()]
        return folder / hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]

    def make(self, method: Method, split: Split | None = None) -> Recommender:
        """The method, not yet fitted."""
        about: dict[str, Any] = {"seed": self.seed, "device": self.device, "quick": self.quick}
        return make(method, split or self.split, "" if self.plain else self.dataset, recipe=self.recipe, **about)

    def split_for(self, method: Method) -> Split:
        """The split that a method is fitted on.

        A grafted model is not refitted, so it must not know the pairs that lam is chosen on: they are carved out.
        """
        carves = method.base.grafted and not self.recipe.on_test
        return self.split.carve(0.1, self.seed) if carves else self.split

    def report(self, method: Method, system: Recommender | None = None) -> Report:
        """Its evaluation under the recipe's tail and policy."""
        return self.evaluated(method, lambda: system or self.fit(method))

    def evaluated(self, method: Method, made: Callable[[], Scorer]) -> Report:
        """The evaluation of what `made` gives, kept under the name of the method. The per-user values are small."""
        if self._as_untuned(method):
            return self.untuned.evaluated(method, made)
        if method.key not in self._reports:
            self._reports[method.key] = evaluate(made(), self.split, recipe=self.recipe.name)
        return self._reports[method.key]

    def _as_untuned(self, method: Method) -> bool:
        """Whether the method is the same with default options. Studies with and without them then share its fit."""
        return not self.plain and not self.tuned(method)

    def on(self, name: str, split: Callable[[], Split]) -> Workbench:
        """The workbench of the same data under another split, made once for each name."""
        if name not in self._others:
            self._others[name] = self._like_this(split())
        return self._others[name]

    @property
    def untuned(self) -> Workbench:
        """The workbench of the same data where methods have default options."""
        if self.plain:
            return self
        if "" not in self._others:
            self._others[""] = self._like_this(self.split, plain=True, world=self.world, cache=self.cache)
        return self._others[""]

    def _like_this(self, split: Split, **other: Any) -> Workbench:
        same = {name: getattr(self, name) for name in ("recipe", "seed", "device", "quick", "plain")}
        return Workbench(self.dataset, split, **same | other)

    @property
    def tail(self) -> Tail:
        """The tail under the recipe."""
        return self.recipe.tail(self.split)

    def tuned(self, method: Method) -> dict[str, Any]:
        """The options that were found for the method on this dataset, if any."""
        return {} if self.plain else options_of(method, self.dataset, self.recipe)

    @cached_property
    def data(self) -> str:
        """Tells the pairs that are fitted and tested on from any others."""
        return f"{self.split.everything.fingerprint[:12]}-{self.split.test.fingerprint[:12]}"

    def conventions(self) -> Conventions:
        """What a record says of the data and the recipe."""
        return {
            "data": self.data,
            "recipe": self.recipe.name,
            "tail": self.tail.describe(self.split.everything.popularity),
            "empty": self.recipe.empty,
        }


def accuracy(
    bench: Workbench, method: Method, against: Method | None = None, system: Recommender | None = None
) -> Measured:
    """Metrics of a method, what was chosen, and paired tests over users against another method.

    `system` is the method if it is fitted already.
    """
    system = system or bench.fit(method)
    report = bench.report(method, system)
    row = measured(bench, report, system)
    if against is not None and against.key != method.key:
        row["against"] = tests_against(report, bench.report(against), against.name)
    return row


def measured(bench: Workbench, report: Report, system: Recommender) -> Measured:
    """What a record says of an evaluation, and of the recommender behind it."""
    means = report.to_dict()
    return {
        "metrics": {protocol: means[protocol] for protocol in report.per_user},
        "lists": report.lists,
        "chosen_on": bench.recipe.chosen_on,
        "chosen": chosen(system),
        "config": system.options(),
        "notes": system.notes,
    }


def tests_against(report: Report, other: Report, name: str) -> Against:
    """The paired tests of a report against that of the method `name`."""
    tests: list[PairedTest] = [
        {
            "protocol": row.protocol,
            "metric": row.metric,
            "mean": row.mean,
            "baseline": row.baseline,
            "change": row.change,
            "low": row.low,
            "high": row.high,
            "p": row.p,
            "users": row.users,
        }
        for row in report.compare(other).rows
        if (row.protocol, row.metric) in TESTED
    ]
    return {"method": name, "tests": tests}


def against_bare(bench: Workbench, method: Method) -> Measured:
    """`accuracy`, with tests of an AUR against its bare model."""
    return accuracy(bench, method, method.bare if method.uncertain else None)


def chosen(system: Recommender) -> Chosen:
    """What was chosen on validation, or on the test part under a recipe that does so."""
    if not isinstance(system, AUR):
        return {} if system.log is None else {"epochs": system.log.best_epoch}
    logs = {"model_epochs": system.model.log, "epochs": system.estimator.log, "joint_epochs": system.log}
    knobs = {"lam": system.lam_used, "discount": system.discount_used, "prior": system.prior_used}
    return knobs | {name: log.best_epoch for name, log in logs.items() if log is not None}
