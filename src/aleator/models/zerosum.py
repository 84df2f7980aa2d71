"""ZeroSum: BPR with a regulariser that keeps scores similar among the items that a user observed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Users
from aleator.errors import require
from aleator.models.bpr import BPR
from aleator.options import Among, Between, Ranges
from aleator.training.negatives import whole_below


@dataclass(kw_only=True, eq=False, repr=False)
class ZeroSum(BPR):
    """BPR whose scores do not grow with popularity among the items that a user observed (Rhee, Cho and Suh, 2022).

    The loss of a triple (u, p, n) is 1 - `evenness` times that of BPR plus `evenness` times a regulariser. The
    regulariser "zero_sum" is -ln(1 - tanh |r_up + r_un|). It draws observed items to one score and all others to its
    opposite. "pos2neg2" is -ln(1 - tanh |r_up - r_up'|) - ln(1 - tanh |r_un - r_un'|), with another triple (u, p', n')
    of the user. r_ui is an inner product that is calibrated to the label's scale after training.
    """

    regulariser: Literal["zero_sum", "pos2neg2"] = "zero_sum"  # the term of the loss that keeps scores similar
    evenness: float = 0.1  # weight of the regulariser, from 0 (BPR) to below 1

    ranges: ClassVar[Ranges] = BPR.ranges | {"evenness": Between(0.01, 0.5, log=True)}
    paper_ranges: ClassVar[Ranges] = BPR.paper_ranges | {"evenness": Among(0.1, 0.2, 0.3, 0.4, 0.5)}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.evenness < 1, f"evenness is {self.evenness}", "give at least 0 and less than 1")

    def triples(self, observed: Tensor, other: Tensor, users: Users, generator: torch.Generator) -> Tensor:
        if self.regulariser == "zero_sum":
            uneven = cost(observed + other)
        else:
            another = another_of_the_user(users, generator)
            theirs, others = observed.index_select(0, another), other.index_select(0, another)
            uneven = cost(observed - theirs) + cost(other - others)
        ranked = super().triples(observed, other, users, generator)
        return (1 - self.evenness) * ranked + self.evenness * uneven


def cost(difference: Tensor) -> Tensor:
    """-ln(1 - tanh |d|), computed as ln(1 + e^(2 |d|)) - ln 2, which stays finite."""
    return F.softplus(2 * difference.abs()) - math.log(2)


def another_of_the_user(users: Users, generator: torch.Generator) -> Tensor:
    """[n] the index of a random other pair of the same user, or of the pair itself if the user has no other."""
    size, first = users.size[users.row], (users.size.cumsum(0) - users.size)[users.row]
    inside = torch.arange(len(size), device=size.device) - first
    return first + (inside + 1 + whole_below(size - 1, users, generator)) % size
