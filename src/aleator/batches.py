"""Histories on a device: the training interactions as CSR, and ragged batches of users drawn from them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.data.interactions import Interactions
from aleator.data.maps import Rows, ranges
from aleator.device import budget
from aleator.progress import beat


@dataclass(frozen=True)
class Within:
    """Where the users of a part lie in the batch that several ranks share."""

    users: slice
    pairs: slice
    n_users: int  # of the whole batch
    n_pairs: int


class _Made(NamedTuple):
    """A result that is kept with a batch, and what it follows from."""

    of: tuple[Tensor, ...]
    versions: list[int]
    result: Tensor


@dataclass(frozen=True)
class Users:
    """A batch of B users and their histories, ragged: n history items in all, those of a user side by side."""

    index: Tensor  # [B] dense ids; -1 for a newcomer
    row: Tensor  # [n] place in the batch of each history item
    item: Tensor  # [n] dense ids of the history items
    weight: Tensor  # [n] weight of each pair
    size: Tensor  # [B] items in each history
    trained: bool = False  # True promises that all of them were trained on and have a history
    within: Within | None = None  # the batch that they are a part of, for what is drawn at random for all of it
    _made: dict[str, _Made] = field(default_factory=dict, init=False, repr=False, compare=False)  # by `once`

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def some_empty(self) -> bool:
        """Whether any of them has no history."""
        return not self.trained and bool((self.size == 0).any())

    @cached_property
    def some_new(self) -> bool:
        """Whether any of them is a newcomer."""
        return not self.trained and bool((self.index < 0).any())

    def once(self, name: str, make: Callable[[], Tensor], *of: Tensor) -> Tensor:
        """`make()`, computed once for this batch as long as the tensors `of` that it follows from stay as they are.

        Nobody may write into the result. Nothing is kept where gradients may be asked for.
        """
        if torch.is_grad_enabled():
            return make()
        kept, versions = self._made.get(name), [tensor._version for tensor in of]
        if kept is None or kept.versions != versions or any(a is not b for a, b in zip(kept.of, of, strict=True)):
            self._made[name] = kept = _Made(of, versions, make())
        return kept.result

    def among(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """The history items that are among `items` (sorted ids): their rows in the batch, and their places in `items`."""
        if not len(items):
            return self.row[:0], self.item[:0]
        place = torch.searchsorted(items, self.item).clamp_max(len(items) - 1)
        inside = items[place] == self.item
        return self.row[inside], place[inside]

    def of_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The history items of the users at the places `rows`: places in `rows`, and items."""
        place = self.row.new_full((len(self),), -1)
        place[rows] = torch.arange(len(rows), device=rows.device)
        row = place[self.row]
        inside = row >= 0
        return row[inside], self.item[inside]

    def part(self, first: int, last: int) -> Users:
        """The users from `first` up to, but not including, `last`."""
        end = torch.cat([self.size.new_zeros(1), self.size.cumsum(0)])
        a, b = int(end[first]), int(end[last])
        return Users(
            self.index[first:last],
            self.row[a:b] - first,
            self.item[a:b],
            self.weight[a:b],
            self.size[first:last],
            self.trained,
            Within(slice(first, last), slice(a, b), len(self), len(self.item)),
        )

    @staticmethod
    def together(parts: Sequence[Users]) -> Users:
        """The users of several batches in one, in that order. There must be at least one batch."""
        first = np.cumsum([0, *map(len, parts)]).tolist()
        return Users(
            torch.cat([part.index for part in parts]),
            torch.cat([part.row + before for part, before in zip(parts, first, strict=False)]),
            torch.cat([part.item for part in parts]),
            torch.cat([part.weight for part in parts]),
            torch.cat([part.size for part in parts]),
            all(part.trained for part in parts),
        )


