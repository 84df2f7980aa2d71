"""The search for options: chosen on validation, never worse than the defaults, stopped and continued at will."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aleator as al
from aleator import errors
from aleator.aur.build import build
from aleator.models import MODELS
from aleator.options import Among, Between, Configurable
from aleator.training import loop as trainer
from aleator.tuning import search as tuning
from aleator.tuning.search import Search, tune
from aleator.uncertainty import ESTIMATORS

QUICK = {"model": {"iterations": 2}}
SMALL = {"model": {"dim": 4, "iterations": 2}, "estimator": {"dim": 8, "max_epochs": 3}}
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
Fake = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fake], list[dict[str, Any]]]:
    """Trials whose result is a function of their options; returns the options of each, as they come."""

    def set_up(fake: Fake) -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = []

        def measure(_: Search, options: dict[str, Any]) -> dict[str, Any]:
            seen.append(dict(options))
            return fake(options)

        monkeypatch.setattr(Search, "measure", measure)
        return seen

    return set_up


def found(value: float) -> dict[str, Any]:
    return {"recall@20": value, "tail_recall@50": 0.5, "epochs": None}


def results(tuned: tuning.Tuned) -> list[Any]:
    """What came out, in the order of the trials and without what chance or the clock decides."""
    rows = sorted(tuned.trials, key=lambda row: row["trial"])
    return [(r["state"], r["options"], r.get("recall@20")) for r in rows if r["state"] in ("complete", "pruned")]


@pytest.mark.parametrize("kind", [*MODELS.classes.values(), *ESTIMATORS.classes.values(), al.AUR])
def test_ranges_hold_options_that_the_class_accepts(kind: type[Configurable]) -> None:
    options = {f.name for f in fields(kind) if f.init}  # type: ignore[arg-type]
    given = (al.MF(),) if kind is al.AUR else ()
    for recipe, ranges in (("ours", kind.ranges), ("paper", kind.paper_ranges)):  # type: ignore[attr-defined]
        for name, where in ranges.items():
            assert name in options
            if isinstance(where, Among):
                assert len(where.values) == len(set(where.values)) > 1
                values = list(where.values)
            else:
                assert isinstance(where, Between)
                assert where.low < where.high
                values = [where.low, where.high]
                if where.whole:
                    assert all(float(v).is_integer() for v in values)
                    values = [int(v) for v in values]
            for value in values:
                assert type(value) in (bool, int, float, str)  # what a study and a config file can keep
                made = kind(*given, **{name: value}, **({} if "recipe" not in options else {"recipe": recipe}))
                assert getattr(made, name) == value
    if getattr(kind, "personalises", True):
        assert kind.ranges  # type: ignore[attr-defined]


def test_a_trial_is_scored_on_the_validation_part_by_a_model_of_the_rest(split: al.Split) -> None:
    tuned = tune(split, "mf", uncertainty=False, settings=QUICK, trials=3)
    for row in tuned.trials:
        options = {name.removeprefix("model."): value for name, value in row["options"].items()}
        model = al.MF(**options, iterations=2).fit(split.train)
        pairs = zip(split.valid.users.decode(split.valid.user), split.valid.items.decode(split.valid.item), strict=True)
        wanted: dict[Any, set[Any]] = {}
        for user, item in pairs:
            wanted.setdefault(user, set()).add(item)
        listed = model.recommend(list(wanted), k=20, untrained=True).partition_by("user_id", as_dict=True)
        recalls = [len(items & set(listed[(user,)]["item_id"])) / len(items) for user, items in wanted.items()]
        assert row["recall@20"] == pytest.approx(np.mean(recalls), abs=1e-6)
    assert tuned.value == max(row["recall@20"] for row in tuned.trials)


def test_with_uncertainty_the_value_is_that_of_the_chosen_lam(split: al.Split) -> None:
    for select, metric in (("overall", "recall@20"), ("balanced", "tail_recall@50")):
        tuned = tune(split, select=select, settings=SMALL, only="uncertainty", trials=2)
        assert tuned.metric == metric
        for row in tuned.trials:
            alone = build(
                "mf", tuning._nested(tuning._flat(SMALL) | row["options"]), with_uncertainty=True, recipe="ours"
            )
            aur = al.AUR(**{**vars_of(alone), "select": select, "refit": False}).fit(split)
            (want,) = (r for r in aur.curve if r["lam"] == aur.lam_used)
            assert {name: row[name] for name in want} == want
        assert tuned.value == max(row[metric] for row in tuned.trials)


def vars_of(aur: Any) -> dict[str, Any]:
    return {"model": aur.model, "estimator": aur.estimator, "alpha": aur.alpha, "gamma": aur.gamma}


@pytest.mark.parametrize("recipe", ["ours", "paper"])
@pytest.mark.parametrize("uncertainty", [False, True])
def test_the_test_part_does_not_matter(split: al.Split, uncertainty: bool, recipe: Any) -> None:
    carved = al.Split(split.everything, split.valid.take(np.zeros(len(split.valid), bool)), split.test)
    other = replace(carved, test=carved.test.take(np.arange(len(carved.test)) % 3 == 0))
    settings: dict[str, Any] = {"model": {"dim": 4, "solver": "als"}}
    settings |= {"estimator": {"dim": 8, "max_epochs": 2}} if uncertainty else {}
    a, b = (tune(s, uncertainty=uncertainty, recipe=recipe, settings=settings, trials=3) for s in (carved, other))
    assert results(a) == results(b)
    assert a.best.recipe == recipe


def test_recipe_paper_searches_the_grid_of_the_paper_from_its_options(split: al.Split, pretend: Any) -> None:
    seen = pretend(lambda options: found(0.1))
    tune(split, recipe="paper", trials=15)
    assert seen[0] == {"model.mu": 0.1, "model.l2": 0.0, "alpha": 1.0, "gamma": 1e-3}
    assert {options["alpha"] for options in seen} <= {1.0, 2.0, 3.0, 4.0, 5.0}
    assert {options["gamma"] for options in seen} == {1e-3, 1e-2}


def test_the_defaults_come_first_so_that_nothing_worse_is_found(split: al.Split, pretend: Any) -> None:
    seen = pretend(lambda options: found(0.9 if len(seen) == 1 else 0.9 - 0.01 * len(seen)))
    tuned = tune(split, trials=5)
    default = al.AUR(al.MF())
    first = tuned.trials[0]
    assert (first["trial"], first["default"], tuned.value, tuned.default) == (0, True, 0.9, 0.9)
    assert first["options"]["model.dim"] == default.model.options()["dim"]
    assert first["options"]["estimator.lr"] == "auto"
    assert "estimator.lr" not in seen[0]  # it lies outside the range, and is left as it is
    assert "lr" not in tuned.options["estimator"]
    assert tuned.best.options()["estimator"]["options"]["lr"] == "auto"


def test_what_is_fixed_is_not_searched(split: al.Split, pretend: Any) -> None:
    seen = pretend(lambda options: found(len(seen)))
    tuned = tune(split, settings={"alpha": 3, "model": {"dim": 8}}, trials=3)
    assert not {"alpha", "model.dim"} & seen[-1].keys()
    assert {"gamma", "model.mu", "estimator.dim"} <= seen[-1].keys()
    assert (tuned.options["alpha"], tuned.options["model"]["dim"]) == (3, 8)
    assert tuned.options["select"] == "overall"
    assert (tuned.best.options()["alpha"], tuned.best.options()["model"]["options"]["dim"]) == (3, 8)
    tune(split, only="model", trials=2)
    assert all(name.startswith("model.") for name in seen[-1])
    tune(split, only="uncertainty", trials=2)
    assert not any(name.startswith("model.") for name in seen[-1])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"trials": 0}, "trials is 0"),
        ({"timeout": -1.0}, "timeout"),
        ({"settings": {"lam": 0.5}}, "lam is chosen"),
        ({"settings": {"alhpa": 0.5}}, "'alpha'"),
        ({"uncertainty": False, "only": "model"}, "only"),
        ({"model": "mff"}, "'mf'"),
        ({"only": "model", "settings": {"model": {"dim": 8, "mu": 0.1, "l2": 0.1}}}, "no option of mf is left"),
    ],
)
def test_mistakes_are_told_before_any_trial(split: al.Split, pretend: Any, wrong: Any, words: str) -> None:
    seen = pretend(lambda options: found(0.1))
    with pytest.raises(al.AleatorError, match=words):
        tune(split, **wrong)
    assert not seen


def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(split: al.Split, pretend: Any, tmp_path: Path) -> None:
    def stop_at(when: int) -> Fake:
        def fake(options: dict[str, Any]) -> dict[str, Any]:
            if len(seen) == when:
                raise KeyboardInterrupt
            return found(1 / (1 + abs(np.log(options["model.l2"] / 0.01)) + options["model.mu"]))

        return fake

    seen = pretend(stop_at(-1))
    through = tune(split, uncertainty=False, trials=12)
    study = tmp_path / "odd name? 100%.db"
    for when in (1, 11):  # in the defaults, and in the search proper
        seen = pretend(stop_at(when))
        with pytest.raises(KeyboardInterrupt):
            tune(split, uncertainty=False, trials=12, study=study)
    seen = pretend(stop_at(-1))
    continued = tune(split, uncertainty=False, trials=12, study=study)
    assert len(seen) == 2
    assert results(continued) == results(through)
    assert continued.options == through.options
    assert sum(row["state"] == "stopped" for row in continued.trials) == 2
    assert continued.default == through.default is not None
    seen = pretend(stop_at(-1))
    again = tune(split, uncertainty=False, trials=12, study=study)
    assert (again.options, seen) == (continued.options, [])  # the trials of the file count


def test_a_study_of_other_settings_is_refused(split: al.Split, pretend: Any, tmp_path: Path) -> None:
    seen = pretend(lambda options: found(0.1))
    study = tmp_path / "a.db"
    tune(split, trials=1, study=study)
    other = replace(split, train=split.train.take(np.arange(len(split.train)) > 3))
    for data, change, words in [
        (other, {}, "pairs"),
        (split, {"uncertainty": False}, "uncertainty"),
        (split, {"recipe": "paper"}, "recipe"),
        (split, {"select": "balanced"}, "metric"),
        (split, {"settings": {"model": {"dim": 8}}}, "model.dim"),
        (split, {"only": "model"}, "ranges"),
        (split, {"seed": 1}, "options"),
        (split, {"max_epochs": 3}, "max_epochs"),
    ]:
        with pytest.raises(al.AleatorError, match=f"study of other settings.*{words}"):
            tune(data, trials=2, study=study, **change)  # type: ignore[arg-type]
    assert len(seen) == 1
    tune(split, trials=2, study=study, device="cpu")  # where it runs is no matter


def test_a_file_that_is_no_study_is_left_alone(split: al.Split, tmp_path: Path) -> None:
    (tmp_path / "mine.db").write_text("mine")
    with pytest.raises(al.AleatorError, match="not a study"):
        tune(split, study=tmp_path / "mine.db")
    assert (tmp_path / "mine.db").read_text() == "mine"
    with pytest.raises(al.AleatorError, match="cannot be opened"):
        tune(split, study=tmp_path / "nowhere" / "a.db")


def test_trials_that_fail_are_counted_and_passed_over(split: al.Split, pretend: Any) -> None:
    def fake(options: dict[str, Any]) -> dict[str, Any]:
        if len(seen) % every == 0:
            raise al.AleatorError("the loss is nan", "try a smaller one")
        return found(0.1)

    seen, every = pretend(fake), 2
    tuned = tune(split, uncertainty=False, trials=6)
    assert [row["state"] for row in tuned.trials] == ["complete"] * 3 + ["failed"] * 3
    assert "the loss is nan" in tuned.trials[-1]["problem"]
    every = 1
    with pytest.raises(al.AleatorError, match=r"no trial came to its end .*the loss is nan"):
        tune(split, uncertainty=False, trials=3)


def test_a_mistake_of_ours_is_not_hidden(split: al.Split, pretend: Any) -> None:
    pretend(lambda options: {}["no such figure"])
    with pytest.raises(KeyError):
        tune(split, trials=3)


@pytest.mark.parametrize(("uncertainty", "label"), [(False, "MF"), (True, "uncertainty estimator")])
def test_trials_that_fall_behind_are_pruned(split: al.Split, pretend: Any, uncertainty: bool, label: str) -> None:
    """By the checks of the stage that is searched; the other stages' do not count."""

    def fake(options: dict[str, Any]) -> dict[str, Any]:
        value = 0.5 - 0.01 * len(seen)
        for epoch in range(1, 21):
            watcher = trainer._watcher.get()
            assert watcher is not None
            watcher("something else", epoch, 0.001 * len(seen))
            watcher(label, epoch, value)
            reached.append(epoch)
        return found(value)

    reached: list[int] = []
    seen = pretend(fake)
    tuned = tune(split, uncertainty=uncertainty, trials=7)
    states = [row["state"] for row in sorted(tuned.trials, key=lambda row: row["trial"])]
    assert states == ["complete"] * 5 + ["pruned"] * 2
    assert reached.count(20) == 5
    assert reached[-1] == 9  # not before the warm-up is over


