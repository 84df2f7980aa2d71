"""Models that score by an item-item matrix: the similarities of an item to the items of a history."""

from __future__ import annotations

import logging
import weakref
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.checkpoint.checks import fit, fit_rows, typed
from aleator.device import budget, free_memory
from aleator.errors import require
from aleator.kernels.ragged import history_sum
from aleator.models.base import Model
from aleator.models.calibration import Calibrate, Map
from aleator.models.similarities import Block, Dense, Sparse, dense_of, low_rank, sparse_of, strongest
from aleator.progress import progress
from aleator.ranking.vectors import Factors
from aleator.training.stop import Stop

Neighbours = int | Literal["auto"]
_STANDARD = (4096, 2048, 1024, 512, 256, 128, 64)  # numbers of neighbours to try, if memory is short
_ENTRY = 24  # bytes of an entry of a sparse matrix while it is built
_EACH = 1 << 18  # if history size x items is at most this, scores of all items are as quick as those of the pairs


class _Last(NamedTuple):
    """The sums of all items for a batch. The batch is known by weak references to its tensors."""

    item: weakref.ref[Tensor]
    weight: weakref.ref[Tensor]
    sums: Tensor


class ItemTable:
    """Scores of histories: the sum of rows of an item-item matrix, plus a constant (`level`).

    The sums of the last batch are kept until the batch is deleted, since an estimator asks for its columns part by part.
    """

    def __init__(self, store: Dense | Sparse, level: float = 0.0) -> None:
        self.store = store
        self.level = level  # added to every score
        self._last: _Last | None = None
        self._cut: tuple[tuple[int, int], Factors] | None = None  # the last of `low_rank`, by its rank and seed

    def block(self, users: Users, items: Tensor | None = None) -> Tensor:
        """Scores of all items or of `items`, [B, n]."""
        whole = self._remembered(users)
        if whole is None and items is not None and 4 * len(items) >= self.store.n_items:
            whole = self._sums(users)
        if whole is None:
            return self.store.block(users, items).add_(self.level)
        return (whole if items is None else whole[:, items]) + self.level

    def pairs(self, users: Users) -> Tensor:
        """Scores of each item of each history, [n]."""
        on_gpu = isinstance(self.store, Dense) and self.store.table.is_cuda
        if on_gpu or len(users.item) * self.store.n_items <= len(users) * _EACH:
            return self._sums(users)[users.row, users.item] + self.level
        return self.store.pairs(users) + self.level

    def terms(self, users: Users, items: Tensor) -> Tensor:
        """What each history item adds to the scores of its user's own items [B, k], [n, k]. The level is the rest."""
        return users.weight[:, None] * self.store.entries(users.item, items[users.row])

    def low_rank(self, rank: int, seed: int) -> Factors:
        """Factors of a batch whose inner products approximate the scores. One more dimension holds the level.

        The last ones are kept, so that each newcomer does not cost a decomposition.
        """
        if self._cut is None or self._cut[0] != (rank, seed):
            self._cut = None  # free the old ones first
            self._cut = (rank, seed), self._decompose(rank, seed)
        return self._cut[1]

    def _decompose(self, rank: int, seed: int) -> Factors:
        left, right = low_rank(self.store, rank, seed)
        y = torch.cat([right, torch.ones_like(right[:, :1])], 1)

        def factors(users: Users) -> tuple[Tensor, Tensor]:
            x = history_sum(left, users, users.weight)
            return torch.cat([x, x.new_full((len(x), 1), self.level)], 1), y

        return factors

    def absorb(self, line: Map) -> None:
        """Make a linear map of the scores part of the matrix and the level."""
        self.level, top = line.y.tolist()
        self.store.scale(top - self.level)
        self._cut = None
        self._forget()

    def _sums(self, users: Users) -> Tensor:
        """The sums of all items, which are kept. The caller must not overwrite them."""
        sums = self._remembered(users)
        if sums is None:
            sums = self.store.block(users)
            self._last = _Last(weakref.ref(users.item, lambda _: self._forget()), weakref.ref(users.weight), sums)
        return sums

    def _remembered(self, users: Users) -> Tensor | None:
        """The kept sums, if they are those of this batch."""
        last = self._last
        if last is None or last.item() is not users.item or last.weight() is not users.weight:
            return None
        return last.sums

    def _forget(self) -> None:
        self._last = None

    def about(self) -> dict[str, Any]:
        """What to save beside the tensors."""
        return {"level": self.level, "dense": isinstance(self.store, Dense)}

    @classmethod
    def restore(
        cls, about: dict[str, Any], tensors: dict[str, Tensor], n_items: int, device: torch.device
    ) -> ItemTable:
        """A table from what was saved. A matrix that was dense is dense again if it fits in memory."""
        level, dense = typed(float, about["level"], "level"), typed(bool, about["dense"], "dense")
        if "table" in tensors:
            fit(tensors, Dense.shapes, n_items=n_items)
            return cls(Dense(tensors["table"]), level)
        fit(tensors, Sparse.shapes, n_items=n_items)
        fit_rows(tensors["start"], tensors["column"], n_items)
        store = Sparse(*(tensors[name] for name in Sparse.shapes))
        enough = len(store.value) >= budget(device).dense_share * n_items**2
        if dense and enough and 8 * n_items**2 <= free_memory(device):
            return cls(store.dense(), level)
        return cls(store, level)


