"""A low-pass filter on the graph of items, without training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from aleator.data.interactions import Array
from aleator.errors import require
from aleator.models.co_occurrence import CoOccurrenceModel, raised
from aleator.options import Between, Ranges


@dataclass(kw_only=True, eq=False, repr=False)
class GraphFilter(CoOccurrenceModel):
    """Normalised item graph: S = (R~'R~)^power, elementwise, with R~ = D_u^-user_exponent R D_i^-item_exponent.

    D_u and D_i hold the degrees of users and items. r_ui is what the history passes on to i, fitted to the label. With
    exponents of 0.5 and power 1 it is the linear low-pass filter of GF-CF (Shen et al., 2021); the power is that of
    Turbo-CF (Park et al., 2024). A higher `item_exponent` lifts rare items.
    """

    item_exponent: float = 0.6
    power: float = 0.8

    ranges: ClassVar[Ranges] = {
        "user_exponent": Between(0.2, 0.8),
        "item_exponent": Between(0.3, 0.8),
        "power": Between(0.5, 1.5),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.item_exponent >= 0, f"item_exponent is {self.item_exponent}", "give at least 0")
        require(self.power > 0, f"power is {self.power}", "give a power above 0")

    def item_scale(self, x: sp.csr_matrix) -> Array:
        return raised(np.asarray(self.fitted.csr.sum(0)).ravel().astype(np.float64), -self.item_exponent)

    def similar(self, together: Tensor, one: Tensor, other: Tensor) -> Tensor:
        return (together * one * other).pow_(self.power)
