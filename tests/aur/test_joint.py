"""AUR-J: the joint loss against the literal one, and that training by it stays in bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.aur.joint import joint_loss
from aleator.batches import Users
from aleator.data.interactions import Interactions
from aleator.training.stop import Stop
from aleator.uncertainty.objective import Objective

MODELS: dict[str, Callable[[], al.Model]] = {
    "mf": lambda: al.MF(dim=4, iterations=3),
    "lightgcn": lambda: al.LightGCN(dim=4, layers=2, max_epochs=3, lr=0.05),
    "multvae": lambda: al.MultVAE(hidden=6, dim=3, max_epochs=3, lr=0.01),
}


@dataclass
class Both:
    """A model and an estimator, and the loss of both."""

    model: al.Model
    estimator: al.Estimator

    def loss(self, users: Users, items: Tensor | None) -> Tensor:
        objective = Objective(2.0, 0.02, 0.005, 0.03)
        return joint_loss(self.model, self.estimator, objective, users, items, observed=2.0, other=0.7)


def joint(model: al.Model, split: al.Split, **estimator: Any) -> Both:
    """Both parts trained for a moment, ready to go on together."""
    data = split.everything
    made = al.FactorEstimator(dim=5, max_epochs=2, lr=0.01, **estimator)
    model.fit_pairs(data, epochs=2)
    made.learn(model.histories, model, Objective(floor=0.01), Stop(epochs=2))
    return Both(model, made)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("self_exclude", [True, False])
def test_the_joint_loss_is_the_objective_in_both(name: str, self_exclude: bool, split: al.Split) -> None:
    """Summed pair by pair, each observed pair with s as training sees it."""
    both = joint(MODELS[name](), split, self_exclude=self_exclude)
    users = both.model.histories.batch(torch.tensor([3, 17, 40]))
    r, s = both.model.score_block(users), both.estimator.log_variance(users)
    s[users.row, users.item] = both.estimator.observed(users)
    y = torch.zeros_like(r).index_put_((users.row, users.item), torch.ones(()))
    total = 0.0
    for u in range(3):
        for i in range(r.shape[1]):
            weight = 2.0 if y[u, i] == 1 else 0.7
            residual, log_variance = float(r[u, i] - y[u, i]), float(s[u, i])
            precision = 1 / (float(torch.tensor(log_variance).exp()) + 0.03)
            total += weight * (residual**2 * precision + 0.02 * log_variance + 0.005 * log_variance**2)
    with torch.no_grad():
        assert float(both.loss(users, None)) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_an_observed_item_is_left_out_of_its_own_history(activation: Any, split: al.Split) -> None:
    both = joint(MODELS["mf"](), split, activation=activation)
    users = both.model.histories.batch(torch.tensor([3]))
    observed = both.estimator.observed(users)
    assert isinstance(both.estimator, al.FactorEstimator)
    z, q = both.estimator.z, both.estimator.q
    act = torch.tanh if activation == "tanh" else (lambda x: x)
    for place, item in enumerate(users.item.tolist()):
        rest = sum(z[i] for i in users.item.tolist() if i != item) / (len(users.item) - 1) ** 0.5
        assert float(observed[place]) == pytest.approx(float((act(rest) * q[item]).sum()), abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_reaches_the_parameters_of_both(name: str, split: al.Split) -> None:
    both = joint(MODELS[name](), split)
    parameters = [*both.model.parameters(), *both.estimator.parameters()]
    for parameter in parameters:
        parameter.requires_grad_()
    both.loss(both.model.histories.batch(torch.arange(20)), None).backward()  # type: ignore[no-untyped-call]
    for parameter in parameters:
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
        assert parameter.grad.abs().sum() > 0


def test_sampled_items_estimate_the_loss_of_all(split: al.Split) -> None:
    both = joint(MODELS["mf"](), split)
    users = both.model.histories.batch(torch.arange(10))
    n, draw = split.train.n_items, torch.Generator().manual_seed(0)
    drawn = [torch.randperm(n, generator=draw)[: n // 2].sort().values for _ in range(600)]
    with torch.no_grad():
        mean = torch.stack([both.loss(users, items) for items in drawn]).mean()
        assert float(mean) == pytest.approx(float(both.loss(users, None)), rel=0.02)


@pytest.mark.parametrize("weights", ["estimator", "model"])
def test_it_goes_on_from_the_two_stages_and_is_saved(
    weights: Any, small_aur: Callable[..., al.AUR], split: al.Split, tmp_path: Path
) -> None:
    short = {"model__iterations": 1, "estimator__max_epochs": 1}  # both have learned little before
    aur = small_aur(joint=al.Joint(weights=weights, lr=0.02, max_epochs=5), **short).fit(split)
    apart = small_aur(unobserved="model", **short).fit(split)
    assert aur.log is not None
    assert aur.log.best_epoch >= 1
    assert not torch.equal(aur.model.score([0, 1]), apart.model.score([0, 1]))
    aur.save(tmp_path / "m")
    loaded = al.AUR.load(tmp_path / "m")
    assert torch.equal(loaded.score([0, 1]), aur.score([0, 1]))
    assert loaded.log == aur.log
    assert not any(t.requires_grad for t in [*aur.model.parameters(), *aur.estimator.parameters()])


def test_the_two_kinds_of_weights_differ(small_aur: Callable[..., al.AUR], split: al.Split) -> None:
    kinds: list[Any] = ["estimator", "model"]
    short = {"model__iterations": 1, "estimator__max_epochs": 1}
    one, other = (small_aur(joint=al.Joint(weights=kind, lr=0.02, max_epochs=4), **short).fit(split) for kind in kinds)
    assert one.log is not None
    assert one.log.best_epoch >= 1
    assert not torch.equal(one.score([0]), other.score([0]))


def test_what_it_cannot_do_is_refused_before_anything_is_trained(small_aur: Callable[..., al.AUR]) -> None:
    for model in (al.EASE(), al.IPS(dim=4), al.UE(dim=4)):
        with pytest.raises(al.AleatorError, match="cannot be trained jointly"):
            al.AUR(model, joint=al.Joint())
    with pytest.raises(al.AleatorError, match="calibrated"):
        al.AUR(al.LightGCN(calibrate="linear"), joint=al.Joint())
    with pytest.raises(al.AleatorError, match="without a floor"):
        small_aur(joint=al.Joint(), floor=0.0)
    for options in ({"residuals": "loo"}, {"residuals": "constant"}, {"unobserved": "constant"}):
        with pytest.raises(al.AleatorError, match="takes the expectations of the model"):
            small_aur(joint=al.Joint(), **options)
    with pytest.raises(al.AleatorError, match="takes one model"):
        al.AUR(joint=al.Joint())


def test_it_has_one_setting_the_papers(small_aur: Callable[..., al.AUR], split: al.Split) -> None:
    aur = small_aur(joint=al.Joint(max_epochs=1)).fit(split)
    assert (aur.setting.residuals, aur.setting.unobserved) == ("in-sample", "model")
    assert aur.race == []


def test_the_spreads_are_those_after_it(small_aur: Callable[..., al.AUR], split: al.Split) -> None:
    aur = small_aur(joint=al.Joint(lr=0.05, max_epochs=3), model__iterations=1, lam=0.5).fit(split)
    assert aur.log is not None
    assert aur.log.best_epoch >= 1
    kept, blended = aur.spreads, aur.blended
    blended.measure_spreads()
    assert blended.spreads == kept


def test_where_it_does_not_help_the_two_stages_are_kept(small_aur: Callable[..., al.AUR], split: al.Split) -> None:
    apart = small_aur(unobserved="model").fit(split)
    for lr in (1e-12, 30.0):
        aur = small_aur(joint=al.Joint(lr=lr, max_epochs=3)).fit(split)
        if aur.log is not None and aur.log.best_epoch == 0:
            assert torch.equal(aur.score([0, 1]), apart.score([0, 1]))
            return
    raise AssertionError("neither tiny nor huge steps left the start as the best")


@pytest.mark.parametrize("seed", range(3))
def test_large_steps_do_not_make_it_diverge(seed: int) -> None:
    """Pairs that are fitted perfectly are where the variance could vanish."""
    board = [(u, i) for u in range(20) for i in range(20) if (u + i) % 2 == 0]
    data = Interactions.of([u for u, _ in board], [i for _, i in board])
    estimator = al.FactorEstimator(dim=8, max_epochs=5)
    aur = al.AUR(al.MF(dim=8), estimator=estimator, joint=al.Joint(lr=0.05, max_epochs=40), seed=seed).fit(data)
    assert torch.isfinite(aur.score(list(range(20)))).all()
