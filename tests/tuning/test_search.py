"""The search for options: chosen on validation, never worse than the defaults, stopped and continued at will."""

from __future__ import annotations

import importlib.util
import tomllib
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

import aleator as al
from aleator.aur import aur as aur_module
from aleator.aur import race
from aleator.aur.build import build
from aleator.models import MODELS
from aleator.options import Among, Between, Configurable
from aleator.training.stop import Stop
from aleator.tuning import search as tuning
from aleator.tuning.search import Search, tune
from aleator.uncertainty import ESTIMATORS
from aleator.uncertainty.products import LABEL
from aleator.words import Select

from .pretending import found, results

QUICK = {"model": {"iterations": 2}}
SMALL = {"model": {"dim": 4, "iterations": 2}, "estimator": {"dim": 8, "max_epochs": 3}}


@pytest.mark.parametrize("kind", [*MODELS.classes.values(), *ESTIMATORS.classes.values(), al.AUR])
def test_ranges_hold_options_that_the_class_accepts(kind: type[Configurable]) -> None:
    options = set(kind.option_names())
    given = (al.MF(),) if kind is al.AUR else ()
    for recipe, ranges in (("ours", kind.ranges), ("paper", kind.paper_ranges)):
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
        assert kind.ranges


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
    choices: list[tuple[Select, str]] = [("overall", "recall@20"), ("balanced", "tail_recall@50")]
    for select, metric in choices:
        tuned = tune(split, select=select, settings=SMALL, only="uncertainty", trials=2)
        assert tuned.metric == metric
        for row in tuned.trials:
            settings = tuning._nested(tuning._flat(SMALL) | row["setting"] | row["options"])
            settings |= {"select": select, "refit": False}
            aur = build("mf", settings, with_uncertainty=True, recipe="ours")
            assert isinstance(aur, al.AUR)
            aur.fit(split)
            assert aur.race == []
            assert aur.choice is not None
            want = aur.choice.chosen
            shown = [row[name] for name in ("lam", *tuning.FIGURES)]
            assert shown == pytest.approx([want.lam, want.recall, want.ndcg, want.tail])
        assert tuned.value == max(row[metric] for row in tuned.trials)


def test_only_the_trial_of_the_defaults_races(split: al.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    races: list[int] = []

    def decide(field: Any, *args: Any) -> Any:
        races.append(len(field))
        return race.decide(field, *args)

    monkeypatch.setattr(aur_module, "decide", decide)
    tuned = tune(split, settings=SMALL, trials=3)
    assert races[0] > 1
    assert races[1:] == [1, 1]
    raced = tuned.trials[0]["setting"]
    assert raced.keys() == {"residuals", "unobserved", "estimator.init"}
    assert all(row["setting"] == raced for row in tuned.trials)
    assert tuning._flat(tuned.options).items() >= raced.items()
    assert isinstance(tuned.best, al.AUR)
    best = tuned.best
    assert len(race.settings(best.residuals, best.unobserved, best.estimator)) == 1


@pytest.mark.parametrize(("only", "recipe", "watched"), [(None, "ours", False), ("uncertainty", "ours", True)])
def test_trials_with_other_models_are_not_compared_by_checks_relative_to_them(
    split: al.Split, monkeypatch: pytest.MonkeyPatch, only: Any, recipe: Any, watched: bool
) -> None:
    found: dict[str, bool] = {}
    real = Search.watched
    monkeypatch.setattr(Search, "watched", lambda self, label: found.update({label: real(self, label)}))
    tune(split, settings={"estimator": SMALL["estimator"]}, only=only, recipe=recipe, trials=1)
    assert found[LABEL] == watched


@pytest.mark.parametrize("recipe", ["ours", "test", "paper"])
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
    values = iter([0.9, 0.88, 0.87, 0.86, 0.85])
    seen = pretend(lambda options: found(next(values)))
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
    values = count(1)
    seen = pretend(lambda options: found(next(values)))
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


def test_real_trainings_are_watched(split: al.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = []
    monkeypatch.setattr(Search, "watched", lambda _, label: labels.append(label))
    tune(split, settings={"model": {"solver": "adam", "max_epochs": 2}, "estimator": SMALL["estimator"]}, trials=1)
    assert list(dict.fromkeys(labels)) == ["MF", "uncertainty estimator"]


def test_a_model_that_is_the_same_in_all_trials_is_fitted_once(
    split: al.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[al.MF] = []
    real = al.MF.learn

    def learn(model: al.MF, stop: Stop) -> None:
        fitted.append(model)
        real(model, stop)

    monkeypatch.setattr(al.MF, "learn", learn)
    tune(split, only="uncertainty", settings=SMALL, trials=3)
    assert len(fitted) == 1
    tune(split, settings={"estimator": SMALL["estimator"]}, trials=2)
    assert len(fitted) == 3


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


def test_without_optuna_it_says_what_to_install(split: al.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(al.AleatorError, match="install optuna"):
        tune(split)
