"""Nearest neighbours among the items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.data.interactions import Array
from aleator.errors import require
from aleator.models.co_occurrence import CoOccurrenceModel
from aleator.options import Among, Between, Ranges


@dataclass(kw_only=True, eq=False, repr=False)
class ItemKNN(CoOccurrenceModel):
    """Item-based nearest neighbours (Sarwar et al., 2001; Deshpande and Karypis, 2004).

    r_ui is the similarity of i to the items of the history, summed and fitted to the label: near 0 where none of its
    `neighbours` was taken. S_ij = n_ij / (sqrt(n_i n_j) + shrink), where n_ij users took both and n_i took i: the cosine,
    less where few users speak for it. Users count d^(-2 user_exponent) each, scaled so that a pair counts 1 on average.
    """

    neighbours: int | Literal["auto"] = 200
    shrink: float = 10.0
    user_exponent: float = 0.25

    ranges: ClassVar[Ranges] = {
        "neighbours": Among(25, 50, 100, 200, 400, 800),
        "shrink": Between(0.1, 100, log=True),
        "user_exponent": Between(0.0, 0.6),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.shrink >= 0, f"shrink is {self.shrink}", "give at least 0")

    def weighted(self) -> sp.csr_matrix:
        x = super().weighted()
        return x * np.sqrt(self.fitted.csr.power(2).sum() / x.power(2).sum())

    def item_scale(self, x: sp.csr_matrix) -> Array:
        norm: Array = np.sqrt(np.asarray(x.power(2).sum(0)).ravel())
        return norm

    def similar(self, together: Tensor, one: Tensor, other: Tensor) -> Tensor:
        tiny = torch.finfo(together.dtype).tiny  # an item that nobody took is like none
        return together / (one * other + self.shrink).clamp_min(tiny)
