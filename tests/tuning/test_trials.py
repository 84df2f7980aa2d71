"""The trials of a search: kept in a study, continued, pruned, ranked, and told apart when they fail."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch

import aleator as al
from aleator.batches import Histories
from aleator.training.loop import Loop
from aleator.training.stop import Stop
from aleator.tuning.search import tune
from aleator.tuning.trials import at_work, in_state, open_study, ranked, silent, state
from aleator.words import Only

from .pretending import Fake, found, results


@pytest.fixture
def study() -> optuna.Study:
    """In memory; trials are added by hand."""
    with silent():
        return open_study(None, {"model": "mf"}, prune=0.5)


def told(study: optuna.Study, name: str, value: float | None = None, **attributes: Any) -> None:
    """One more trial that ended so."""
    trial = study.ask()
    for key, given in attributes.items():
        trial.set_user_attr(key, given)
    study.tell(trial, value, optuna.trial.TrialState[name])


def train(label: str, metric: Callable[[], float]) -> None:
    """A training of 20 epochs that is checked after each."""
    device, weight = torch.device("cpu"), torch.zeros(1, requires_grad=True)
    loop = Loop(max_epochs=20, batch_size=2, lr=0.1, device=device, patience=99, label=label)
    histories = Histories.of_lists([[0], [1]], 2, device)
    loop.minimise(lambda users, draw: weight.square().sum() * len(users), [weight], histories, Stop(metric))


def test_a_trial_is_complete_pruned_failed_stopped_running_or_waiting(study: optuna.Study) -> None:
    told(study, "COMPLETE", 0.5)
    told(study, "PRUNED")
    told(study, "FAIL", problem="the loss is nan")
    told(study, "FAIL")
    study.ask()
    study.enqueue_trial({})
    states = [state(trial) for trial in study.get_trials()]
    assert states == ["complete", "pruned", "failed", "stopped", "running", "waiting"]
    assert [trial.number for trial in in_state(study, "failed", "running")] == [2, 4]


def test_of_equal_trials_the_earlier_is_the_better(study: optuna.Study) -> None:
    for value in (0.3, 0.7, 0.1, 0.7):
        told(study, "COMPLETE", value)
    told(study, "PRUNED")
    assert [trial.number for trial in ranked(study)] == [1, 3, 0, 2]


def test_a_study_says_what_it_is_of_and_takes_nothing_else(tmp_path: Path) -> None:
    about = {"model": "mf", "options": {"seed": 0}}
    with silent():
        assert open_study(tmp_path / "a.db", about, prune=0.5).user_attrs == about
        assert open_study(tmp_path / "a.db", about, prune=0.5).user_attrs == about
        with pytest.raises(al.AleatorError, match=r"study of other settings: model \(mf there, ease here\)"):
            open_study(tmp_path / "a.db", about | {"model": "ease"}, prune=0.5)


def test_optuna_is_silent_inside_and_as_before_outside() -> None:
    before = optuna.logging.get_verbosity()
    with silent():
        assert optuna.logging.get_verbosity() == optuna.logging.ERROR
    assert optuna.logging.get_verbosity() == before


def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(split: al.Split, pretend: Any, tmp_path: Path) -> None:
    def stop_at(when: int) -> Fake:
        def fake(options: dict[str, Any]) -> dict[str, Any]:
            if len(seen) == when:
                raise KeyboardInterrupt
            return found(1 / (1 + abs(np.log(options.get("model.l2", 0.05) / 0.01)) + options["model.mu"]))

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


def test_a_search_that_was_killed_goes_on_as_if_it_had_not_been(split: al.Split, pretend: Any, tmp_path: Path) -> None:
    """The kills are real ones, of a fork of this process."""

    def kill_at(when: int) -> Fake:
        def fake(options: dict[str, Any]) -> dict[str, Any]:
            if len(seen) == when:
                os.kill(os.getpid(), signal.SIGKILL)
            return found(1 / (1 + abs(np.log(options.get("model.l2", 0.05) / 0.01)) + options["model.mu"]))

        return fake

    seen = pretend(kill_at(-1))
    through = tune(split, uncertainty=False, trials=12)
    for when in (1, 11):  # in the defaults, and in the search proper
        seen = pretend(kill_at(when))
        child = os.fork()
        if child == 0:
            tune(split, uncertainty=False, trials=12, study=tmp_path / "study.db")
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
    seen = pretend(kill_at(-1))
    continued = tune(split, uncertainty=False, trials=12, study=tmp_path / "study.db")
    assert len(seen) == 2
    assert results(continued) == results(through)
    assert sum(row["state"] == "stopped" for row in continued.trials) == 2


def test_a_trial_of_another_process_at_work_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    with silent():
        study = open_study(path, {"model": "mf"}, prune=0.5)
        with at_work(study, path):
            study.ask()
            with at_work(study, path):
                assert len(in_state(study, "running")) == 1
        with at_work(study, path):
            assert len(in_state(study, "stopped")) == 1


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
    def fake(options: dict[str, Any]) -> dict[str, Any]:
        raise KeyError("no such figure")

    pretend(fake)
    with pytest.raises(KeyError):
        tune(split, trials=3)


@pytest.mark.parametrize(("uncertainty", "label"), [(False, "MF"), (True, "uncertainty estimator")])
def test_trials_that_fall_behind_are_pruned(split: al.Split, pretend: Any, uncertainty: bool, label: str) -> None:
    """By the checks of the stage that is searched; the other stages' do not count."""

    def fake(options: dict[str, Any]) -> dict[str, Any]:
        value = 0.5 - 0.01 * len(seen)
        train("something else", lambda: 0.001 * len(seen))
        reached.append(0)
        train(label, lambda: count(value))
        return found(value)

    def count(value: float) -> float:
        reached[-1] += 1
        return value

    reached: list[int] = []
    seen = pretend(fake)
    only: Only | None = "uncertainty" if uncertainty else None
    tuned = tune(split, uncertainty=uncertainty, only=only, trials=7)
    states = [row["state"] for row in sorted(tuned.trials, key=lambda row: row["trial"])]
    assert states == ["complete"] * 5 + ["pruned"] * 2
    assert reached == [20] * 5 + [10] * 2  # not before the warm-up is over


