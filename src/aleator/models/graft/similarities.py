"""An item-item matrix that was fitted elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import scipy.sparse as sp
import torch
from torch.nn import functional as F

from aleator.batches import pieces
from aleator.models.graft.base import Grafted, taken
from aleator.models.item_item import ItemItemModel
from aleator.models.similarities import Block

_ROWS = 1024  # of a matrix at a time


@dataclass(kw_only=True, eq=False, repr=False)
class GraftedSimilarities(Grafted, ItemItemModel):
    """r_ui = what the items of the history say of i by the matrix given, on the label's scale (Zadrozny and Elkan, 2002).

    An item says nothing of itself, so that an observed pair is expected only as far as the rest of the history goes.
    """

    neighbours: int | Literal["auto"] = field(default="auto", init=False)

    facts: ClassVar[tuple[str, ...]] = (*Grafted.facts, *ItemItemModel.facts)
    new_items: ClassVar[str] = "are unknown to the model and similar to none"

    def most_entries(self) -> int:
        return int(self.source.nnz) if sp.issparse(self.source) else int(self.source.numel())

    def blocks(self) -> Iterator[Block]:
        _, items = self.places(self.fitted.n_users, self.source.shape[0])
        if sp.issparse(self.source):
            yield taken(self.source.T, items, items)
        else:
            padded = F.pad(self.source.T, (0, 1, 0, 1))
            for rows in pieces(torch.from_numpy(items), _ROWS):
                yield padded[rows][:, items].to(self.torch_device)
