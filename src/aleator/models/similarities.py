"""The item-item matrix S, dense or sparse, and the scores of histories from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users, pieces
from aleator.kernels.ragged import add_by_item, history_sum

Block: TypeAlias = Tensor | sp.csr_matrix  # rows of the transpose of S, [c, n_items]: one for each item to be scored
_CELLS = 1 << 27  # numbers of a block on a GPU
_OVER, _ITERATIONS = 16, 4  # more dimensions than asked for, and iterations, which make a truncated SVD more accurate
_TIED = 1 - 1e-6  # values whose ratio is at least this count as equal, since rounding sets them apart


class Dense:
    """S as a dense table [n_items, n_items]. Row j, column i is what item j in a history adds to the score of item i."""

    shapes: ClassVar[Mapping[str, str]] = {"table": "[n_items, n_items]"}

    def __init__(self, table: Tensor) -> None:
        self.table = table
        self.n_items, self.device = len(table), table.device

    def block(self, users: Users, items: Tensor | None = None) -> Tensor:
        """Scores of all items or of `items`, [B, n]: sums of the rows of each history, weighted by its pairs."""
        return history_sum(self.table if items is None else self.table[:, items], users, users.weight)

    def pairs(self, users: Users) -> Tensor:
        """Scores of each item of each history, [n], from the rows and columns of that history alone."""
        if self.table.is_cuda:
            return self.block(users)[users.row, users.item]
        sizes = users.size.tolist()
        histories = zip(torch.split(users.item, sizes), torch.split(users.weight, sizes), strict=True)
        scores = [weight @ self.table[item[:, None], item] for item, weight in histories]
        return torch.cat([users.weight[:0], *scores])  # the empty tensor is for a batch without users

    def entries(self, rows: Tensor, columns: Tensor) -> Tensor:
        """The entries of S in each of these rows [n] and its own columns [n, k]."""
        return self.table[rows[:, None], columns]

    def times(self, table: Tensor) -> Tensor:
        """S times a table [n_items, dim]."""
        return self.table @ table

    def transpose_times(self, table: Tensor) -> Tensor:
        """The transpose of S times a table [n_items, dim]."""
        return self.table.T @ table

    def scale(self, factor: float) -> None:
        """Multiply S by a factor, in place."""
        self.table.mul_(factor)

    @property
    def filled(self) -> int:
        """The number of nonzero entries."""
        return int(self.table.count_nonzero())

    def sparse(self) -> Sparse:
        """The same matrix as a sparse one."""
        return Sparse(*_entries(self.table))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to save, by name: the table, or its nonzero entries if these are few."""
        if 8 * self.filled >= self.table.numel():
            return {"table": self.table}
        return self.sparse().tensors()


