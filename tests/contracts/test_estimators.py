"""What every uncertainty estimator must do, whatever its algorithm."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.batches import Histories, Users
from aleator.data.simulate import World
from aleator.training.stop import Stop
from aleator.uncertainty import ESTIMATORS, Estimator, Objective

SMALL: dict[str, list[dict[str, Any]]] = {
    "factor": [
        {"dim": 8, "max_epochs": 4, "lr": 0.01},
        {"dim": 8, "max_epochs": 4, "lr": 0.01, "activation": "tanh", "history_dropout": 0.3},
        {"dim": 8, "max_epochs": 4, "lr": 0.01, "sampled_items": 20},
        {"dim": 8, "max_epochs": 4, "lr": 0.01, "sampled_items": 1, "batch_size": 1},  # few rows in use
        {"dim": 8, "max_epochs": 4, "lr": 0.01, "optimizer": "lean"},
        {"dim": 8, "max_epochs": 4, "lr": 0.01, "optimizer": "lean", "sampled_items": 20},
    ],
    "mlp": [
        {"hidden": 8, "max_epochs": 4, "lr": 0.01},
        {"hidden": 8, "max_epochs": 4, "lr": 0.01, "sampled_items": 20, "history_dropout": 0.0},
    ],
}
CASES = [(name, options) for name in ESTIMATORS.classes for options in SMALL.get(name, [{}])]
Case = tuple[str, dict[str, Any]]

every_estimator = pytest.mark.parametrize(
    "case",
    CASES,
    ids=lambda c: " ".join(
        [c[0], *[f"{n}={v}" for n, v in c[1].items() if n not in ("dim", "hidden", "max_epochs", "lr")]]
    ),
)


@pytest.fixture(scope="module")
def histories(world: World) -> Histories:
    return Histories(world.interactions.csr, torch.device("cpu"))


class Smooth:
    """Expectations between 0 and 1, made anew for each call."""

    def score_block(self, users: Users, items: torch.Tensor | None = None) -> torch.Tensor:
        items = torch.arange(50) if items is None else items
        return torch.sigmoid(torch.sin(users.index[:, None].float() + 0.3 * items) - 2)

    def score_pairs(self, users: Users) -> torch.Tensor:
        return self.score_block(users)[users.row, users.item]


expectation = Smooth()


def build(case: Case, **more: Any) -> Estimator:
    return ESTIMATORS[case[0]](**{**case[1], "device": "cpu", **more})


def trained(case: Case, histories: Histories, **more: Any) -> Estimator:
    made = build(case, **more)
    made.learn(histories, expectation, Objective(2.0, floor=0.01), Stop())
    return made


@every_estimator
def test_log_variances_are_finite_and_differ_between_items(case: Case, histories: Histories) -> None:
    s = trained(case, histories).log_variance(histories.batch(torch.arange(80)))
    assert s.shape == (80, 50)
    assert torch.isfinite(s).all()
    assert s.std(dim=1).min() > 0
    assert not s.requires_grad


@every_estimator
def test_they_do_not_depend_on_the_batch_nor_on_which_items_are_asked_for(case: Case, histories: Histories) -> None:
    made = trained(case, histories)
    together = made.log_variance(histories.batch(torch.arange(80)))
    items = torch.tensor([7, 49, 7, 0])
    for user in (0, 41, 79):
        alone = histories.batch(torch.tensor([user]))
        torch.testing.assert_close(made.log_variance(alone)[0], together[user], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(made.log_variance(alone, items)[0], together[user, items], rtol=1e-5, atol=1e-6)


@every_estimator
def test_a_newcomer_of_the_same_history_has_the_same_ones(case: Case, histories: Histories) -> None:
    made = trained(case, histories)
    known = histories.batch(torch.tensor([3]))
    new = Histories.of_lists([known.item.numpy()], 50, torch.device("cpu")).batch(torch.arange(1), known=False)
    torch.testing.assert_close(made.log_variance(new), made.log_variance(known))


@every_estimator
def test_terms_add_up_to_the_log_variances_or_are_what_leaving_an_item_out_makes(
    case: Case, histories: Histories
) -> None:
    made, users = trained(case, histories), histories.batch(torch.tensor([3, 60]))
    items = torch.tensor([[7, 49, 7], [0, 1, 2]])
    whole, terms = made.log_variance(users).gather(1, items), made.terms(users, items)
    assert terms.values.shape == (len(users.item), 3)
    if terms.exact:
        sums = torch.zeros(2, 3).index_add(0, users.row, terms.values)
        torch.testing.assert_close(sums, whole, rtol=1e-4, atol=1e-5)
        return
    for n, (row, item) in enumerate(zip(users.row.tolist(), users.item.tolist(), strict=True)):
        rest = users.item[(users.row == row) & (users.item != item)].numpy()
        less = Histories.of_lists([rest], 50, torch.device("cpu")).batch(torch.arange(1), known=False)
        differences = whole[row] - made.log_variance(less)[0, items[row]]
        torch.testing.assert_close(terms.values[n], differences, rtol=1e-4, atol=1e-5)


@every_estimator
def test_tensors_hold_all_that_was_learned(case: Case, histories: Histories) -> None:
    made, other = trained(case, histories), build(case)
    other.set_tensors({name: value.clone() for name, value in made.tensors().items()})
    users = histories.batch(torch.arange(80))
    assert torch.equal(other.log_variance(users), made.log_variance(users))


@every_estimator
def test_the_same_seed_gives_the_same_bits(case: Case, histories: Histories) -> None:
    one, same, other = (trained(case, histories, seed=seed).tensors() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


@every_estimator
def test_what_is_handed_out_may_be_overwritten(case: Case, histories: Histories) -> None:
    made, users = trained(case, histories), histories.batch(torch.arange(5))
    before = made.log_variance(users).clone()
    made.log_variance(users).fill_(9)
    assert torch.equal(made.log_variance(users), before)


@every_estimator
def test_it_trains_for_the_epochs_asked_for_or_stops_on_the_metric(case: Case, histories: Histories) -> None:
    made = build(case, max_epochs=4)
    made.learn(histories, expectation, Objective(), Stop(epochs=2))
    assert made.log is not None
    assert made.log.best_epoch == len(made.log.rows) == 2
    falling = iter(range(100, 0, -5))
    made = build(case, max_epochs=50, patience=2, check_every=1)
    made.learn(histories, expectation, Objective(), Stop(lambda: float(next(falling))))
    assert made.log is not None
    assert made.log.best_epoch == 1
    assert len(made.log.rows) == 3


@every_estimator
def test_a_seed_decides_the_epochs_in_order_so_that_a_longer_training_goes_through_the_shorter(
    case: Case, histories: Histories
) -> None:
    short, longer = build(case), build(case, max_epochs=9)
    short.learn(histories, expectation, Objective(), Stop(epochs=3))
    longer.learn(histories, expectation, Objective(), Stop(epochs=9))
    assert short.log is not None
    assert longer.log is not None
    assert [row["loss"] for row in short.log.rows] == [row["loss"] for row in longer.log.rows][:3]


@every_estimator
def test_the_model_under_it_stays_frozen(case: Case, split: al.Split) -> None:
    bare = al.MF(dim=8, seed=0).fit(split)
    aur = al.AUR(al.MF(dim=8, seed=0), estimator=build(case)).fit(split)
    users = list(range(80))
    assert torch.equal(aur.model.score(users), bare.score(users))


@every_estimator
def test_a_diverging_training_names_its_epoch(case: Case, histories: Histories) -> None:
    with pytest.raises(al.AleatorError, match=r"diverged.*epoch \d+"):
        trained(case, histories, lr=1e30)


@every_estimator
def test_options_are_checked_by_name_and_the_docstring_cites(case: Case) -> None:
    with pytest.raises(al.AleatorError, match="did you mean 'seed'"):
        build(case, sede=1)
    assert re.search(r"(19|20)\d\d\)", ESTIMATORS[case[0]].__doc__ or "")


@every_estimator
def test_on_the_checkerboard_the_withheld_pairs_are_more_uncertain_than_the_others(case: Case) -> None:
    """Their zeros are the wrong ones."""
    n = 20
    board = np.add.outer(np.arange(n), np.arange(n)) % 2 == 0
    withheld = np.eye(n, dtype=bool)
    data = al.Interactions.of(*np.nonzero(board & ~withheld))
    options: dict[str, Any] = {"residuals": "in-sample", "unobserved": "model", "alpha": 2.0, "refit": False}
    aur = al.AUR(al.MF(dim=4), estimator=build(case, max_epochs=60), **options).fit(data)
    s = aur.estimator.log_variance(aur.users(list(range(n)))).numpy()
    assert s[withheld].mean() > s[~board].mean()