class Histories:
    """The rows of a CSR matrix on a device.

    Those of pairs on disk are mapped files on a CPU, and batches are read from there (`mapped`).
    """

    mapped = False

    def __init__(self, matrix: sp.csr_matrix, device: torch.device) -> None:
        self.n_users, self.n_items = matrix.shape
        self.device = device
        self.indptr = torch.from_numpy(matrix.indptr.astype(np.int64)).to(device)
        self.item = torch.from_numpy(matrix.indices.astype(np.int64)).to(device)
        self.weight = torch.from_numpy(matrix.data.astype(np.float32)).to(device)

    @classmethod
    def of(cls, data: Interactions, device: torch.device) -> Histories:
        """The items of each user."""
        return cls(data.csr, device) if data.on_disk is None else cls.of_rows(data.on_disk.by_user, device)

    @classmethod
    def of_rows(cls, rows: Rows, device: torch.device) -> Histories:
        """The rows of a matrix in mapped files. On a CPU none of them is copied."""
        made = cls.__new__(cls)
        made.n_users, made.n_items, made.device = len(rows.start) - 1, rows.n_columns, device
        made.indptr = torch.from_numpy(rows.start).to(device)
        made.item = torch.from_numpy(rows.column).to(device)
        ones = torch.ones(1).expand(len(rows.column))  # one number stands for all
        made.weight = (ones if rows.weight is None else torch.from_numpy(rows.weight)).to(device)
        made.mapped = device.type == "cpu"
        if not made.mapped:
            made.item, made.weight = made.item.long(), made.weight.contiguous()
        return made

    @classmethod
    def of_lists(cls, items: Sequence[Any], n_items: int, device: torch.device) -> Histories:
        """One row for each list of dense item ids."""
        made = cls.__new__(cls)
        made.n_users, made.n_items, made.device = len(items), n_items, device
        made.indptr = torch.from_numpy(np.cumsum([0, *map(len, items)])).to(device)
        flat = np.concatenate([np.zeros(0, np.int64), *(np.asarray(i, np.int64) for i in items)])
        made.item = torch.from_numpy(flat).to(device)
        made.weight = torch.ones_like(made.item, dtype=torch.float32)
        return made

    @classmethod
    def of_users(cls, users: Users, n_items: int) -> Histories:
        """The histories of a batch, one row for each user. They share memory with the batch."""
        made = cls.__new__(cls)
        made.n_users, made.n_items, made.device = len(users), n_items, users.item.device
        made.indptr = torch.cat([users.size.new_zeros(1), users.size.cumsum(0)])
        made.item, made.weight = users.item, users.weight
        return made

    def take(self, pairs: Tensor) -> Histories:
        """Some of the pairs, by their places in ascending order. All rows stay."""
        made = copy.copy(self)
        made._forget()
        made.item, made.weight = self.item[pairs], self.weight[pairs]
        made.indptr = torch.searchsorted(pairs, self.indptr)
        return made

    def only(self, index: Tensor) -> Histories:
        """The histories of the users `index` (ascending), in memory. All other rows are empty."""
        users = self.batch(index)
        made = copy.copy(self)
        made._forget()
        size = torch.zeros_like(self.size).index_copy_(0, users.index, users.size)
        made.indptr, made.mapped = F.pad(size.cumsum(0), (1, 0)), False
        made.item, made.weight = users.item, users.weight
        return made

    def _forget(self) -> None:
        """Forget what was computed from other pairs."""
        for name in ("count", "popularity", "spans", "host_size"):
            self.__dict__.pop(name, None)

    @property
    def size(self) -> Tensor:
        """[n_users] number of items in each row."""
        return self.indptr.diff()

    @cached_property
    def count(self) -> Tensor:
        """[n_items] number of rows that have each item."""
        found = torch.zeros(self.n_items, dtype=torch.int64, device=self.device)
        for part in pieces(self.item, budget(self.device).listed_pairs):
            found += torch.bincount(part, minlength=self.n_items)
        return found

    @cached_property
    def popularity(self) -> Tensor:
        """[n_items] number of rows that have each item, float32."""
        return self.count.float()

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Ranges of rows that cover all, each with few enough pairs to be a batch."""
        return list(ranges(self.indptr.cpu().numpy(), budget(self.device).listed_pairs))

    @cached_property
    def host_size(self) -> Tensor:
        """[n_users] number of items in each row, on the host."""
        return self.size.cpu()

    def batch_size(self, steps: int) -> int:
        """Users per batch, so that an epoch has about `steps` steps, within limits. Larger batches keep a device busy."""
        return min(max(math.ceil(int((self.host_size > 0).sum()) / steps), 16), 8192)

    def batch(self, index: Tensor, *, known: bool = True, trained: bool = False, total: int | None = None) -> Users:
        """The rows `index`, in that order. `known=False` marks them as newcomers.

        `total` is the number of their pairs. With it, or with an `index` on the host, there is no round trip to the
        device.
        """
        beat()  # all work on many users takes them in batches
        if len(index) == 1 and self.device.type == "cpu":
            first, last = self.indptr[int(index) : int(index) + 2].tolist()
            item, size = self.item[first:last].long(), torch.tensor([last - first])
            who = index if known else torch.full_like(index, -1)
            return Users(who, torch.zeros_like(item), item, self.weight[first:last], size, trained)
        if total is None and not index.is_cuda:
            total = int(self.host_size[index].sum())
        index = index.to(self.device, non_blocking=True)
        start, size = self.indptr[index], self.indptr[index + 1] - self.indptr[index]
        row = torch.repeat_interleave(torch.arange(len(index), device=self.device), size, output_size=total)
        inside = torch.arange(len(row), device=self.device) - (size.cumsum(0) - size)[row]
        place = start[row] + inside
        who = index if known else torch.full_like(index, -1)
        return Users(who, row, self.item[place].long(), self.weight[place], size, trained)


def pieces(index: Tensor, size: int) -> tuple[Tensor, ...]:
    """`index` cut into pieces of at most `size` rows."""
    cut: tuple[Tensor, ...] = index.split(size)  # type: ignore[no-untyped-call]
    return cut
