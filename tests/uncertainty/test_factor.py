"""The factor estimator: its fast loss against the literal one, and what its options mean."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

import aleator as al
from aleator.batches import Histories, Users
from aleator.device import BUDGETS
from aleator.errors import AleatorError
from aleator.training.row_adam import RowAdam
from aleator.training.stop import Stop
from aleator.uncertainty import FactorEstimator, Objective, step
from aleator.uncertainty.factor import ACTIVATIONS
from aleator.uncertainty.step import Tables, history, kept, shorter

from .fixed import Fixed

CPU = torch.device("cpu")
N_USERS, N_ITEMS, DIM = 6, 9, 4


def weights(seed: int = 0) -> np.ndarray[Any, Any]:
    """[n_users, n_items] weights of observed pairs; user 3 has one item only, user 4 has none."""
    rng = np.random.default_rng(seed)
    made = np.where(rng.random((N_USERS, N_ITEMS)) < 0.4, rng.choice([0.5, 1.0, 2.0], (N_USERS, N_ITEMS)), 0)
    made[3] = 0
    made[3, 2] = 1.0
    made[4] = 0
    return made.astype(np.float32)


def batch(weight: np.ndarray[Any, Any], order: Any = range(N_USERS)) -> Users:
    return Histories(sp.csr_matrix(weight), CPU).batch(torch.tensor(list(order)))


def estimator(seed: int = 0, dtype: torch.dtype = torch.float64, **options: Any) -> FactorEstimator:
    made = FactorEstimator(dim=DIM, **options)
    draw = torch.Generator().manual_seed(seed)
    made.z, made.q = ((0.7 * torch.randn(N_ITEMS, DIM, generator=draw, dtype=dtype)).requires_grad_() for _ in range(2))
    return made


def loss_of(
    made: FactorEstimator,
    users: Users,
    r: Tensor,
    objective: Objective,
    draw: torch.Generator | None = None,
    items: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """The fast loss of a batch, and the gradient of the sum (it gives that of the mean) in z and q."""
    gradients = [torch.full_like(t, torch.nan) for t in (made.z, made.q)]  # all of it must be overwritten
    tables = Tables(made.z.detach(), made.q.detach(), *gradients)
    loss = made.step(users, Fixed(r), objective, tables, len(made.q), items, draw)
    return loss, [tables.dz * len(users), tables.dq * len(users)]


def literal(made: FactorEstimator, weight: np.ndarray[Any, Any], keep: Any = None) -> Tensor:
    """s [n_users, n_items] as the definition reads, pair by pair; `keep` says which history items are summed."""
    activation, rows = ACTIVATIONS[made.activation], []
    for user, row in enumerate(weight):
        history = [i for i in np.flatnonzero(row) if keep is None or keep[user, i]]
        for item in range(len(row)):
            summed = [made.z[i] for i in history if not (made.self_exclude and i == item)]
            total = torch.stack(summed).sum(0) if summed else torch.zeros_like(made.z[0])
            rows.append((activation(total / max(len(summed), 1) ** 0.5) * made.q[item]).sum())
    return torch.stack(rows).reshape(weight.shape)


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize("self_exclude", [True, False])
@pytest.mark.parametrize("objective", [Objective(), Objective(2.5, 0.02, 0.005, 0.0), Objective(2.0, floor=0.01)])
@pytest.mark.parametrize("block", [1, 7 * N_USERS, 1 << 20])
def test_the_fast_loss_equals_the_reference_in_value_and_gradient(
    activation: Any, self_exclude: bool, objective: Objective, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGETS, "cpu", replace(BUDGETS["cpu"], loss_pairs=block))
    monkeypatch.setattr(step, "PAIRS_AT_A_TIME", 4)
    made, weight = estimator(activation=activation, self_exclude=self_exclude), weights()
    r = 0.4 * torch.randn(N_USERS, N_ITEMS, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    y = torch.from_numpy((weight > 0).astype(float))
    reference = objective.reference(r, y, literal(made, weight), torch.from_numpy(weight).double())
    fast, gradients = loss_of(made, batch(weight), r, objective)
    assert fast.item() == pytest.approx(reference.item(), rel=1e-12)
    for mine, theirs in zip(gradients, torch.autograd.grad(reference, [made.z, made.q]), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize("self_exclude", [True, False])
def test_observed_pairs_have_the_log_variance_of_training(activation: Any, self_exclude: bool) -> None:
    made, weight, users = estimator(activation=activation, self_exclude=self_exclude), weights(), batch(weights())
    with torch.no_grad():
        expected = literal(made, weight)[users.row, users.item]
        torch.testing.assert_close(made.observed(users), expected)


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_the_only_item_of_a_history_leaves_nothing(activation: Any) -> None:
    """p = 0 then, so s = 0, and the gradient does not reach z: all of that would be 0 / 0."""
    made, weight = estimator(activation=activation), np.zeros((2, N_ITEMS), np.float32)
    weight[0, 2] = weight[1, 5] = 1
    users, r = batch(weight, [0, 1]), torch.full((2, N_ITEMS), 0.3, dtype=torch.float64)
    with torch.no_grad():
        assert (made.observed(users) == 0).all()
    none = Objective(alpha=1e-300)  # the unobserved pairs alone
    (whole, gradients), (others, of_others) = (loss_of(made, users, r, o) for o in (Objective(3.0), none))
    assert (whole - others).item() == pytest.approx(2 * 3 * 0.7**2, rel=1e-9)  # s = 0 leaves the squared residual
    for mine, theirs in zip(gradients, of_others, strict=True):
        assert torch.isfinite(mine).all()
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(
    ("kept_items", "expected"),
    [
        ([1, 1, 1, 1], [(4 / 3) ** 0.5] * 4),
        ([1, 0, 1, 0], [2**0.5, 1, 2**0.5, 1]),
        ([0, 1, 0, 0], [1, 0, 1, 1]),
        ([0] * 4, [1] * 4),
    ],
)
def test_taking_an_item_out_rescales_by_what_dropout_kept(kept_items: list[int], expected: list[float]) -> None:
    users = batch(np.array([[1, 1, 0, 1, 1]], np.float32), [0])
    keep = torch.tensor(kept_items, dtype=torch.float64)
    _, scale = history(torch.ones(5, 1, dtype=torch.float64), users, keep)
    assert shorter(scale, keep, users).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_sampled_items_give_the_loss_and_gradient_of_all_items_on_average(activation: Any) -> None:
    """Over all sets of 4 of the 9 items, each equally likely, the mean is exact."""
    made, weight, objective = estimator(activation=activation), weights(), Objective(2.0, floor=0.01)
    r = 0.4 * torch.randn(N_USERS, N_ITEMS, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    sets = [torch.tensor(s) for s in itertools.combinations(range(N_ITEMS), 4)]
    sampled = [loss_of(made, batch(weight), r, objective, items=s) for s in sets]
    whole, gradients = loss_of(made, batch(weight), r, objective)
    assert torch.stack([loss for loss, _ in sampled]).mean().item() == pytest.approx(whole.item(), rel=1e-12)
    for place, gradient in enumerate(gradients):
        torch.testing.assert_close(torch.stack([g[place] for _, g in sampled]).mean(0), gradient)


def test_rows_in_use_give_the_same_loss_and_gradient_as_whole_tables() -> None:
    made, weight, objective = estimator(), weights(), Objective(2.0)
    users, items = batch(weight, [0, 3]), torch.tensor([1, 5, 8])
    r = torch.full((N_USERS, N_ITEMS), 0.2, dtype=torch.float64)
    whole, gradients = loss_of(made, users, r, objective, items=items)
    used = torch.unique(torch.cat([users.item, items]))
    z, q, dz, dq = RowAdam([made.z.detach(), made.q.detach()], lr=0.1).rows(used)
    tables = Tables(z, q, dz, dq, used)
    some_rows = made.step(users, Fixed(r), objective, tables, N_ITEMS, items)
    assert some_rows.item() == pytest.approx(whole.item(), rel=1e-12)
    for some, all_rows in zip((tables.dz, tables.dq), gradients, strict=True):
        torch.testing.assert_close(some * len(users), all_rows[used])
        assert all_rows.abs().sum().item() == pytest.approx(all_rows[used].abs().sum().item())


@pytest.mark.parametrize("floor", [0.0, 0.01])
def test_bfloat16_products_are_within_a_percent(floor: float) -> None:
    """Of the norm of the gradient, at the sizes and magnitudes of real training."""
    draw = torch.Generator().manual_seed(0)
    weight = (np.random.default_rng(0).random((64, 500)) < 0.05).astype(np.float32)
    made = FactorEstimator(dim=256, precision="bf16")
    made.z, made.q = (0.06 * torch.randn(500, 256, generator=draw) for _ in range(2))
    users = Histories(sp.csr_matrix(weight), CPU).batch(torch.arange(64))
    r = 0.1 * torch.rand(64, 500, generator=draw)
    loss, gradients = loss_of(made, users, r, Objective(floor=floor))
    made.precision = "float32"
    exact, exact_gradients = loss_of(made, users, r, Objective(floor=floor))
    assert loss.item() == pytest.approx(exact.item(), rel=5e-3)
    for mine, theirs in zip(gradients, exact_gradients, strict=True):
        assert float((mine - theirs).norm() / theirs.norm()) < 0.01


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize("self_exclude", [True, False])
def test_with_dropout_the_loss_is_that_of_the_items_kept(activation: Any, self_exclude: bool) -> None:
    made = estimator(activation=activation, self_exclude=self_exclude, history_dropout=0.5)
    weight, objective, users = weights(), Objective(2.0), batch(weights())
    left = kept(users, 0.5, torch.Generator().manual_seed(3), torch.float64)
    mask = np.zeros(weight.shape, bool)
    mask[users.row.numpy(), users.item.numpy()] = left.numpy() > 0
    assert 0 < mask.sum() < len(users.item)
    r = torch.full(weight.shape, 0.2, dtype=torch.float64)
    y = torch.from_numpy((weight > 0).astype(float))
    reference = objective.reference(r, y, literal(made, weight, mask), torch.from_numpy(weight).double())
    fast, _ = loss_of(made, users, r, objective, torch.Generator().manual_seed(3))
    assert fast.item() == pytest.approx(reference.item(), rel=1e-12)


def test_dropout_keeps_its_share_and_only_in_training() -> None:
    made = estimator(history_dropout=0.3)
    users = Histories(sp.csr_matrix(np.ones((500, N_ITEMS), np.float32)), CPU).batch(torch.arange(500))
    left = kept(users, 0.3, torch.Generator().manual_seed(0), torch.float64).reshape(500, N_ITEMS)
    assert set(torch.unique(left).tolist()) == {0.0, 1.0}
    error = (0.3 * 0.7 / left.numel()) ** 0.5
    assert abs(float(left.mean()) - 0.7) < 4 * error
    assert (left.mean(0) - 0.7).abs().max() < 5 * (0.3 * 0.7 / 500) ** 0.5  # no item is dropped more than another
    assert (kept(users, 0.3, None, torch.float64) == 1).all()
    torch.testing.assert_close(made.log_variance(users), estimator().log_variance(users))


def test_dropout_leaves_the_history_on_its_scale() -> None:
    """1 / sqrt of the items kept: the spread of p is the same with and without dropout."""
    draw = torch.Generator().manual_seed(0)
    made = FactorEstimator(dim=64, history_dropout=0.5)
    made.z, made.q = (torch.randn(200, 64, generator=draw) for _ in range(2))
    users = Histories.of_lists([list(range(100))] * 20, 200, CPU).batch(torch.arange(20))
    summed, scale = history(made.z, users, kept(users, 0.5, draw, torch.float32))
    whole, whole_scale = history(made.z, users, kept(users, 0.5, None, torch.float32))
    dropped, whole_p = (summed * scale[:, None]).std(), (whole * whole_scale[:, None]).std()
    assert float(dropped / whole_p) == pytest.approx(1, abs=0.25)


def test_the_loss_of_a_batch_is_the_sum_over_its_users() -> None:
    made, weight, objective = estimator(activation="tanh"), weights(), Objective(2.0, floor=0.01)
    r = torch.full(weight.shape, 0.3, dtype=torch.float64)
    together, _ = loss_of(made, batch(weight), r, objective)
    apart = sum(loss_of(made, batch(weight, [u]), r, objective)[0].item() for u in range(N_USERS))
    assert together.item() == pytest.approx(apart, rel=1e-12)


def test_a_log_variance_depends_on_the_history_alone() -> None:
    made, weight = estimator(activation="elu"), weights()
    with torch.no_grad():
        together = made.log_variance(batch(weight))
        items = torch.tensor([7, 0, 3])
        torch.testing.assert_close(made.log_variance(batch(weight), items), together[:, items])
        for user in range(N_USERS):
            torch.testing.assert_close(made.log_variance(batch(weight, [user]))[0], together[user])
        made.self_exclude = False  # a candidate is never left out of the history: it is not part of it
        torch.testing.assert_close(together, literal(made, weight))
        assert (together[4] == 0).all()


def test_factors_are_the_log_variance_taken_apart() -> None:
    made, users = estimator(activation="relu"), batch(weights())
    factors = made.factors(users)
    assert factors is not None
    p, q = factors
    torch.testing.assert_close(p @ q.T, made.log_variance(users))


def planted() -> tuple[Histories, Tensor]:
    """Two groups of users and of items; the expectation misses the pairs of the second group."""
    weight = np.zeros((40, 20), np.float32)
    rng = np.random.default_rng(0)
    for user in range(40):
        own = np.arange(10) + 10 * (user % 2)
        weight[user, rng.choice(own, 5, replace=False)] = 1
    r = torch.from_numpy(weight * np.where(np.arange(20) < 10, 0.95, 0.1).astype(np.float32))
    return Histories(sp.csr_matrix(weight), CPU), r


@pytest.mark.parametrize("self_exclude", [True, False])
def test_training_lowers_the_loss_and_finds_where_the_expectation_is_wrong(self_exclude: bool) -> None:
    histories, r = planted()
    made = FactorEstimator(dim=8, max_epochs=60, lr=0.02, batch_size=8, weight_decay=0.0, self_exclude=self_exclude)
    made.learn(histories, Fixed(r), Objective(2.0, floor=0.01), Stop())
    assert made.log is not None
    assert made.log.rows[-1]["loss"] < made.log.rows[0]["loss"]
    s = made.log_variance(histories.batch(torch.arange(40)))
    own = s[1::2, 10:].mean()  # pairs of the second group, where labels of 1 were badly predicted
    assert own > s[::2, :10].mean()
    assert own > s[1::2, :10].mean()
    assert not made.z.requires_grad


def test_the_expectation_that_training_reads_is_not_changed() -> None:
    histories, r = planted()
    before = r.clone()
    FactorEstimator(dim=4, max_epochs=2).learn(histories, Fixed(r), Objective(), Stop())
    assert torch.equal(r, before)


def test_a_catalogue_is_sampled_where_it_is_large_for_the_device() -> None:
    made = FactorEstimator(dim=4)
    assert [made.sample_size(n, CPU) for n in (10, 4096, 4097, 10**6)] == [0, 0, 2048, 2048]
    assert FactorEstimator(sampled_items="all").sample_size(10**6, CPU) == 0
    assert FactorEstimator(sampled_items=7).sample_size(9, CPU) == 7
    assert FactorEstimator(sampled_items=7).sample_size(7, CPU) == 0


def test_what_does_not_fit_into_memory_is_refused_with_what_it_needs() -> None:
    histories = Histories.of_lists([[0], [1]], 10**9, CPU)
    with pytest.raises(AleatorError, match=r"for 1,000,000,000 items needs \d+\.\d GiB and .* are free on cpu"):
        FactorEstimator().learn(histories, Fixed(torch.zeros(2, 2)), Objective(), Stop())


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_the_gradient_of_a_large_batch_has_the_same_bits_each_time(activation: Any) -> None:
    """Sums over repeated indices must not depend on how threads happen to meet (which they may not do in one run)."""
    draw = torch.Generator().manual_seed(0)
    weight = (np.random.default_rng(0).random((1500, 60)) < 0.8).astype(np.float32)
    made = FactorEstimator(dim=8, activation=activation)
    made.z, made.q = (torch.randn(60, 8, generator=draw).requires_grad_() for _ in range(2))
    users = Histories(sp.csr_matrix(weight), CPU).batch(torch.arange(1500))
    found = [loss_of(made, users, torch.full((1500, 60), 0.2), Objective())[1] for _ in range(8)]
    assert all(torch.equal(g, first) for again in found[1:] for g, first in zip(again, found[0], strict=True))


class TestTheLeanOptimizer:
    """It learns about what AdamW learns, in less memory."""

    def learned(self, epochs: int | None = None, **options: Any) -> FactorEstimator:
        world = al.simulate(n_users=200, n_items=120, per_user=80, seed=0).interactions
        histories = Histories.of(world, torch.device("cpu"))
        made = FactorEstimator(dim=8, init="spectral", max_epochs=6, **options)
        checks = iter(range(100))
        best = Stop(lambda: -abs(next(checks) - 3))  # the fourth epoch is the best
        stop = best if epochs is None else Stop(epochs=epochs)
        made.learn(histories, Fixed(torch.zeros(200, 120)), Objective(), stop)
        return made

    @pytest.mark.parametrize("sampled", ["all", 16])
    def test_it_goes_where_adamw_goes(self, sampled: Any) -> None:
        adam, lean = (self.learned(optimizer=name, sampled_items=sampled, batch_size=20) for name in ("adam", "lean"))
        for log in (adam.log, lean.log):
            assert log is not None
            assert log.best_epoch == 4
        fell = [log.rows[0]["loss"] - log.rows[-1]["loss"] for log in (adam.log, lean.log) if log is not None]
        assert fell[0] > 0
        assert fell[1] == pytest.approx(fell[0], rel=0.3)

    def test_the_same_seed_gives_the_same_bits(self) -> None:
        one, other = (self.learned(optimizer="lean", sampled_items=16) for _ in range(2))
        assert torch.equal(one.z, other.z)

    def test_the_weights_are_those_of_the_best_epoch(self) -> None:
        """They waited on disk."""
        best, fourth, last = (self.learned(epochs, optimizer="lean", batch_size=20) for epochs in (None, 4, 6))
        assert torch.equal(best.z, fourth.z)
        assert torch.equal(best.q, fourth.q)
        assert not torch.equal(best.z, last.z)

    def test_auto_takes_it_where_adamw_does_not_fit(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        made, cpu = FactorEstimator(dim=1024), torch.device("cpu")
        full = FactorEstimator(dim=1024, optimizer="adam").bytes_needed(10**6, cpu, checked=True)
        assert full / 2**30 == pytest.approx(45.8, abs=0.1)
        monkeypatch.setattr("aleator.uncertainty.factor.free_memory", lambda _: 22 << 30)
        monkeypatch.setattr("aleator.device.free_memory", lambda _: 22 << 30)
        assert made.bytes_needed(10**6, cpu, checked=True) < 20 << 30
        made.require_memory(10**6, cpu, checked=True)
        with pytest.raises(AleatorError, match=r"needs 45.8 GiB and 22.0 GiB are free"):
            FactorEstimator(dim=1024, optimizer="adam").require_memory(10**6, cpu, checked=True)
        monkeypatch.setattr("aleator.device.free_memory", lambda _: 8 << 30)
        with pytest.raises(AleatorError, match=r"needs 15.3 GiB and 8.0 GiB are free"):
            FactorEstimator(dim=1024, optimizer="lean").require_memory(10**6, cpu, checked=True)

    def test_its_batches_use_few_rows(self) -> None:
        histories = Histories.of_lists([range(5)] * 4000, 2000, torch.device("cpu"))
        made = FactorEstimator(dim=4, optimizer="lean", sampled_items=50)
        made._lean = True
        plan = made.schedule(True, 2000, histories.device)
        assert made.users_at_a_time(histories, plan) == (2000 // 8 - 50) // 5
        made.batch_size = 300  # what is given is kept
        assert made.users_at_a_time(histories, plan) == 300
