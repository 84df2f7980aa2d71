"""EASE: a linear item-item model in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from aleator.batches import pieces
from aleator.device import budget, free_memory
from aleator.errors import AleatorError, require
from aleator.models.item_item import ItemItem, gram_rows
from aleator.models.similarities import Block, dense_of
from aleator.options import Between, Ranges

_SMALL = 4096  # up to so many items the inverse is computed in float64, which costs little
_ROWS = 1024  # rows of a block


@dataclass(kw_only=True, eq=False, repr=False)
class EASE(ItemItem):
    """Embarrassingly shallow autoencoder (Steck, 2019): r_ui is what the rest of the history predicts for i.

    The item-item matrix S minimises |X - X S|^2 + l2 |S|^2 with a zero diagonal, where X holds the weights of the
    observed pairs. With P = (X'X + l2 I)^-1, it is S = I - P diag(1 / P_ii). That takes one inverse of
    [n_items, n_items].
    """

    l2: float = 300.0  # weight of the squared norm of the item-item matrix in the loss

    ranges: ClassVar[Ranges] = {"l2": Between(10.0, 5000.0, log=True)}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.l2 > 0, f"l2 is {self.l2}", "give an l2 above 0")

    def most_entries(self) -> int:
        return self.fitted.n_items**2

    def blocks(self) -> Iterator[Block]:
        n_items, device = self.fitted.n_items, self.torch_device
        needed, have = budget(device).ease_copies * 4 * n_items**2, free_memory(device)
        require(
            needed <= have,
            f"EASE inverts a matrix of {n_items:,} x {n_items:,} items, which needs {needed / 2**30:.1f} GiB, "
            f"and {have / 2**30:.1f} GiB are free on {device}",
            "use graph_filter or itemknn, which need no inverse, or a device with more memory",
        )
        rows = gram_rows(self.fitted.csr.astype(np.float32), device)
        return self._divided(self._inverse(dense_of(rows, n_items, device).table))

    def _divided(self, inverse: Tensor) -> Iterator[Block]:
        """Blocks of rows of the transpose of S, from P."""
        first = 0
        for rows in pieces(inverse, _ROWS):
            block = rows / -rows.diagonal(first)[:, None]
            block.diagonal(first).zero_()
            yield block
            first += len(rows)

    def _inverse(self, gram: Tensor) -> Tensor:
        """(gram + l2 I)^-1, by a Cholesky factorisation.

        It is computed in float64 for a small catalogue. Otherwise it is computed in float32, and again in float64 if
        that fails and memory allows it.
        """
        gram.diagonal().add_(self.l2)
        kinds = [torch.float64] if len(gram) <= _SMALL else [torch.float32]
        if kinds == [torch.float32] and 3 * 8 * len(gram) ** 2 <= free_memory(gram.device):
            kinds.append(torch.float64)
        for kind in kinds:
            root, failed = torch.linalg.cholesky_ex(gram.to(kind))
            if not int(failed):
                del gram  # its memory is needed
                found: Tensor = torch.cholesky_inverse(root)
                return found.float()
        raise AleatorError(f"an l2 of {self.l2:g} is too small for this data: X'X + l2 I is singular", "raise l2")