class Room(NamedTuple):
    """How to store an item-item matrix."""

    dense: bool
    neighbours: int | None  # None for all
    note: str | None = None  # says that memory limits the neighbours


def make_room(neighbours: Neighbours, entries: int, n_items: int, device: torch.device) -> Room:
    """How to store a matrix with up to `entries` nonzero entries. It may take half of the free memory."""
    most = entries if neighbours == "auto" else min(entries, neighbours * n_items)
    room = free_memory(device) // 2
    dense = 4 * n_items**2 <= room and most >= budget(device).dense_share * n_items**2
    room = min(room, free_memory(torch.device("cpu")) // 2)  # sparse matrices are built on the host
    if dense or _ENTRY * most <= room:
        return Room(dense, None if neighbours == "auto" else neighbours)
    fits = next((n for n in _STANDARD if _ENTRY * n * n_items <= room), 0)
    wanted = "the similarities" if neighbours == "auto" else f"{neighbours} neighbours"
    needs, has = (f"{size / 2**30:.1f} GiB" for size in (_ENTRY * most, room))
    short = f"{wanted} of {n_items:,} items need {needs}, and {has} may be taken"
    require(
        neighbours == "auto" and fits > 0, short, f"take {fits or 'fewer'} neighbours, or a machine with more memory"
    )
    return Room(False, fits, f"{short}: only the {fits} strongest neighbours of each item are kept")


def make_table(blocks: Iterator[Block], room: Room, n_items: int, device: torch.device, label: str) -> ItemTable:
    """The table of an item-item matrix, from blocks of rows of its transpose."""
    with progress(f"{label}: similarities", n_items) as shown:

        def kept() -> Iterator[Block]:
            for block in blocks:
                yield block if room.neighbours is None else strongest(block, room.neighbours)
                shown.advance(block.shape[0])

        if not room.dense:
            return ItemTable(sparse_of(kept(), device))
        store = dense_of(kept(), n_items, device)
        few = store.filled < budget(device).dense_share * n_items**2  # fewer than the bound that the room was made for
        return ItemTable(store.sparse() if few else store)


@dataclass(kw_only=True, eq=False, repr=False)
class ItemItem(Model):
    """r_ui = the sum of w_uj S_ji over the items j of the history, calibrated to the label's scale. S_ii is 0.

    An observed pair adds nothing to its own score. A newcomer gets the same scores as a user with the same history.

    Each item i is scored from the `neighbours` items j with the strongest S_ji, and from all that tie with the last of
    them. "auto" takes all items, or as many as fit in memory. A note then says so, and `kept` holds their number.
    """

    neighbours: Neighbours = "auto"  # strongest similarities to keep for each item; "auto" keeps what memory allows
    calibrate: Calibrate = "linear"  # map of raw scores onto the label's scale

    similarities: ItemTable | None = field(default=None, init=False)
    kept: int | None = field(default=None, init=False)  # number of neighbours; None for all

    facts: ClassVar[tuple[str, ...]] = ("kept",)

    def __post_init__(self) -> None:
        super().__post_init__()
        n = self.neighbours
        require(n == "auto" or n >= 1, f"neighbours is {n}", "give a number of at least 1, or auto")

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Blocks of rows of the transpose of S, in order. The caller may overwrite them."""

    def most_entries(self) -> int:
        """An upper bound on the nonzero entries of S: pairs of items that a user took both of."""
        sizes = self.histories.host_size
        return min(int(sizes.square().sum()), self.fitted.n_items**2)

    def learn(self, stop: Stop) -> None:
        self.similarities, self.notes = None, []  # free the memory of the old matrix
        blocks = self.blocks()
        room = make_room(self.neighbours, self.most_entries(), self.fitted.n_items, self.torch_device)
        if room.note is not None:
            self.notes = [room.note]
            logging.getLogger(__name__).warning(room.note)
        self.similarities = make_table(blocks, room, self.fitted.n_items, self.torch_device, label=type(self).__name__)
        self.kept = room.neighbours

    @property
    def _fitted_table(self) -> ItemTable:
        """The item-item matrix, once it is learned."""
        assert self.similarities is not None, "it is fitted"
        return self.similarities

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        return self._fitted_table.block(users, items)

    def raw_pairs(self, users: Users) -> Tensor:
        return self._fitted_table.pairs(users)

    def raw_terms(self, users: Users, items: Tensor) -> Tensor:
        return self._fitted_table.terms(users, items)

    def low_rank(self, rank: int) -> Factors | None:
        return self._fitted_table.low_rank(rank, self.seed) if self.map is None else None

    def out_of_sample_pairs(self, users: Users) -> Tensor | None:
        """The diagonal of S is zero, so a pair adds nothing to its own score. But S was learned from the pair too."""
        return self.score_pairs(users)

    def absorb_map(self) -> None:
        if self.map is not None and self.calibrate == "linear":
            self._fitted_table.absorb(self.map)
            self.map = None

    def tensors(self) -> dict[str, Tensor]:
        return self._fitted_table.store.tensors()

    def pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        about, tensors = super().pack()
        return about | self._fitted_table.about(), tensors

    def unpack(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        super().unpack(learned, tensors)
        mine = {name.removeprefix("model."): value for name, value in tensors.items()}
        self.similarities = ItemTable.restore(learned, mine, self.fitted.n_items, self.torch_device)


def gram_rows(x: sp.csr_matrix, device: torch.device) -> Iterator[Block]:
    """X'X of x [n_users, n_items] in blocks of rows, in order. Blocks are dense on a GPU and sparse elsewhere."""
    by_item = x.T.tocsr()
    rows = Histories(by_item, device)
    step = max(budget(device).gram_numbers // max(x.shape), 1)
    for first in range(0, x.shape[1], step):
        last = min(first + step, x.shape[1])
        yield gram_block(rows, first, last) if device.type == "cuda" else by_item[first:last] @ x


def gram_block(rows: Histories, first: int, last: int) -> Tensor:
    """The rows from `first` up to `last` of X'X, [last - first, n_items]. `rows` holds the rows of X'."""
    some = rows.batch(torch.arange(first, last))
    table = torch.zeros((rows.n_items, last - first), device=rows.device)
    table[some.item, some.row] = some.weight
    everyone = rows.batch(torch.arange(rows.n_users))
    return history_sum(table, everyone, everyone.weight).T
