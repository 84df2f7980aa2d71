"""The prior: how much popularity counts for a user with a short history.

A user with n history items, fewer than 20, gets weight * (1 / n - 1 / 20) times the share of all users who took an item,
on the scale of the expectation. A user without a history is ranked by popularity alone, so the prior is what lies
between. A user with 20 items or more has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from aleator.aur.choice import highest, merits, standard_error
from aleator.batches import Histories, Users
from aleator.evaluation.held_out import HeldOut

PRIORS = (8.0, 4.0, 2.0, 1.0, 0.5, 0.0)  # weights to choose from
GIVEN = (1, 2, 5, 10)  # sizes that histories are cut to
LONG = 20  # a history of this size has no prior
_EQUAL = 0.002  # a merit lower by this share is about the same


def scarcity(users: Users) -> Tensor:
    """[B, 1] 1 / n - 1 / 20 for a history of n items, and 0 for one of 20 or more. An empty one counts as one item."""
    return torch.reciprocal(users.size[:, None].clamp(1, LONG)) - 1 / LONG


def share_of_users(histories: Histories) -> Tensor:
    """[n_items] the share of all users who took each item."""
    return torch.div(histories.popularity, histories.n_users)


def choose_prior(score: Callable[[Users], Tensor], unit: float, held_out: HeldOut, seed: int) -> float:
    """The weight of the prior, chosen on held-out pairs. `unit` is 1 / c_r.

    Users with held-out pairs are taken twice: with their whole histories, and for newcomers whose histories are cut to a
    few random items. The weight has the highest mean of both merits. A merit is that of `choose_lam`, relative to no
    prior. For newcomers a weight must gain by a standard error. For whole histories it must not lose by more than one,
    or by more than a rounding of 0.2 %.
    """
    share = unit * share_of_users(held_out.fitted)

    def scorings(users: Users) -> Iterator[Tensor]:
        scores = score(users)
        yield from (scores + weight * scarcity(users) * share for weight in PRIORS)

    with torch.no_grad():
        short, whole = (merits(held.measure(scorings)) for held in (held_out.cut(GIVEN, seed), held_out))
    gain, loss = short - short[-1], whole[-1] - whole
    allowed = gain.mean(1) >= standard_error(gain)  # no prior is allowed too
    allowed &= loss.mean(1) <= standard_error(loss).clamp_min(_EQUAL)
    return PRIORS[highest((short + whole).mean(1).masked_fill(~allowed, -torch.inf))]
