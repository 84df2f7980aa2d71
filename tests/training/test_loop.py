"""The loop: it minimises, stops early, restores the best weights, and says where it diverged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.errors import AleatorError
from aleator.ranking.derived import Derived
from aleator.training.loop import AdamW, Loop
from aleator.training.stop import Stop
from aleator.training.watch import Epoch, watching

CPU = torch.device("cpu")
ROWS = [[0], [1, 2], [], [3], [0, 3]]  # the third user has no history


def loop(**options: Any) -> Loop:
    return Loop(**{"max_epochs": 20, "batch_size": 2, "lr": 0.1, "device": CPU, **options})


def histories() -> Histories:
    return Histories.of_lists(ROWS, 4, CPU)


def to_target(weight: Tensor) -> Callable[[Users, torch.Generator], Tensor]:
    target = torch.tensor([1.0, -2.0])
    return lambda users, draw: (weight - target).square().sum() * len(users)


def values(*metrics: float) -> Callable[[], float]:
    left: Iterator[float] = iter(metrics)
    return lambda: next(left)


def test_it_minimises_the_loss() -> None:
    weight = torch.zeros(2, requires_grad=True)
    log = loop(max_epochs=200).minimise(to_target(weight), [weight], histories(), Stop())
    torch.testing.assert_close(weight.detach(), torch.tensor([1.0, -2.0]), atol=1e-2, rtol=0)
    assert log.best_epoch == len(log.rows) == 200
    assert log.rows[-1]["loss"] < 0.01 * log.rows[0]["loss"]


def test_every_user_with_a_history_is_met_once_an_epoch_in_batches_and_in_a_new_order() -> None:
    weight, met = torch.zeros(2, requires_grad=True), []

    def loss(users: Users, draw: torch.Generator) -> Tensor:
        met.append(users.index.tolist())
        return weight.square().sum()

    loop(max_epochs=6, batch_size=3).minimise(loss, [weight], histories(), Stop())
    assert [len(batch) for batch in met] == [2, 2] * 6  # even ones, of at most batch_size
    epochs = [met[i] + met[i + 1] for i in range(0, 12, 2)]
    assert all(sorted(epoch) == [0, 1, 3, 4] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_the_loss_of_a_row_is_the_mean_over_users() -> None:
    weight = torch.zeros(1, requires_grad=True)
    loss = lambda users, draw: weight.sum() * 0 + users.index.sum()  # noqa: E731
    log = loop(max_epochs=1).minimise(loss, [weight], histories(), Stop())
    assert log.rows[0]["loss"] == pytest.approx((0 + 1 + 3 + 4) / 4)


def test_it_stops_when_the_metric_no_longer_rises_and_restores_the_best_weights() -> None:
    weight, kept = torch.zeros(2, requires_grad=True), []
    metrics = iter([0.1, 0.5, 0.4, 0.5, 0.3, 0.9])

    def check() -> float:
        kept.append(weight.detach().clone())
        return next(metrics)

    log = loop(patience=3).minimise(to_target(weight), [weight], histories(), Stop(check))
    assert log.best_epoch == 2
    assert len(log.rows) == 5  # an equal metric is no better one
    assert torch.equal(weight.detach(), kept[1])
    assert [row["metric"] for row in log.rows] == [0.1, 0.5, 0.4, 0.5, 0.3]


def test_with_a_tolerance_the_last_epoch_about_as_good_as_the_best_is_kept() -> None:
    weight, kept = torch.zeros(2, requires_grad=True), []
    metrics = iter([0.5, 1.0, 0.96, 0.94, 0.97, 0.5])

    def check() -> float:
        kept.append(weight.detach().clone())
        return next(metrics)

    log = loop(patience=4, tolerance=0.05).minimise(to_target(weight), [weight], histories(), Stop(check))
    assert log.best_epoch == 5
    assert len(log.rows) == 6  # patience counts from the very best
    assert torch.equal(weight.detach(), kept[4])


def test_patience_counts_checks_not_epochs() -> None:
    weight = torch.zeros(2, requires_grad=True)
    log = loop(patience=2, check_every=3).minimise(
        to_target(weight), [weight], histories(), Stop(values(0.5, 0.1, 0.1, 0.1))
    )
    assert log.best_epoch == 3
    assert len(log.rows) == 9
    assert [row["epoch"] for row in log.rows if "metric" in row] == [3, 6, 9]


def test_a_training_shorter_than_one_check_still_learns() -> None:
    weight = torch.zeros(2, requires_grad=True)
    log = loop(max_epochs=1, check_every=2).minimise(to_target(weight), [weight], histories(), Stop(lambda: 0.5))
    assert weight.detach().abs().sum() > 0
    assert log.best_epoch == 1


def test_the_last_epoch_is_checked_too() -> None:
    weight = torch.zeros(2, requires_grad=True)
    log = loop(max_epochs=3, check_every=2).minimise(to_target(weight), [weight], histories(), Stop(values(0.1, 0.7)))
    assert log.best_epoch == 3


@pytest.mark.parametrize(("at", "value"), [(1, float("nan")), (3, float("inf"))])
def test_a_loss_that_is_not_finite_stops_with_the_epoch_and_what_to_try(at: int, value: float) -> None:
    weight, epoch = torch.ones(2, requires_grad=True), 0

    def loss(users: Users, draw: torch.Generator) -> Tensor:
        nonlocal epoch
        epoch += 1  # one batch an epoch
        return weight.square().sum() * (value if epoch == at else 1.0)

    with pytest.raises(AleatorError, match=rf"made up diverged.*epoch {at}\b.*learning rate below 0.1"):
        loop(batch_size=10, label="made up").minimise(loss, [weight], histories(), Stop())


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not() -> None:
    def run(seed: int) -> Tensor:
        weight = torch.zeros(4, requires_grad=True)

        def loss(users: Users, draw: torch.Generator) -> Tensor:
            return ((weight - torch.rand(4, generator=draw)).square() * (1 + users.index.sum())).sum()

        loop(seed=seed, max_epochs=5).minimise(loss, [weight], histories(), Stop())
        return weight.detach()

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))


def test_the_random_state_of_the_process_is_left_alone() -> None:
    before = torch.get_rng_state()
    weight = torch.zeros(2, requires_grad=True)
    loop().minimise(to_target(weight), [weight], histories(), Stop())
    assert torch.equal(torch.get_rng_state(), before)


def test_weight_decay_pulls_towards_zero() -> None:
    free, decayed = (torch.zeros(2, requires_grad=True) for _ in range(2))
    loop(max_epochs=200).minimise(to_target(free), [free], histories(), Stop())
    loop(max_epochs=200, weight_decay=1.0).minimise(to_target(decayed), [decayed], histories(), Stop())
    assert decayed.detach().norm() < free.detach().norm()


def test_each_epoch_is_told_of_and_a_watcher_may_end_the_training() -> None:
    weight, told = torch.zeros(2, requires_grad=True), []

    def watcher(epoch: Epoch) -> None:
        told.append((epoch.label, epoch.epoch, epoch.metric))
        if epoch.epoch == 4:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"), watching(watcher):
        loop(check_every=2, label="mine").minimise(
            to_target(weight), [weight], histories(), Stop(values(0.1, 0.2, 0.3))
        )
    assert told == [("mine", 1, None), ("mine", 2, 0.1), ("mine", 3, None), ("mine", 4, 0.2)]


def test_what_follows_from_a_parameter_is_computed_again_after_a_training() -> None:
    weight = torch.zeros(2, requires_grad=True)
    twice = Derived(lambda tensor: 2 * tensor.detach())
    before = twice(weight)
    loop().minimise(to_target(weight), [weight], histories(), Stop(epochs=1))
    assert torch.equal(twice(weight), 2 * weight.detach())
    assert not torch.equal(twice(weight), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adamw_takes_the_steps_of_pytorchs_and_leaves_parameters_without_a_gradient(dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    start = [torch.randn(5, 3, generator=draw, dtype=dtype) for _ in range(3)]
    ours, theirs = ([part.clone().requires_grad_() for part in start] for _ in range(2))
    mine = AdamW(ours, lr=0.1, weight_decay=0.3)
    reference = torch.optim.AdamW(theirs, lr=0.1, weight_decay=0.3, fused=True)
    for _ in range(4):
        for own, their in zip(ours[:2], theirs[:2], strict=True):  # the third has no gradient
            own.grad = torch.randn(5, 3, generator=draw, dtype=dtype)
            their.grad = own.grad.clone()
        versions = [own._version for own in ours]
        mine.step()
        reference.step()
        assert [own._version > version for own, version in zip(ours, versions, strict=True)] == [True, True, False]
    for own, their in zip(ours, theirs, strict=True):
        assert torch.equal(own, their)
    assert torch.equal(ours[2], start[2])
    mine.zero_grad()
    assert all(own.grad is None for own in ours)


def test_adamw_goes_on_from_what_it_knows() -> None:
    whole, cut = (torch.ones(4, requires_grad=True) for _ in range(2))
    one, before = AdamW([whole], lr=0.1), AdamW([cut], lr=0.1)
    gradients = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    for i, gradient in enumerate(gradients):
        if i == 3:
            after = AdamW([cut], lr=0.1)
            after.set_tensors({name: value.clone() for name, value in before.tensors().items()})
            before = after
        whole.grad, cut.grad = gradient.clone(), gradient.clone()
        one.step()
        before.step()
    assert torch.equal(whole, cut)