@pytest.mark.parametrize("matters", ["model.mu", "model.dim"])
def test_importance_finds_the_option_that_matters(split: al.Split, pretend: Any, matters: str) -> None:
    pretend(lambda options: found(-abs(np.log(options[matters] / 0.1))))
    tuned = tune(split, uncertainty=False, trials=20)
    assert next(iter(tuned.importance)) == matters
    assert sum(tuned.importance.values()) == pytest.approx(1)
    assert tuned.importance.keys() == {"model.dim", "model.mu", "model.l2"}
    assert tune(split, uncertainty=False, trials=9).importance == {}


def test_no_trial_begins_after_the_timeout(split: al.Split, pretend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("aleator.tuning.attempts.time.monotonic", lambda: next(clock))
    seen = pretend(lambda options: found(0.1))
    tune(split, uncertainty=False, timeout=35, trials=50)
    assert len(seen) == 3


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE trials SET state = 'x'",
        "UPDATE trials SET datetime_start = '{}'",
        "UPDATE study_directions SET direction = '1.0e+308'",
        "DELETE FROM trial_values",
        "UPDATE trial_user_attributes SET value_json = '['",
        "UPDATE trial_params SET distribution_json = 'null'",
        "UPDATE study_user_attributes SET value_json = '\"x\"'",
    ],
)
def test_a_damaged_study_is_refused_in_a_sentence(
    change: str, split: al.Split, tmp_path: Path, pretend: Callable[[Fake], list[dict[str, Any]]]
) -> None:
    pretend(lambda options: found(0.1))
    path = tmp_path / "study.db"
    tune(split, trials=2, study=path)
    with closing(sqlite3.connect(path)) as file:
        file.executescript(change)
    with pytest.raises(al.AleatorError, match=r"study.*; give another file|other settings|trial came"):
        tune(split, trials=3, study=path)


def test_a_damaged_file_is_no_study(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE studies (x)")
        file.execute("CREATE TABLE other (name_of_a_column)")
        file.commit()
    path.write_bytes(
        path.read_bytes().replace(b"name_of_a_column", b"\xff" * 16).replace(b"studies (x)", b"\xffudies (x)")
    )
    with pytest.raises(al.AleatorError, match="study"), silent():
        open_study(path, {}, 0.5)
