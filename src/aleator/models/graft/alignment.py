"""Whether scores from elsewhere belong to the users that they are given for."""

from __future__ import annotations

import torch
from torch import Tensor

from aleator.batches import Histories, pieces
from aleator.device import budget
from aleator.models.calibration import Block

_USERS = 1024  # most users to ask
_LEAST = 20  # with fewer users nothing can be told
_ERRORS = 3.0  # standard errors above 0 that the mean advantage must have


def follows_users(block: Block, histories: Histories, known: Tensor, seed: int) -> bool:
    """Whether users get higher scores on their own histories than other users get on the same items.

    Popular items score high for everybody, so rows in a wrong order still score observed pairs higher than others. But
    then a user's history fits the next user's row as well as the own one. Scores are standardised for each user. Scores
    that are the same for all users pass, and so do data with few users.
    """
    who = ((histories.host_size > 0) & known.cpu()).nonzero().squeeze(1)
    who = who[torch.randperm(len(who), generator=torch.Generator().manual_seed(seed))[:_USERS]]
    size = max(min(budget(histories.device).calibration_scores // histories.n_items, len(who)), _LEAST)
    found = [_advantage(block, histories, index) for index in pieces(who, size) if len(index) > 1]
    if len(who) < _LEAST or not found:
        return True
    gain = torch.cat(found)
    if float(gain.abs().max()) < 1e-5:
        return True
    error: float = float(gain.std()) / len(gain) ** 0.5
    return float(gain.mean()) > _ERRORS * error


def _advantage(block: Block, histories: Histories, index: Tensor) -> Tensor:
    """[n] how much higher each user's row scores the own history than the row of the next user of the batch does."""
    users = histories.batch(index, trained=True)
    scores = block(users).double()
    scores = (scores - scores.mean(1, keepdim=True)) / scores.std(1, keepdim=True).clamp_min(1e-12)
    own, others = scores[users.row, users.item], scores.roll(-1, 0)[users.row, users.item]
    total = torch.zeros(len(users), dtype=torch.float64, device=scores.device).index_add_(0, users.row, own - others)
    return total / users.size.clamp_min(1)
