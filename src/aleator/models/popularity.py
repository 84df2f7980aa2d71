"""Popularity: the baseline that a personalised model must beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.models.base import Model
from aleator.training.stop import Stop


@dataclass(kw_only=True, eq=False, repr=False)
class Popularity(Model):
    """r_ui is the share of all users who took the item. It is the same for every user (Cremonesi et al., 2010)."""

    share: Tensor = field(init=False)  # [n_items]

    learned: ClassVar[Mapping[str, str]] = {"share": "[n_items]"}
    personalises: ClassVar[bool] = False
    streams: ClassVar[bool] = True

    def learn(self, stop: Stop) -> None:
        self.share = torch.from_numpy(self.fitted.popularity / self.fitted.n_users).float().to(self.torch_device)

    def raw_factors(self, users: Users) -> tuple[Tensor, Tensor]:
        return self.share.new_ones(len(users), 1), self.share[:, None]
