"""EASE: a linear item-item model in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from aleator.batches import Users, pieces
from aleator.data.interactions import Array
from aleator.device import budget, free_memory
from aleator.errors import AleatorError, require
from aleator.evaluation.held_out import HeldOut
from aleator.models.item_item import ItemItem, ItemTable, gram_rows
from aleator.models.path import short_path
from aleator.models.similarities import Block, dense_of
from aleator.options import Between, Ranges
from aleator.training.watch import stage

_SMALL = 4096  # up to so many items the inverse is computed in float64, which costs little
_ROWS = 1024  # rows of a block
_START = 300.0  # the l2 that a path starts from, and that is used if nothing is held out
_ON_PATH = 4096  # items on a path on a CPU


@dataclass(kw_only=True, eq=False, repr=False)
class EASE(ItemItem):
    """Embarrassingly shallow autoencoder (Steck, 2019): r_ui is what the rest of the history predicts for i.

    The item-item matrix S minimises |X - X S|^2 + l2 |S|^2 with a zero diagonal, where X holds the weights of the
    observed pairs. With P = (X'X + l2 I)^-1, it is S = I - P diag(1 / P_ii). That takes one inverse of
    [n_items, n_items].

    `l2="auto"` tries a short path of values on held-out pairs. On a CPU, the path takes the most popular items of a large
    catalogue alone: inverting the whole matrix several times would take long.
    """

    l2: float | Literal["auto"] = "auto"  # weight of |S|^2 in the loss; "auto" chooses it on validation

    ranges: ClassVar[Ranges] = {"l2": Between(10.0, 5000.0, log=True)}
    paper: ClassVar[dict[str, Any]] = {"l2": _START}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.l2 == "auto" or self.l2 > 0, f"l2 is {self.l2}", "give an l2 above 0, or auto")

    @property
    def chooses(self) -> bool:
        return self.l2 == "auto"

    @property
    def l2_used(self) -> float:
        """The l2 of the fit: the option, or what was chosen on held-out pairs."""
        return self.chosen.get("l2", _START) if self.l2 == "auto" else self.l2

    def choose(self, held_out: HeldOut) -> None:
        data, device = self.fitted, self.torch_device
        self._check_room()
        copies = budget(device).ease_copies + 2  # the Gram matrix and the similarities are kept beside an inverse
        whole = device.type == "cuda" and copies * 4 * data.n_items**2 <= free_memory(device)
        items = np.sort(np.argsort(-data.popularity, kind="stable")[: None if whole else _ON_PATH])
        gram = self._gram(items)
        there = torch.from_numpy(items).to(device)

        def judge(l2: float) -> float:
            similarities = ItemTable(dense_of(self._divided(_inverse(gram.clone(), l2)), len(items), device))

            def score(users: Users) -> list[Tensor]:
                scores = torch.full((len(users), data.n_items), -torch.inf, device=device)
                scores[:, there] = similarities.block(_only(users, there))
                return [scores]

            with torch.no_grad():
                found = float(held_out.measure(score).recall.mean())
            path.advance(metric=found)
            return found

        with stage("l2 of EASE", None) as path:
            self.keep("l2", short_path(judge, _START))

    def most_entries(self) -> int:
        return self.fitted.n_items**2

    def blocks(self) -> Iterator[Block]:
        self._check_room()
        return self._divided(_inverse(self._gram(np.arange(self.fitted.n_items)), self.l2_used))

    def _check_room(self) -> None:
        """Refuse a catalogue whose inverse does not fit in memory."""
        n_items, device = self.fitted.n_items, self.torch_device
        needed, have = budget(device).ease_copies * 4 * n_items**2, free_memory(device)
        require(
            needed <= have,
            f"EASE inverts a matrix of {n_items:,} x {n_items:,} items, which needs {needed / 2**30:.1f} GiB, "
            f"and {have / 2**30:.1f} GiB are free on {device}",
            "use graph_filter or itemknn, which need no inverse, or a device with more memory",
        )

    def _gram(self, items: Array) -> Tensor:
        """X'X of some items (dense ids), or of all."""
        x = self.fitted.csr.astype(np.float32)
        rows = gram_rows(x if len(items) == x.shape[1] else x[:, items], self.torch_device)
        return dense_of(rows, len(items), self.torch_device).table

    def _divided(self, inverse: Tensor) -> Iterator[Block]:
        """Blocks of rows of the transpose of S, from P."""
        first = 0
        for rows in pieces(inverse, _ROWS):
            block = rows / -rows.diagonal(first)[:, None]
            block.diagonal(first).zero_()
            yield block
            first += len(rows)


def _inverse(gram: Tensor, l2: float) -> Tensor:
    """(gram + l2 I)^-1, by a Cholesky factorisation. It overwrites `gram`.

    It is computed in float64 for a small catalogue. Otherwise it is computed in float32, and again in float64 if that
    fails and memory allows it.
    """
    diagonal = gram.diagonal().clone()
    kinds = [torch.float64] if len(gram) <= _SMALL else [torch.float32]
    if kinds == [torch.float32] and 3 * 8 * len(gram) ** 2 <= free_memory(gram.device):
        kinds.append(torch.float64)
    for kind in kinds:
        matrix = gram.to(kind)
        torch.add(diagonal.to(kind), l2, out=matrix.diagonal())  # float32 would lose a small l2
        root, failed = torch.linalg.cholesky_ex(matrix)
        if not int(failed):
            del gram, matrix  # their memory is needed
            found: Tensor = torch.cholesky_inverse(root)
            return found.float()
    raise AleatorError(f"an l2 of {l2:g} is too small for this data: X'X + l2 I is singular", "raise l2")


def _only(users: Users, items: Tensor) -> Users:
    """The users with those items of their histories that are among `items` (sorted), by their places there."""
    place = torch.searchsorted(items, users.item).clamp_max(len(items) - 1)
    inside = items[place] == users.item
    row = users.row[inside]
    size = torch.bincount(row, minlength=len(users))
    return replace(users, row=row, item=place[inside], weight=users.weight[inside], size=size, trained=False)
