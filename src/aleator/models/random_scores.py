"""Random: random scores, the baseline that any model must beat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.models.base import Model
from aleator.training.stop import Stop

_GOLDEN = -0x61C8864680B583EB  # 2^64 / golden ratio, as a signed number


@dataclass(kw_only=True, eq=False, repr=False)
class Random(Model):
    """Random scores: the baseline that knows nothing (Cremonesi et al., 2010).

    r_ui is uniform, and its mean is the share of observed pairs among all pairs. It depends only on the seed, the user
    (or the history of a newcomer) and the item. It is the same to the bit on any device.
    """

    density: float = field(init=False)  # observed pairs / all pairs

    facts: ClassVar[tuple[str, ...]] = ("density",)
    personalises: ClassVar[bool] = False

    def learn(self, stop: Stop) -> None:
        self.density = len(self.fitted) / (self.fitted.n_users * self.fitted.n_items)

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        who = self._who(users)
        if items is None:
            items = torch.arange(self.fitted.n_items, device=who.device)
        return self._uniform(who[:, None], items)

    def raw_pairs(self, users: Users) -> Tensor:
        return self._uniform(self._who(users)[users.row], users.item)

    def _who(self, users: Users) -> Tensor:
        """[B] a random number for each user, from the dense id, or from the set of history items of a newcomer."""
        history = torch.zeros_like(users.index).index_add_(0, users.row, scrambled(users.item + 1))
        seed = torch.full_like(users.index, self.seed)
        return scrambled(torch.where(users.index < 0, history, users.index) + scrambled(seed))

    def _uniform(self, who: Tensor, item: Tensor) -> Tensor:
        bits = scrambled(who + _GOLDEN * (item + 1)) >> 40 & 0xFFFFFF  # 24 bits, which float32 holds exactly
        uniform = bits.float() / (1 << 24)
        spread = min(self.density, 1 - self.density)  # keeps scores between 0 and 1
        return self.density - spread + 2 * spread * uniform


def scrambled(number: Tensor) -> Tensor:
    """The finaliser of splitmix64 (Steele, Lea and Flood, 2014). Integers overflow in the same way on any device."""
    number = (number ^ (number >> 30 & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    number = (number ^ (number >> 27 & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return number ^ (number >> 31 & 0x1FFFFFFFF)
