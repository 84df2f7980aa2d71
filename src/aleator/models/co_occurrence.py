"""Similarities of items, from the number of users who took both of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.data.interactions import Array, Interactions
from aleator.models.item_item import gram_rows
from aleator.models.similarities import Block

Similar = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Takes entries of X'X and one number for each of their two items. Returns similarities, 0 where the entry is 0."""


def weighted_pairs(data: Interactions, user_exponent: float) -> sp.csr_matrix:
    """The weights of each user's pairs times d^-`user_exponent`, [n_users, n_items]. d is the sum of these weights.

    A user who took very many items says little about which items belong together.
    """
    pairs = data.csr.astype(np.float64)
    return sp.diags(raised(np.asarray(pairs.sum(1)).ravel(), -user_exponent)) @ pairs


def similarity_blocks(x: sp.csr_matrix, scale: Array, similar: Similar, device: torch.device) -> Iterator[Block]:
    """S in blocks of rows, in order, with a zero diagonal. `scale` [n_items] holds the numbers that `similar` takes."""
    scales = torch.from_numpy(scale).float().to(device)
    first = 0
    for block in gram_rows(x.astype(np.float32).tocsr(), device):
        last = first + block.shape[0]
        if isinstance(block, Tensor):
            block = similar(block, scales[first:last, None], scales)
            block.diagonal(first).zero_()
        else:
            row = np.repeat(np.arange(first, last), np.diff(block.indptr))
            values = similar(torch.from_numpy(block.data), scales[row], scales[block.indices])
            block.data = values.numpy() * (row != block.indices)
            block.eliminate_zeros()
        yield block
        first = last


def raised(values: Array, exponent: float) -> Array:
    """values^exponent, and 0 where a value is not above 0."""
    found = np.zeros(values.shape)
    return np.power(values, exponent, out=found, where=values > 0)
