"""MultVAE: against a literal forward pass, user by user."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.batches import Histories, Users
from aleator.models.multvae import MultVAE

from .literal import history_of, same_gradients, squared_error, tiny_world

HIDDEN, DIM, ITEMS = 4, 3, 9


def started(**options: Any) -> MultVAE:
    """On the tiny world, with random parameters in float64."""
    model = MultVAE(hidden=HIDDEN, dim=DIM, **options)
    model.data = tiny_world()
    draw = torch.Generator().manual_seed(0)
    shapes = (ITEMS + 1, HIDDEN), (HIDDEN + 1, 2 * DIM), (DIM + 1, HIDDEN), (ITEMS, HIDDEN + 1)
    made = [(0.7 * torch.randn(s, generator=draw, dtype=torch.float64)).requires_grad_() for s in shapes]
    model.encoder, model.gaussian, model.decoder, model.item_factors = made
    return model


def forward(model: MultVAE, history: list[int], keep: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of all items and the divergence, of one user; written with layers, biases apart."""
    first, second, third, last = model.parameters()
    given = torch.zeros(ITEMS, dtype=torch.float64)
    given[history] = 1
    given = given / max(float(given.norm()), 1)
    given[history] = given[history] * keep.double()
    h = torch.tanh(given @ first[:ITEMS] + first[ITEMS])
    both = h @ second[:HIDDEN] + second[HIDDEN]
    mean, log_variance = both[:DIM], both[DIM:]
    z = mean + noise * torch.exp(0.5 * log_variance)
    h = torch.tanh(z @ third[:DIM] + third[DIM])
    divergence = -0.5 * (1 + log_variance - mean**2 - torch.exp(log_variance)).sum()
    return last[:, :HIDDEN] @ h + last[:, HIDDEN], divergence


@pytest.mark.parametrize(
    "options",
    [{"sample": False}, {}, {"dropout": 0.4}, {"kl": 0.3}, {"kl": 0.3, "sample": False, "dropout": 0.4}],
    ids=str,
)
def test_the_loss_is_the_papers_in_value_and_gradient(options: dict[str, Any]) -> None:
    model = started(mu=0.2, **options)
    users = model.histories.batch(torch.tensor([4, 0, 3]))
    draw = torch.Generator().manual_seed(7)  # drawn in the order of the model: what is kept, then the noise
    keep = torch.ones(len(users.item))
    if model.dropout_used:
        keep = (torch.rand(len(users.item), generator=draw) >= 0.4) / 0.6
    noise = torch.randn(3, DIM, generator=draw) if model.sample else torch.zeros(3, DIM)
    passed = [forward(model, history_of(users, u), keep[users.row == u], noise[u]) for u in range(3)]
    expected = squared_error(lambda place, item, _: passed[place][0][item], users, ITEMS, 0.2)
    expected = expected + model.kl * sum((divergence for _, divergence in passed), torch.zeros(()))
    mine = model.loss(users, torch.Generator().manual_seed(7))
    same_gradients(mine, expected, model.parameters(), exact=1e-6)


def test_scores_are_the_forward_pass_without_chance_and_send_gradients_to_the_parameters() -> None:
    model = started(dropout=0.5)
    users, items = model.histories.batch(torch.tensor([1, 2])), torch.tensor([0, 5, 7])
    rows = [forward(model, history_of(users, u), torch.ones(()), torch.zeros(DIM))[0] for u in range(2)]
    model.publish()
    mine = model.score_block(users, items).square().sum()
    same_gradients(mine, torch.stack(rows)[:, items].square().sum(), model.parameters(), exact=1e-6)


def test_a_newcomer_is_scored_as_a_user_with_the_same_history(split: al.Split) -> None:
    model = MultVAE(hidden=8, dim=4, max_epochs=2).fit(split)
    history = model.fitted.item[model.fitted.user == 5].tolist()
    torch.testing.assert_close(model.score({"new": history}), model.score([5]))


def test_a_history_that_is_empty_or_all_left_out_gives_finite_scores_and_gradients() -> None:
    model = started(dropout=0.999999)
    nobody: Users = Histories.of_lists([[], [2]], ITEMS, torch.device("cpu")).batch(torch.arange(2), known=False)
    loss = model.loss(nobody, torch.Generator().manual_seed(0))
    for gradient in torch.autograd.grad(loss, model.parameters()):
        assert torch.isfinite(gradient).all()
    assert torch.isfinite(model.raw_block(nobody)).all()


def test_a_huge_log_variance_does_not_overflow() -> None:
    model = started()
    with torch.no_grad():
        model.gaussian[-1, DIM:] = 1e6
    loss = model.loss(model.histories.batch(torch.tensor([0, 1])), torch.Generator().manual_seed(0))
    assert math.isfinite(float(loss.detach()))
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, model.parameters()))


@pytest.mark.parametrize(
    ("option", "value"), [("hidden", 0), ("dim", 0), ("dropout", 1.0), ("kl", -0.1), ("weight_decay", -1.0)]
)
def test_options_that_make_no_sense_are_refused(option: str, value: Any) -> None:
    with pytest.raises(al.AleatorError, match=option):
        MultVAE(**{option: value})


def test_each_option_of_training_changes_what_is_learned(split: al.Split) -> None:
    options: dict[str, Any] = {"hidden": 8, "dim": 4, "max_epochs": 2, "refit": False, "weight_decay": 0.1}
    changes: list[dict[str, Any]] = [{}, {"dropout": 0.5}, {"sample": False}, {"kl": 1.0}, {"weight_decay": 5.0}]
    scores = [MultVAE(**options | change).fit(split).score([0, 1]) for change in changes]
    for i, a in enumerate(scores):
        assert not any(torch.equal(a, b) for b in scores[:i])


def test_dropout_is_chosen_on_held_out_pairs(split: al.Split) -> None:
    options: dict[str, Any] = {"hidden": 16, "dim": 8, "max_epochs": 6, "device": "cpu"}
    auto = al.MultVAE(**options).fit(split)
    by_dropout = {each["dropout"]: each["recall"] for each in auto.tried}
    assert set(by_dropout) == {0.0, 0.5}
    assert by_dropout[auto.dropout_used] == max(by_dropout.values())
    same = al.MultVAE(**options, dropout=auto.dropout_used).fit(split)
    torch.testing.assert_close(auto.score([0, 1]), same.score([0, 1]))
    other = al.MultVAE(**options, dropout=0.5 - auto.dropout_used).fit(split)
    assert not torch.allclose(auto.score([0, 1]), other.score([0, 1]))
