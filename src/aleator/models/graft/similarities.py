"""An item-item matrix that was fitted elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Users, pieces
from aleator.models.graft.base import Grafted, taken
from aleator.models.item_item import ItemTable, make_room, make_table
from aleator.models.similarities import Block
from aleator.ranking.vectors import Factors
from aleator.training.stop import Stop

_ROWS = 1024  # rows of a block


@dataclass(kw_only=True, eq=False, repr=False)
class GraftedSimilarities(Grafted):
    """r_ui = the sum of the similarities of i to the items of the history, by the given matrix.

    It is calibrated to the label's scale (Zadrozny and Elkan, 2002). An item adds nothing to its own score, so the score
    of an observed pair comes from the rest of the history.
    """

    similarities: ItemTable = field(init=False)
    kept: int | None = field(default=None, init=False)  # number of neighbours; None for all

    matches_rows: ClassVar[bool] = False  # its rows are items, and a user is scored by the own history
    facts: ClassVar[tuple[str, ...]] = (*Grafted.facts, "kept")
    new_items: ClassVar[str] = "are unknown to the model and similar to none"

    def learn(self, stop: Stop) -> None:
        source = self.open_source()
        _, items = self.places(self.fitted.n_users, source.shape[0])
        entries = int(source.nnz) if sp.issparse(source) else int(source.numel())
        room = make_room("auto", entries, self.fitted.n_items, self.torch_device)
        self.notes += [] if room.note is None else [room.note]
        blocks = self._blocks(source, items)
        self.similarities = make_table(blocks, room, self.fitted.n_items, self.torch_device, label="graft")
        self.kept = room.neighbours

    def _blocks(self, source: Any, items: Any) -> Iterator[Block]:
        """Blocks of rows of the transposed matrix, in the order of the data's items."""
        if sp.issparse(source):
            yield taken(source.T, items, items)
        else:
            padded = F.pad(source.T, (0, 1, 0, 1))
            for rows in pieces(torch.from_numpy(items), _ROWS):
                yield padded[rows][:, items].to(self.torch_device)

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        return self.similarities.block(users, items)

    def raw_pairs(self, users: Users) -> Tensor:
        return self.similarities.pairs(users)

    def raw_terms(self, users: Users, items: Tensor) -> Tensor:
        return self.similarities.terms(users, items)

    def low_rank(self, rank: int) -> Factors | None:
        return self.similarities.low_rank(rank, self.seed) if self.map is None else None

    def out_of_sample_pairs(self, users: Users) -> Tensor | None:
        """The diagonal is zero, so a pair adds nothing to its own score."""
        return self.score_pairs(users)

    def absorb_map(self) -> None:
        if self.map is not None and self.calibrate == "linear":
            self.similarities.absorb(self.map)
            self.map = None

    def tensors(self) -> dict[str, Tensor]:
        return self.similarities.store.tensors()

    def pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        about, tensors = super().pack()
        return about | self.similarities.about(), tensors

    def unpack(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        super().unpack(learned, tensors)
        mine = {name.removeprefix("model."): value for name, value in tensors.items()}
        self.similarities = ItemTable.restore(learned, mine, self.fitted.n_items, self.torch_device)