class Sparse:
    """S as a sparse matrix by rows. The entries of row j are `column` and `value` from start[j] up to start[j + 1].

    The columns of a row ascend.
    """

    shapes: ClassVar[Mapping[str, str]] = {
        "start": "[n_items + 1] int64",
        "column": "[entries] int32",
        "value": "[entries]",
    }

    def __init__(self, start: Tensor, column: Tensor, value: Tensor) -> None:
        self.start, self.column, self.value = start, column, value
        self.n_items, self.device = len(start) - 1, value.device

    @classmethod
    def of(cls, matrix: sp.csr_matrix, device: torch.device) -> Sparse:
        """The same matrix as a scipy matrix, on a device."""
        parts = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float32)
        return cls(*(torch.from_numpy(part).to(device) for part in parts))

    @cached_property
    def _matrix(self) -> sp.csr_matrix:
        """S as a scipy matrix that shares memory with the tensors, on a CPU."""
        parts = self.value.numpy(), self.column.numpy(), self.start.numpy()
        return sp.csr_matrix(parts, shape=(self.n_items, self.n_items))

    def block(self, users: Users, items: Tensor | None = None) -> Tensor:
        """Scores of all items or of `items`, [B, n], as `Dense.block`."""
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
        """Scores of each item of each history, [n], as `Dense.pairs`."""
        if self.value.is_cuda:
            return torch.cat([self.added(part)[part.row, part.item] for part in self._parts(users)])
        all_items, all_weights = users.item.numpy(), users.weight.numpy()
        scores = [all_weights[:0]]  # the empty array is for a batch without users
        for start, end in pairwise([0, *users.size.cumsum(0).tolist()]):
            item, weight = all_items[start:end], all_weights[start:end]
            scores.append((self._matrix[item].T @ weight)[item])
        return torch.from_numpy(np.concatenate(scores))

    def entries(self, rows: Tensor, columns: Tensor) -> Tensor:
        """The entries of S in each of these rows [n] and its own columns [n, k]."""
        if not len(self.column):
            return self.value.new_zeros(columns.shape)
        low, end = (self.start[each][:, None].expand_as(columns) for each in (rows, rows + 1))
        high, last = end, len(self.column) - 1
        for _ in range(int(self.start.diff().amax()).bit_length()):  # all searches halve their ranges together
            middle = (low + high) // 2
            below = (low < high) & (self.column[middle.clamp_max(last)] < columns)
            low, high = torch.where(below, middle + 1, low), torch.where(below, high, middle)
        place = low.clamp_max(last)
        return torch.where((low < end) & (self.column[place] == columns), self.value[place], 0)

    def _parts(self, users: Users) -> list[Users]:
        """The batch in parts that are small enough for the memory of a GPU: their entries of S and their scores."""
        cells = int(self.start.diff()[users.item].sum()) + len(users) * self.n_items
        size = max(math.ceil(len(users) * _CELLS / max(cells, 1)), 1)
        return [users.part(first, min(first + size, len(users))) for first in range(0, max(len(users), 1), size)]

    def added(self, users: Users) -> Tensor:
        """Scores of all items, [B, n_items], by adding up the entries of S one by one. It works on any device."""
        count = self.start.diff()[users.item]  # [n] entries of S in the row of each history item
        pair = torch.repeat_interleave(count)  # the history item that each entry belongs to
        entry = torch.arange(len(pair), device=pair.device)
        entry += (self.start[users.item] - count.cumsum(0) + count)[pair]
        place = users.row[pair] * self.n_items + self.column[entry]  # the cell of the scores that it is added to
        scores = self.value.new_zeros(len(users) * self.n_items)
        scores.index_add_(0, place, users.weight[pair] * self.value[entry])
        return scores.view(len(users), self.n_items)

    def times(self, table: Tensor) -> Tensor:
        """S times a table [n_items, dim]."""
        return history_sum(table, self._rows(), self.value)

    def transpose_times(self, table: Tensor) -> Tensor:
        """The transpose of S times a table [n_items, dim]."""
        into = torch.zeros_like(table)
        add_by_item(into, table, self._rows(), self.value)
        return into

    def _rows(self) -> Users:
        """The rows of S, as if they were histories."""
        size = self.start.diff()
        row = torch.repeat_interleave(size, output_size=len(self.value))
        return Users(torch.arange(self.n_items, device=row.device), row, self.column.long(), self.value, size)

    def scale(self, factor: float) -> None:
        """Multiply S by a factor, in place."""
        self.value.mul_(factor)
        self.__dict__.pop("_matrix", None)  # forget the cached property

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to save, by name."""
        return dict(zip(self.shapes, (self.start, self.column, self.value), strict=True))

    def dense(self) -> Dense:
        """The same matrix as a dense table."""
        table = self.value.new_zeros(self.n_items, self.n_items)
        table[torch.repeat_interleave(self.start.diff()), self.column.long()] = self.value
        return Dense(table)


def low_rank(store: Dense | Sparse, rank: int, seed: int) -> tuple[Tensor, Tensor]:
    """Two tables [n_items, rank], the first of which times the transpose of the second is nearly S.

    They are U Sigma and V of the singular value decomposition, cut to `rank`. Subspace iteration finds them (Halko,
    Martinsson and Tropp, 2011).
    """
    draw = torch.Generator().manual_seed(seed)
    shape = store.n_items, min(rank + _OVER, store.n_items)
    basis = torch.randn(shape, generator=draw).to(store.device)
    for _ in range(_ITERATIONS):
        basis = _orthonormal(store.transpose_times(_orthonormal(store.times(basis))))
    u, sizes, turn = torch.linalg.svd(store.times(basis), full_matrices=False)
    return (u[:, :rank] * sizes[:rank]).contiguous(), (basis @ turn.T)[:, :rank]


def _orthonormal(table: Tensor) -> Tensor:
    """An orthonormal basis of the columns, row by row in memory: sums of rows are then many times faster."""
    basis: Tensor = torch.linalg.qr(table).Q.contiguous()
    return basis


def strongest(block: Block, n: int) -> Block:
    """The block with only the n entries of each row that are furthest from 0, in place.

    All entries that tie with the last of them are kept too.
    """
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
    """S as a dense table, from all blocks of rows of its transpose, in order."""
    table, first = torch.empty((n_items, n_items), device=device), 0
    for block in blocks:
        rows = block if isinstance(block, Tensor) else torch.from_numpy(block.toarray())
        table[:, first : first + len(rows)] = rows.T
        first += len(rows)
    return Dense(table)


def sparse_of(blocks: Iterable[Block], device: torch.device) -> Sparse:
    """S as a sparse matrix, from all blocks of rows of its transpose, in order. It is built on the host."""
    parts = []
    for block in blocks:
        if isinstance(block, Tensor):
            start, column, value = (part.cpu().numpy() for part in _entries(block))
            block = sp.csr_matrix((value, column, start), shape=block.shape)
        parts.append(block)
    return Sparse.of(sp.vstack(parts, format="csr").T.tocsr(), device)


def _entries(table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The nonzero entries of a table, row by row: `start`, `column` and `value` of `Sparse`."""
    row, column = table.nonzero(as_tuple=True)
    count = torch.bincount(row, minlength=len(table))
    return torch.cat([count.new_zeros(1), count.cumsum(0)]), column.int(), table[row, column]
