"""Similarities of items that are taken by the same users."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.data.interactions import Array
from aleator.errors import require
from aleator.models.item_item import ItemItemModel, gram_rows
from aleator.models.similarities import Block


@dataclass(kw_only=True, eq=False, repr=False)
class CoOccurrenceModel(ItemItemModel):
    """S_ij is a function of how many users took both i and j, and of a number of each of the two items.

    Each user's pairs are multiplied by d^-`user_exponent`, where d is the size of the history (the sum of its weights):
    somebody who took everything says little of which items belong together.
    """

    user_exponent: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.user_exponent >= 0, f"user_exponent is {self.user_exponent}", "give at least 0")

    @abstractmethod
    def item_scale(self, x: sp.csr_matrix) -> Array:
        """[n_items] what `similar` needs of each item; `x` [n_users, n_items] holds the weighted pairs."""

    @abstractmethod
    def similar(self, together: Tensor, one: Tensor, other: Tensor) -> Tensor:
        """Of entries of x'x and the scales of their two items; 0 where `together` is."""

    def weighted(self) -> sp.csr_matrix:
        """The pairs with their weights, [n_users, n_items]."""
        pairs = self.fitted.csr.astype(np.float64)
        return sp.diags(raised(np.asarray(pairs.sum(1)).ravel(), -self.user_exponent)) @ pairs

    def blocks(self) -> Iterator[Block]:
        x = self.weighted()
        scale = torch.from_numpy(self.item_scale(x)).float().to(self.torch_device)
        return self._similar(x.astype(np.float32).tocsr(), scale)

    def _similar(self, x: sp.csr_matrix, scale: Tensor) -> Iterator[Block]:
        first = 0
        for block in gram_rows(x, self.torch_device):
            last = first + block.shape[0]
            if isinstance(block, Tensor):
                block = self.similar(block, scale[first:last, None], scale)
                block.diagonal(first).zero_()
            else:
                row = np.repeat(np.arange(first, last), np.diff(block.indptr))
                values = self.similar(torch.from_numpy(block.data), scale[row], scale[block.indices])
                block.data = values.numpy() * (row != block.indices)
                block.eliminate_zeros()
            yield block
            first = last


def raised(values: Array, exponent: float) -> Array:
    """values^exponent, and 0 where a value is not above 0."""
    found = np.zeros(values.shape)
    return np.power(values, exponent, out=found, where=values > 0)