def test_real_trainings_are_watched(split: al.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = []
    monkeypatch.setattr(Search, "watched", lambda _, label: labels.append(label))
    tune(split, settings={"model": {"solver": "adam", "max_epochs": 2}, "estimator": SMALL["estimator"]}, trials=1)
    assert list(dict.fromkeys(labels)) == ["MF", "uncertainty estimator"]


def test_a_model_that_is_the_same_in_all_trials_is_fitted_once(
    split: al.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = []
    learn = al.MF.learn
    monkeypatch.setattr(al.MF, "learn", lambda self, *args: (fitted.append(1), learn(self, *args)))
    tune(split, only="uncertainty", settings=SMALL, trials=3)
    assert len(fitted) == 1
    tune(split, settings={"estimator": SMALL["estimator"]}, trials=2)
    assert len(fitted) == 3


@pytest.mark.parametrize("matters", ["model.mu", "model.dim"])
def test_importance_finds_the_option_that_matters(split: al.Split, pretend: Any, matters: str) -> None:
    pretend(lambda options: found(-abs(np.log(options[matters] / 0.1))))
    tuned = tune(split, uncertainty=False, trials=20)
    assert next(iter(tuned.importance)) == matters
    assert sum(tuned.importance.values()) == pytest.approx(1)
    assert tuned.importance.keys() == {"model.dim", "model.mu", "model.l2"}
    assert tune(split, uncertainty=False, trials=9).importance == {}


def test_the_best_options_as_a_config_file(split: al.Split, pretend: Any) -> None:
    pretend(lambda options: found(options.get("estimator.lr", 0)))
    settings = {"tail": "mass:0.4", "estimator": {"self_exclude": False}, "model": {"solver": "als", "l2": 1e-7}}
    tuned = tune(split, settings=settings, trials=4)
    text = tuned.to_toml("first\nsecond")
    assert text.startswith("# first\n# second\n")
    assert tomllib.loads(text) == tuned.options
    assert tuned.options["estimator"].keys() > {"self_exclude", "lr"}
    made = build("mf", tomllib.loads(text), with_uncertainty=True, recipe="ours", seed=0)
    assert made.options() == tuned.best.options()


def test_no_trial_begins_after_the_timeout(split: al.Split, pretend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("aleator.tuning.trials.time.monotonic", lambda: next(clock))
    seen = pretend(lambda options: found(0.1))
    tune(split, uncertainty=False, timeout=35, trials=50)
    assert len(seen) == 3


def test_without_optuna_it_says_what_to_install(split: al.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(al.AleatorError, match="install optuna"):
        tune(split)


def test_it_needs_neither_frames_nor_plots_nor_a_shell() -> None:
    program = """
import sys
for name in ("matplotlib", "narwhals", "polars", "rich", "typer"):
    sys.modules[name] = None
import aleator as al
data = al.simulate(n_users=30, n_items=20, per_user=40, seed=0).interactions
small = {"model": {"solver": "adam", "max_epochs": 2, "dim": 4}, "estimator": {"dim": 4, "max_epochs": 2}}
print(len(al.tune(data, settings=small, trials=2).trials))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=ENV)
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr
