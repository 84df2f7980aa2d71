"""The item-item matrix S, dense or sparse, and the scores of histories from it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.kernels.ragged import history_sum

Block: TypeAlias = Tensor | sp.csr_matrix  # rows of the transpose of S, [c, n_items]: one for each item to be scored
_CELLS = 1 << 27  # numbers that a GPU adds up at a time
_TIED = 1 - 1e-6  # rounding sets apart what is equal


class Dense:
    """S as [n_items, n_items]: row j, column i is what an item j in the history says of item i."""

    def __init__(self, table: Tensor) -> None:
        self.table = table
        self.n_items = len(table)

    def block(self, users: Users, items: Tensor | None = None) -> Tensor:
        """Scores of all items or of `items`, [B, n]: the rows of each history summed, with the weights of its pairs."""
        return history_sum(self.table if items is None else self.table[:, items], users, users.weight)

    def pairs(self, users: Users) -> Tensor:
        """The same for each item of each history, [n], from these rows and columns alone."""
        if self.table.is_cuda:
            return self.block(users)[users.row, users.item]
        sizes = users.size.tolist()
        each = zip(torch.split(users.item, sizes), torch.split(users.weight, sizes), strict=True)
        return torch.cat([users.weight[:0], *(weight @ self.table[item[:, None], item] for item, weight in each)])

    def scale(self, factor: float) -> None:
        """Multiply S, in place."""
        self.table.mul_(factor)

    def tensors(self) -> dict[str, Tensor]:
        """What is saved: the table, or its entries where these are few."""
        if 4 * int(self.table.count_nonzero()) > self.table.numel():
            return {"table": self.table}
        return dict(zip(("start", "column", "value"), _entries(self.table), strict=True))


class Sparse:
    """S by rows: the entries of row j are start[j] .. start[j + 1] of `column` and `value`."""

    def __init__(self, start: Tensor, column: Tensor, value: Tensor) -> None:
        self.start, self.column, self.value = start, column, value
        self.n_items = len(start) - 1

    @classmethod
    def of(cls, matrix: sp.csr_matrix, device: torch.device) -> Sparse:
        """From a matrix on the host."""
        parts = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float32)
        return cls(*(torch.from_numpy(part).to(device) for part in parts))

    @cached_property
    def _matrix(self) -> sp.csr_matrix:
        parts = self.value.numpy(), self.column.numpy(), self.start.numpy()
        return sp.csr_matrix(parts, shape=(self.n_items, self.n_items))

    def block(self, users: Users, items: Tensor | None = None) -> Tensor:
        """As `Dense.block`."""
        if self.value.is_cuda:
            blocks = [self.added(part) for part in self._parts(users)]
            return torch.cat([block if items is None else block[:, items] for block in blocks])
        taken = self._matrix if items is None else self._matrix[:, items.numpy()]
        edges = Histories.of_users(users, self.n_items).indptr
        rows = sp.csr_matrix(
            (users.weight.numpy(), users.item.numpy(), edges.numpy()), shape=(len(users), self.n_items)
        )
        return torch.from_numpy((rows @ taken).toarray())

    def pairs(self, users: Users) -> Tensor:
        """As `Dense.pairs`."""
        if self.value.is_cuda:
            return torch.cat([self.added(part)[part.row, part.item] for part in self._parts(users)])
        item, weight = users.item.numpy(), users.weight.numpy()
        edges = pairwise([0, *users.size.cumsum(0).tolist()])
        found = [(self._matrix[item[a:b]].T @ weight[a:b])[item[a:b]] for a, b in edges]
        return torch.from_numpy(np.concatenate([weight[:0], *found]))

    def _parts(self, users: Users) -> list[Users]:
        """The batch cut such that the entries of a part and its scores fit."""
        cells = int(self.start.diff()[users.item].sum()) + len(users) * self.n_items
        size = max(math.ceil(len(users) * _CELLS / max(cells, 1)), 1)
        return [users.part(a, min(a + size, len(users))) for a in range(0, max(len(users), 1), size)]

    def added(self, users: Users) -> Tensor:
        """[B, n_items], entry by entry, on any device."""
        count = self.start.diff()[users.item]
        pair = torch.repeat_interleave(count)
        entry = torch.arange(len(pair), device=pair.device)
        entry += (self.start[users.item] - count.cumsum(0) + count)[pair]
        place = users.row[pair] * self.n_items + self.column[entry]
        scores = self.value.new_zeros(len(users) * self.n_items)
        return scores.index_add_(0, place, users.weight[pair] * self.value[entry]).view(len(users), self.n_items)

    def scale(self, factor: float) -> None:
        """As `Dense.scale`."""
        self.value.mul_(factor)
        self.__dict__.pop("_matrix", None)

    def tensors(self) -> dict[str, Tensor]:
        """What is saved."""
        return {"start": self.start, "column": self.column, "value": self.value}

    def dense(self) -> Dense:
        """The same as a table."""
        table = self.value.new_zeros(self.n_items, self.n_items)
        table[torch.repeat_interleave(self.start.diff()), self.column.long()] = self.value
        return Dense(table)


def strongest(block: Block, n: int) -> Block:
    """Only the n entries of each row that are furthest from 0, in place; of equal ones all or none are kept."""
    if isinstance(block, Tensor):
        if n < block.shape[1]:
            for part in pieces(block, max(_CELLS // block.shape[1], 1)):
                size = part.abs()
                part.masked_fill_(size < size.topk(n).values[:, -1:] * _TIED, 0)
        return block
    for row in np.flatnonzero(np.diff(block.indptr) > n):
        values = block.data[block.indptr[row] : block.indptr[row + 1]]
        size = np.abs(values)
        values[size < np.partition(size, -n)[-n] * _TIED] = 0
    block.eliminate_zeros()
    return block


def dense_of(blocks: Iterable[Block], n_items: int, device: torch.device) -> Dense:
    """S from all blocks of rows of its transpose, in order."""
    table, first = torch.empty((n_items, n_items), device=device), 0
    for block in blocks:
        rows = block if isinstance(block, Tensor) else torch.from_numpy(block.toarray())
        table[:, first : first + len(rows)] = rows.T
        first += len(rows)
    return Dense(table)


def sparse_of(blocks: Iterable[Block], device: torch.device) -> Sparse:
    """The same; it is put together on the host."""
    parts = []
    for block in blocks:
        if isinstance(block, Tensor):
            start, column, value = (part.cpu().numpy() for part in _entries(block))
            block = sp.csr_matrix((value, column, start), shape=block.shape)
        parts.append(block)
    return Sparse.of(sp.vstack(parts, format="csr").T.tocsr(), device)


def _entries(table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What is not 0, row by row, as `Sparse` holds it."""
    row, column = table.nonzero(as_tuple=True)
    count = torch.bincount(row, minlength=len(table))
    return torch.cat([count.new_zeros(1), count.cumsum(0)]), column.int(), table[row, column]
