"""The prior: popularity for users with short histories, chosen on held-out pairs."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.aur import prior
from aleator.aur.prior import PRIORS, choose_prior, scarcity, share_of_users
from aleator.batches import Histories, Users
from aleator.data.interactions import Interactions
from aleator.evaluation.held_out import HeldOut

CPU = torch.device("cpu")
N_USERS, N_ITEMS = 300, 80


@pytest.fixture
def held_out() -> HeldOut:
    """People take 20 items each, and popular ones more often."""
    rng = np.random.default_rng(0)
    chance = np.linspace(3, 0.2, N_ITEMS)
    taken = np.argsort(rng.gumbel(size=(N_USERS, N_ITEMS)) + np.log(chance), 1)[:, -25:]
    user = np.repeat(np.arange(N_USERS), 25)
    held = np.tile(np.arange(25) < 5, N_USERS)
    item = rng.permuted(taken, axis=1).ravel()
    made = [Interactions.of(user[mask], item[mask]) for mask in (~held, held)]
    ids = made[0].items  # all items are taken by somebody
    assert len(ids) == N_ITEMS
    return HeldOut(made[0], Interactions.of(user[held], item[held], items=ids, users=made[0].users), CPU)


def test_the_scarcity_of_a_history_falls_with_its_size() -> None:
    lists = [[0], [0, 1, 2, 3], [], list(range(20)), list(range(40))]
    users = Histories.of_lists(lists, 40, CPU).batch(torch.arange(5))
    assert scarcity(users).flatten().tolist() == pytest.approx([0.95, 0.2, 0.95, 0.0, 0.0], abs=1e-7)
    assert share_of_users(Histories.of_lists([[0], [0, 3]], 5, CPU)).tolist() == [1.0, 0.0, 0.0, 0.5, 0.0]


def test_where_scores_say_nothing_of_short_histories_popularity_counts(held_out: HeldOut) -> None:
    noise = torch.rand(N_USERS, N_ITEMS, generator=torch.Generator().manual_seed(0))

    def score(users: Users) -> Tensor:
        return 0.01 * noise[: len(users)]

    assert choose_prior(score, 1.0, held_out, seed=0) > 0


def test_where_popularity_misleads_there_is_no_prior(held_out: HeldOut) -> None:
    share = share_of_users(held_out.fitted)
    wanted = torch.zeros(N_USERS, N_ITEMS)
    for user in range(N_USERS):
        rows = held_out.held.batch(torch.tensor([user]))
        wanted[user, rows.item] = 1.0
    order = held_out.who.tolist()

    def score(users: Users) -> Tensor:  # it knows what is held out, if a little above popularity
        own = wanted[users.index] if (users.index >= 0).all() else wanted[order[: len(users)]]
        return own - 0.5 * share

    assert choose_prior(score, 1.0, held_out, seed=0) == 0


def test_a_weight_that_loses_on_whole_histories_is_not_taken(
    held_out: HeldOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short histories gain the most from the highest weight, but whole ones lose more by all above 1."""
    means = {
        "short": torch.tensor([0.6, 0.5, 0.4, 0.35, 0.3, 0.2]),
        "whole": torch.tensor([0.1, 0.2, 0.3, 0.5, 0.5, 0.5]),
    }

    class Told:
        fitted = held_out.fitted

        def __init__(self, kind: str = "whole") -> None:
            self.kind = kind

        def cut(self, sizes: tuple[int, ...], seed: int) -> Told:
            return Told("short")

        def measure(self, scorings: object) -> Tensor:
            draw = torch.Generator().manual_seed(1)
            return means[self.kind][:, None] + 0.001 * torch.rand(len(PRIORS), 50, generator=draw)

    monkeypatch.setattr(prior, "merits", lambda measured: measured)
    assert choose_prior(lambda users: torch.zeros(0), 1.0, cast(HeldOut, Told()), seed=0) == 1.0


def test_aur_chooses_it_and_keeps_it(split: al.Split, tmp_path: object) -> None:
    estimator = al.FactorEstimator(dim=4, max_epochs=1, init=0.01)
    aur = al.AUR(al.MF(dim=4), estimator=estimator, residuals="in-sample", unobserved="constant", discount=0.0).fit(
        split
    )
    assert aur.prior_used in PRIORS
