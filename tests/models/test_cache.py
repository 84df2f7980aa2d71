"""ModelCache: the same fit is made once, gives the same bits, and everything else is fitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.models.cache import ModelCache
from aleator.training.stop import Stop

FITTED: list[al.Model] = []  # whatever learned, in this order


class Counted(al.MF):
    """An MF that notes when it learns."""

    def learn(self, stop: Stop) -> None:
        FITTED.append(self)
        super().learn(stop)


class Solved(al.EASE):
    """An EASE that does."""

    def learn(self, stop: Stop) -> None:
        FITTED.append(self)
        super().learn(stop)


@pytest.fixture(autouse=True)
def _none_yet() -> None:
    FITTED.clear()


def trained(**options: Any) -> Counted:
    """Trained in epochs, so that a cache keeps it."""
    return Counted(**{"solver": "adam", "dim": 4, "max_epochs": 4, "check_every": 1, "lr": 0.02, **options})


def tensors(model: al.Model) -> list[torch.Tensor]:
    return [model.table.users, model.table.items]


def test_the_same_fit_is_made_once_and_gives_the_same_bits(split: al.Split) -> None:
    cache = ModelCache()
    alone, first, second = trained().fit(split), trained().fit(split, cache=cache), trained().fit(split, cache=cache)
    assert len(FITTED) == 4  # twice alone and twice for the first: with validation, and again on everything
    for model in (first, second):
        assert all(torch.equal(a, b) for a, b in zip(tensors(model), tensors(alone), strict=True))
        assert torch.equal(model.score([0, 1]), alone.score([0, 1]))
        assert torch.equal(model.score({"new": [1, 2]}), alone.score({"new": [1, 2]}))
        assert model.fitted.fingerprint == alone.fitted.fingerprint
        assert model.log is not None
        assert alone.log is not None
        assert model.log.best_epoch == alone.log.best_epoch


def test_what_is_kept_belongs_to_nobody(split: al.Split) -> None:
    """A model that took its result from the cache may change its log and its notes."""
    cache = ModelCache()
    trained().fit(split, cache=cache)
    second = trained().fit(split, cache=cache)
    second.notes.append("mine")
    assert second.log is not None
    second.log.rows.clear()
    third = trained().fit(split, cache=cache)
    assert third.notes == []
    assert third.log is not None
    assert third.log.rows


@pytest.mark.parametrize("change", [{"dim": 5}, {"lr": 0.03}, {"seed": 1}, {"mu": 0.2}, {"max_epochs": 3}])
def test_other_options_are_another_fit(split: al.Split, change: dict[str, Any]) -> None:
    cache = ModelCache()
    trained().fit(split, cache=cache)
    before = len(FITTED)
    other = trained(**change).fit(split, cache=cache)
    assert len(FITTED) == 2 * before
    assert torch.equal(other.score([0]), trained(**change).fit(split).score([0]))


def test_other_pairs_are_another_fit(split: al.Split) -> None:
    cache = ModelCache()
    fewer = replace(split, train=split.train.take(np.arange(len(split.train)) > 0))
    for data in (split, fewer):
        trained().fit(data, cache=cache)
    assert len(FITTED) == 4
    assert cache.saved == 0


def test_other_epochs_are_another_fit(split: al.Split) -> None:
    cache = ModelCache()
    models = [trained() for _ in range(3)]
    for model, epochs in zip(models, (1, 2, 1), strict=True):
        cache.fit_pairs(model, split.train, epochs=epochs)
    assert len(FITTED) == 2
    one, two, again = models
    assert not torch.equal(one.table.items, two.table.items)
    assert torch.equal(one.table.items, again.table.items)


def test_another_class_with_the_same_options_is_another_fit(split: al.Split) -> None:
    cache = ModelCache()
    options: dict[str, Any] = {"dim": 4, "max_epochs": 2, "check_every": 1}
    cache.fit_pairs(al.BPR(**options), split.train, epochs=2)
    zerosum = al.ZeroSum(**options)
    cache.fit_pairs(zerosum, split.train, epochs=2)
    alone = al.ZeroSum(**options)
    alone.fit_pairs(split.train, epochs=2)
    assert torch.equal(zerosum.table.items, alone.table.items)


def test_the_seconds_that_were_saved_grow(split: al.Split) -> None:
    cache, saved = ModelCache(), [0.0]
    for _ in range(3):
        trained().fit(split, cache=cache)
        saved.append(cache.saved)
    assert saved[1] == 0
    assert 0 < saved[2] < saved[3]


@pytest.mark.parametrize(("everything", "fits"), [(False, 2), (True, 1)])
def test_what_has_no_log_of_a_training_is_kept_only_if_everything_is(
    split: al.Split, everything: bool, fits: int
) -> None:
    cache = ModelCache(everything=everything)
    one, other = (Solved().fit(split, cache=cache) for _ in range(2))
    assert len(FITTED) == fits
    assert (cache.saved > 0) == everything
    assert torch.equal(one.score([0]), other.score([0]))


def test_aurs_share_their_model_and_get_what_they_would_have_alone(split: al.Split) -> None:
    cache = ModelCache()

    def make(alpha: float) -> al.AUR:
        return al.AUR(trained(), estimator=al.FactorEstimator(dim=4, max_epochs=2), alpha=alpha, lam=0.5)

    one, other = (make(alpha).fit(split, cache=cache) for alpha in (1.0, 3.0))
    assert len(FITTED) == 2
    assert torch.equal(one.expectation([0]), other.expectation([0]))
    assert torch.equal(other.score([0, 1]), make(3.0).fit(split).score([0, 1]))


def test_joint_training_neither_reads_nor_writes_it(split: al.Split) -> None:
    cache = ModelCache(everything=True)

    def make() -> al.AUR:
        estimator = al.FactorEstimator(dim=4, max_epochs=2)
        return al.AUR(trained(), estimator=estimator, joint=al.Joint(max_epochs=2, lr=0.01), lam=0.5)

    trained().fit(split, cache=cache)
    before = trained().fit(split, cache=cache).score([0])
    FITTED.clear()
    saved = cache.saved
    joint = make().fit(split, cache=cache)
    assert len(FITTED) == 2
    assert cache.saved == saved
    assert torch.equal(joint.score([0]), make().fit(split).score([0]))
    assert torch.equal(trained().fit(split, cache=cache).score([0]), before)


def test_grafts_are_never_kept(split: al.Split) -> None:
    """Two functions have the same class and options, and score differently."""
    cache = ModelCache(everything=True)
    rising = np.tile(np.arange(50) / 50, (80, 1))

    def graft(scores: Any) -> al.Model:
        return al.graft(lambda users: scores[users], calibrate="none")

    for scores, best in ((rising, 49), (1 - rising, 0), (rising, 49)):
        assert graft(scores).fit(split, cache=cache).score([0])[0].argmax() == best
    assert cache.saved == 0


def test_other_held_out_pairs_are_another_fit(split: al.Split) -> None:
    """Training stops on them, so they decide the number of epochs."""
    cache = ModelCache()
    fewer = replace(split, valid=split.valid.take(np.arange(len(split.valid)) % 2 == 0))
    for part in (split, fewer, split):
        trained(refit=False).fit(part, cache=cache)
    assert len(FITTED) == 2
