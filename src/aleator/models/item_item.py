"""Models that score by an item-item matrix: what the items of a history say of another item."""

from __future__ import annotations

import logging
import weakref
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.data.interactions import Interactions
from aleator.device import free_memory
from aleator.errors import require
from aleator.evaluation.held_out import HeldOut
from aleator.kernels.ragged import history_sum
from aleator.models.base import Model
from aleator.models.calibration import Calibrate
from aleator.models.similarities import Block, Dense, Sparse, dense_of, sparse_of, strongest
from aleator.progress import progress

_STANDARD = (4096, 2048, 1024, 512, 256, 128, 64)  # neighbours, where memory decides how many
_ENTRY = 24  # bytes of an entry of a sparse matrix while it is put together
_DENSE = {"cpu": 1 / 8, "cuda": 1 / 256}  # share of entries from which on a dense matrix is faster
_EACH = 1 << 18  # sums of one user, on average, up to which all items of a batch are summed for its pairs
_BLOCK = {"cpu": 1 << 24, "cuda": 1 << 28}  # numbers of a block


@dataclass(kw_only=True, eq=False, repr=False)
class ItemItemModel(Model):
    """r_ui = sum of w_uj S_ji over the history, times and plus what fits the label best; S_ii is 0.

    The score of an observed pair owes nothing to that pair in the history, and newcomers are served by theirs.
    `neighbours` is how many items j each item i is scored from: those with the strongest S_ji, and all that equal the
    last of them. "auto" is all of them, or as many as fit in memory: then that is said, and saved as `kept`.
    """

    neighbours: int | Literal["auto"] = "auto"
    calibrate: Calibrate = "linear"

    store: Dense | Sparse = field(init=False)
    level: float = field(default=0.0, init=False)  # what is added to every score
    kept: int | None = field(default=None, init=False)  # neighbours; None for all
    _last: tuple[Any, ...] | None = field(default=None, init=False)  # a batch, and its scores of all items

    facts: ClassVar[tuple[str, ...]] = ("level", "kept")

    def __post_init__(self) -> None:
        super().__post_init__()
        n = self.neighbours
        require(n == "auto" or n >= 1, f"neighbours is {n}", "give a number of at least 1, or auto")

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """S by items to be scored: blocks of rows of its transpose, in order, which may be overwritten."""

    def most_entries(self) -> int:
        """How many numbers of S can differ from 0: pairs of items that somebody took both."""
        sizes = self.histories.host_size
        return min(int(sizes.square().sum()), self.fitted.n_items**2)

    def learn(self, check: HeldOut | None, epochs: int | None) -> None:
        self.__dict__.pop("store", None)  # room for the new one
        self._forget()
        self.level, self.notes = 0.0, []
        blocks = self.blocks()
        dense, n = self._room()
        n_items = self.fitted.n_items
        with progress(f"{type(self).__name__}: similarities", n_items) as shown:

            def kept() -> Iterator[Block]:
                for block in blocks:
                    yield block if n is None else strongest(block, n)
                    shown.advance(block.shape[0])

            device = self.torch_device
            self.store = dense_of(kept(), n_items, device) if dense else sparse_of(kept(), device)
        self.kept = n

    def _room(self) -> tuple[bool, int | None]:
        """Whether S is dense, and how many neighbours it keeps (None for all): half of the free memory may be taken."""
        n, n_items, device = self.neighbours, self.fitted.n_items, self.torch_device
        room = free_memory(device) // 2
        entries = self.most_entries() if n == "auto" else min(self.most_entries(), n * n_items)
        dense = 4 * n_items**2 <= room and entries >= _DENSE[device.type] * n_items**2
        room = min(room, free_memory(torch.device("cpu")) // 2)  # where sparse ones are put together
        if dense or _ENTRY * entries <= room:
            return dense, None if n == "auto" else n
        fits = next((n for n in _STANDARD if _ENTRY * n * n_items <= room), 0)
        wanted = "the similarities" if n == "auto" else f"{n} neighbours"
        needs, has = (f"{size / 2**30:.1f} GiB" for size in (_ENTRY * entries, room))
        short = f"{wanted} of {n_items:,} items need {needs}, and {has} may be taken"
        require(n == "auto" and fits > 0, short, f"take {fits or 'fewer'} neighbours, or a machine with more memory")
        self.notes = [f"{short}: only the {fits} strongest neighbours of each item are kept"]
        logging.getLogger(__name__).warning(self.notes[0])
        return False, fits

    def train(self, data: Interactions, check: HeldOut | None = None, epochs: int | None = None) -> None:
        super().train(data, check, epochs)
        if self.map is not None and self.calibrate == "linear":  # into S: a block is then ready as it is summed
            self.level, top = self.map.y.tolist()
            self.store.scale(top - self.level)
            self.map = None
        self._forget()

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        whole = self._known(users)
        if whole is None and items is not None and 4 * len(items) >= self.fitted.n_items:
            whole = self._whole(users)  # an estimator asks for all columns of a batch, part by part
        if whole is None:
            return self.store.block(users, items).add_(self.level)
        return (whole if items is None else whole[:, items]) + self.level

    def raw_pairs(self, users: Users) -> Tensor:
        on_gpu = isinstance(self.store, Dense) and self.store.table.is_cuda
        if on_gpu or len(users.item) * self.fitted.n_items <= len(users) * _EACH:
            return self._whole(users)[users.row, users.item] + self.level  # all are as quick as one user at a time
        return self.store.pairs(users) + self.level

    def out_of_sample_pairs(self, users: Users) -> Tensor | None:
        """With a zero diagonal a pair has no part in its own score; S was made with it all the same."""
        return self.score_pairs(users)

    def _whole(self, users: Users) -> Tensor:
        """The sums of all items, which are remembered until the batch is gone; not to be written into."""
        block = self._known(users)
        if block is None:
            block = self.store.block(users)
            batch = weakref.ref(users.item, lambda _: self._forget()), weakref.ref(users.weight)
            self._last = (*batch, self.store, block)
        return block

    def _known(self, users: Users) -> Tensor | None:
        last = self._last
        if last is None or last[0]() is not users.item or last[1]() is not users.weight or last[2] is not self.store:
            return None
        block: Tensor = last[3]
        return block

    def _forget(self) -> None:
        self._last = None

    def pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        about, tensors = super().pack()
        made = {f"model.{name}": value for name, value in self.store.tensors().items()}
        return about | {"dense": isinstance(self.store, Dense)}, tensors | made

    def unpack(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        super().unpack(learned, tensors)
        self._forget()
        if "model.table" in tensors:
            self.store = Dense(tensors["model.table"])
            return
        self.store = Sparse(*(tensors[f"model.{name}"] for name in ("start", "column", "value")))
        if learned["dense"] and 8 * self.store.n_items**2 <= free_memory(self.torch_device):
            self.store = self.store.dense()


def gram_rows(x: sp.csr_matrix, device: torch.device) -> Iterator[Block]:
    """X'X of x [n_users, n_items] in blocks of rows, in order: dense on a GPU, sparse elsewhere."""
    by_item = x.T.tocsr()
    rows = Histories(by_item, device)
    step = max(_BLOCK[device.type] // max(x.shape), 1)
    for first in range(0, x.shape[1], step):
        last = min(first + step, x.shape[1])
        yield gram_block(rows, first, last) if device.type == "cuda" else by_item[first:last] @ x


def gram_block(rows: Histories, first: int, last: int) -> Tensor:
    """Rows first..last of X'X, [last - first, n_items], where `rows` are those of X'."""
    some = rows.batch(torch.arange(first, last))
    table = torch.zeros((rows.n_items, last - first), device=rows.device)
    table[some.item, some.row] = some.weight
    everyone = rows.batch(torch.arange(rows.n_users))
    return history_sum(table, everyone, everyone.weight).T
