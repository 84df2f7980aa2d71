"""Bench: what studies share on one dataset, under one recipe and seed: fitted methods, their reports, the tail."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from aleator.aur import AUR
from aleator.data.simulate import World
from aleator.data.splits import Split
from aleator.data.tail import Tail
from aleator.evaluation.protocols import evaluate
from aleator.evaluation.report import Report
from aleator.models import Model
from aleator.recommender import Recipe, Recommender
from aleator.studies.methods import Method, make, options_of
from aleator.studies.remembering import Memory

KEPT = ("MF", "LGCN", "VAE")
TESTED = tuple(
    (protocol, f"{metric}@{cut}")
    for protocol in ("overall", "tail_absolute", "tail_relative")
    for metric in ("recall", "ndcg")
    for cut in (20, 50)
)


@dataclass(eq=False)
class Bench:
    """Fits each method once: the studies of one run ask for the same ones. `quick` trains for a look, not for figures."""

    dataset: str
    split: Split
    recipe: Recipe = "ours"
    seed: int = 0
    device: str = "auto"
    quick: bool = False
    world: World | None = None  # where the dataset is a simulated one

    seconds: dict[str, float] = field(default_factory=dict)  # of each fit, with those that a model had taken before
    _fitted: dict[str, Recommender] = field(default_factory=dict)
    _reports: dict[str, Report] = field(default_factory=dict)
    _others: dict[str, Bench] = field(default_factory=dict)
    _memory: Memory = field(default_factory=Memory)

    def fit(self, method: Method) -> Recommender:
        """The method, fitted on the split. Those of `KEPT` are asked for by many studies; others are not held."""
        if method.key in self._fitted:
            return self._fitted[method.key]
        about: dict[str, Any] = {"recipe": self.recipe, "seed": self.seed, "device": self.device, "quick": self.quick}
        split = self.split
        if "implicit" in method.name and self.recipe == "ours" and not len(split.valid):
            split = split.carve(0.1, self.seed)  # a frozen model must not know what lam is chosen on
        start, saved = time.perf_counter(), self._memory.saved
        system = make(method, split, self.dataset, **about)
        model = system.model if isinstance(system, AUR) else system
        if isinstance(model, Model) and method.variant != "-J":  # joint training needs what only training leaves
            self._memory.watch(model)
        system.fit(split)
        self.seconds[method.key] = time.perf_counter() - start + self._memory.saved - saved
        if method.backbone in KEPT and not method.settings:
            self._fitted[method.key] = system
        return system

    def report(self, method: Method, system: Recommender | None = None) -> Report:
        """Its evaluation under the recipe's tail and policy; per-user values are small and kept."""
        if method.key not in self._reports:
            self._reports[method.key] = evaluate(system or self.fit(method), self.split, recipe=self.recipe)
        return self._reports[method.key]

    def on(self, name: str, split: Callable[[], Split]) -> Bench:
        """The bench of the same data split otherwise, made once for each name."""
        if name not in self._others:
            about = {"recipe": self.recipe, "seed": self.seed, "device": self.device, "quick": self.quick}
            self._others[name] = Bench(self.dataset, split(), **about)  # type: ignore[arg-type]
        return self._others[name]

    @property
    def tail(self) -> Tail:
        """The tail under the recipe."""
        paper = self.split.paper_tail if self.recipe == "paper" else None
        return paper if paper is not None else Tail.mass(0.5)

    def tuned(self, method: Method) -> dict[str, Any]:
        """The options that were found for it on this dataset, if any."""
        return options_of(method, self.dataset, self.recipe)

    @cached_property
    def data(self) -> str:
        """Tells the pairs that are fitted and tested on from any others."""
        return f"{self.split.everything.fingerprint[:12]}-{self.split.test.fingerprint[:12]}"

    def conventions(self) -> dict[str, Any]:
        """What a record says of the data and the recipe."""
        return {
            "data": self.data,
            "recipe": self.recipe,
            "tail": self.tail.describe(self.split.everything.popularity),
            "empty": "zero" if self.recipe == "paper" else "skip",
        }


def accuracy(
    bench: Bench, method: Method, against: Method | None = None, system: Recommender | None = None
) -> dict[str, Any]:
    """Metrics of a method (or of `system`, if it is fitted), what was chosen, paired tests over users against another."""
    system = system or bench.fit(method)
    report = bench.report(method, system)
    means = report.to_dict()
    row: dict[str, Any] = {
        "metrics": {protocol: means[protocol] for protocol in report.per_user},
        "lists": report.lists,
        "chosen_on": "test" if bench.recipe == "paper" else "validation",
        "chosen": chosen(system),
        "config": system.options(),
        "notes": system.notes,
    }
    if against is not None and against.key != method.key:
        tests = report.compare(bench.report(against)).to_dict()
        row["against"] = {
            "method": against.name,
            "tests": [test for test in tests if (test["protocol"], test["metric"]) in TESTED],
        }
    return row


def against_bare(bench: Bench, method: Method) -> dict[str, Any]:
    """`accuracy`, with tests of an AUR against its bare model."""
    return accuracy(bench, method, method.bare if method.uncertain else None)


def chosen(system: Recommender) -> dict[str, Any]:
    """What validation (or, under recipe paper, the test part) chose."""
    if not isinstance(system, AUR):
        log = getattr(system, "log", None)
        return {} if log is None else {"epochs": log.best_epoch}
    logs = {"model_epochs": system.model.log, "epochs": system.estimator.log, "joint_epochs": system.log}
    return {"lam": system.lam_used} | {name: log.best_epoch for name, log in logs.items() if log is not None}
