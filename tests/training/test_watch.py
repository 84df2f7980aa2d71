"""Watching: what a callback is told of the trainings of a fit, and that its exception ends the fit unchanged."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

import aleator as al
from aleator.data.interactions import Interactions
from aleator.errors import AleatorError
from aleator.models import MODELS
from aleator.training.watch import Epoch, phase, stage, watching

from ..contracts.small import SMALL

CLOSED = {"graph_filter", "itemknn", "popularity", "random"}  # fitted in one step


def told_by(fit: Callable[..., Any], *given: Any) -> list[Epoch]:
    told: list[Epoch] = []
    fit(*given, callback=told.append)
    return told


@pytest.mark.parametrize("name", sorted(MODELS.classes))
def test_every_model_that_is_trained_in_steps_tells_of_each(name: str, world: Any) -> None:
    told = told_by(MODELS[name](**SMALL.get(name, [{}])[0]).fit, world.interactions)
    assert bool(told) == (name not in CLOSED)
    by_label: dict[str, list[int]] = {}
    for epoch in told:
        by_label.setdefault(epoch.label, []).append(epoch.epoch)
    assert all(epochs == list(range(1, len(epochs) + 1)) for epochs in by_label.values())


def test_an_epoch_has_the_loss_the_metric_where_it_was_checked_and_the_time(world: Any) -> None:
    fism = al.FISM(dim=4, max_epochs=4, check_every=2)
    told = told_by(fism.fit, world.interactions)
    chosen = [epoch for epoch in told if not epoch.phases]
    assert [(e.stage, e.epoch, e.last) for e in chosen] == [("FISM", n, 4) for n in (1, 2, 3, 4)]
    assert [e.metric is None for e in chosen] == [True, False, True, False]
    assert fism.log is not None
    assert [e.loss for e in chosen] == [row["loss"] for row in fism.log.rows]
    assert all(0 < a.seconds <= b.seconds for a, b in pairwise(chosen))
    again = told[len(chosen) :]
    assert {e.label for e in again} == {"refit/FISM"}
    assert all(e.metric is None for e in again)


def test_the_label_says_which_setting_of_a_race_is_trained_and_that_of_als_has_no_loss(split: al.Split) -> None:
    estimator = al.FactorEstimator(dim=4, max_epochs=2)
    aur = al.AUR(al.MF(dim=4), estimator=estimator)
    told = told_by(aur.fit, split)
    labels = list(dict.fromkeys(epoch.label for epoch in told))
    raced = [label for label in labels if label.startswith("race over 3 epochs/MF residuals ")]
    assert len(raced) == 5
    assert all(label.endswith("/uncertainty estimator") for label in raced)
    assert labels[-2:] == ["refit/MF by ALS", "refit/uncertainty estimator"]
    tried = [epoch for epoch in told if epoch.label == "l2 of MF"]
    assert [epoch.metric for epoch in tried] == [row["recall"] for row in aur.model.tried]
    assert all(epoch.loss is None for epoch in told if epoch.stage == "MF by ALS")


def test_joint_training_tells_too(split: al.Split) -> None:
    joint = al.Joint(max_epochs=2)
    estimator = al.FactorEstimator(dim=4, max_epochs=1)
    told = told_by(al.AUR(al.MF(dim=4, l2=0.01), joint=joint, estimator=estimator).fit, split)
    assert [(e.epoch, e.metric is not None) for e in told if e.label == "joint training"] == [(1, True), (2, True)]


class Enough(AleatorError):
    """An exception of the user's own. A fit catches those of its class in some places."""


@pytest.mark.parametrize("stage_name", ["FISM", "MF by ALS", "uncertainty estimator"])
def test_an_exception_of_the_callback_ends_the_fit_and_comes_out_unchanged(split: al.Split, stage_name: str) -> None:
    """Also where an error of a contender would only leave it out of the race."""
    cause = ValueError("the reason")
    enough = Enough("enough", "stop here")
    after: list[Epoch] = []

    def callback(epoch: Epoch) -> None:
        if epoch.stage == stage_name:
            after.append(epoch)
            raise enough from cause

    estimator = al.FactorEstimator(dim=4, max_epochs=2)
    aur = al.AUR(contenders=[al.FISM(dim=4, max_epochs=2), al.MF(dim=4, l2=0.01)], estimator=estimator)
    with pytest.raises(Enough) as left:
        aur.fit(split, callback=callback)
    assert left.value is enough
    assert enough.__cause__ is cause
    assert enough.__context__ is None
    assert len(after) == 1
    with pytest.raises(AleatorError, match="this AUR is not fitted; call fit first"):
        aur.recommend([0])


def test_a_fit_that_an_exception_ended_in_its_refit_is_no_fit(split: al.Split) -> None:
    def callback(epoch: Epoch) -> None:
        if epoch.phases[:1] == ("refit",):
            raise Enough("enough", "stop here")

    model = al.AUR(al.MF(dim=4, l2=0.01), estimator=al.FactorEstimator(dim=4, max_epochs=2))
    with pytest.raises(Enough):
        model.fit(split, callback=callback)
    with pytest.raises(AleatorError, match="is not fitted"):
        model.recommend([0])


def test_a_fit_that_is_refused_leaves_the_fit_before(split: al.Split) -> None:
    model = al.MF(dim=4, l2=0.01).fit(split)
    with pytest.raises(AleatorError):
        model.fit("no data")  # type: ignore[arg-type]
    assert len(model.recommend([0], k=3)) == 3


def test_keyboard_interrupts_pass_too(split: al.Split) -> None:
    def callback(epoch: Epoch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        al.FISM(dim=4).fit(split, callback=callback)


def test_what_is_no_function_is_refused_before_the_fit(split: al.Split) -> None:
    with pytest.raises(AleatorError, match="callback is 3; give a function"):
        al.FISM(dim=4).fit(split, callback=3)  # type: ignore[arg-type]


def test_all_watchers_are_told_and_none_after_its_block() -> None:
    outer: list[str] = []
    inner: list[str] = []
    with watching(lambda epoch: outer.append(epoch.label)):
        with watching(lambda epoch: inner.append(epoch.label)), phase("a"), phase("b"), stage("c", 1) as running:
            running.advance(loss=1.0)
        with watching(None), stage("d", None) as running:
            running.advance()
    with stage("e", 1) as running:
        running.advance()
    assert outer == ["a/b/c", "d"]
    assert inner == ["a/b/c"]


def test_a_callback_changes_nothing(world: Any) -> None:
    def scores(**options: Any) -> Any:
        return al.FISM(dim=4, max_epochs=3).fit(world.interactions, **options).score([0, 1])

    assert scores().equal(scores(callback=lambda epoch: None))


def test_bare_interactions_of_one_pair_each_are_told_of() -> None:
    data = Interactions.of([1, 2, 3, 1, 2], [1, 2, 3, 2, 1])
    assert told_by(al.MF(dim=2, l2=0.1, iterations=2).fit, data)[-1].last == 2
