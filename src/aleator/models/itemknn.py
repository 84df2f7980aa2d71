"""ItemKNN: nearest neighbours among the items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from aleator.errors import require
from aleator.models.co_occurrence import similarity_blocks, weighted_pairs
from aleator.models.item_item import ItemItem, Neighbours
from aleator.models.similarities import Block
from aleator.options import Among, Between, Ranges


@dataclass(kw_only=True, eq=False, repr=False)
class ItemKNN(ItemItem):
    """Item-based nearest neighbours (Sarwar et al., 2001; Deshpande and Karypis, 2004).

    r_ui is the sum of the similarities of i to the items of the history, calibrated to the label's scale. It is near 0 if
    the user took none of the `neighbours` of i. The similarity is S_ij = n_ij / (sqrt(n_i n_j) + shrink), where n_ij
    users took both items and n_i took i. It is the cosine, lowered if few users took both. A user with a history of size
    d counts d^(-2 user_exponent), scaled so that a pair counts 1 on average.
    """

    neighbours: Neighbours = 200  # strongest similarities to keep for each item
    shrink: float = 10.0  # shrinks similarities that rest on few users
    user_exponent: float = 0.25  # exponent of the history size; a higher one gives less weight to long histories

    ranges: ClassVar[Ranges] = {
        "neighbours": Among(25, 50, 100, 200, 400, 800),
        "shrink": Between(0.1, 100, log=True),
        "user_exponent": Between(0.0, 0.6),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.shrink >= 0, f"shrink is {self.shrink}", "give at least 0")
        require(self.user_exponent >= 0, f"user_exponent is {self.user_exponent}", "give at least 0")

    def blocks(self) -> Iterator[Block]:
        x = weighted_pairs(self.fitted, self.user_exponent)
        x = x * np.sqrt(self.fitted.csr.power(2).sum() / x.power(2).sum())
        norm = np.sqrt(np.asarray(x.power(2).sum(0)).ravel())
        return similarity_blocks(x, norm, self.similar, self.torch_device)

    def similar(self, together: Tensor, one: Tensor, other: Tensor) -> Tensor:
        """The shrunken cosine, from entries of X'X and the norms of the two items."""
        tiny = torch.finfo(together.dtype).tiny  # the similarities of an item that no user took are 0
        return together / (one * other + self.shrink).clamp_min(tiny)
