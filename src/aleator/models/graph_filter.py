"""GraphFilter: a low-pass filter on the graph of items, without training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from aleator.errors import require
from aleator.models.co_occurrence import raised, similarity_blocks, weighted_pairs
from aleator.models.item_item import ItemItem
from aleator.models.similarities import Block
from aleator.options import Between, Ranges


@dataclass(kw_only=True, eq=False, repr=False)
class GraphFilter(ItemItem):
    """A normalised item graph: S = (R~'R~)^power, elementwise, with R~ = D_u^-user_exponent R D_i^-item_exponent.

    D_u and D_i hold the degrees of users and items. r_ui is the sum of S_ji over the history, calibrated to the label's
    scale. Exponents of 0.5 and a power of 1 give the linear low-pass filter of GF-CF (Shen et al., 2021). The power is
    from Turbo-CF (Park et al., 2024).
    """

    user_exponent: float = 0.5  # exponent of the degrees of users; a higher one gives less weight to long histories
    item_exponent: float = 0.6  # exponent of the degrees of items; a higher one lifts rare items
    power: float = 0.8  # elementwise power of the graph

    ranges: ClassVar[Ranges] = {
        "user_exponent": Between(0.2, 0.8),
        "item_exponent": Between(0.3, 0.8),
        "power": Between(0.5, 1.5),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.user_exponent >= 0, f"user_exponent is {self.user_exponent}", "give at least 0")
        require(self.item_exponent >= 0, f"item_exponent is {self.item_exponent}", "give at least 0")
        require(self.power > 0, f"power is {self.power}", "give a power above 0")

    def blocks(self) -> Iterator[Block]:
        degree = np.asarray(self.fitted.csr.sum(0)).ravel().astype(np.float64)
        x = weighted_pairs(self.fitted, self.user_exponent)
        return similarity_blocks(x, raised(degree, -self.item_exponent), self.similar, self.torch_device)

    def similar(self, together: Tensor, one: Tensor, other: Tensor) -> Tensor:
        """Entries of S, from entries of X'X and the scaled degrees of the two items."""
        return (together * one * other).pow_(self.power)
