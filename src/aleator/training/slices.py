"""Slices: the rows of an item table that one rank has, and what the ranks send each other to score with all of them.

Where a table is shared out over the ranks, each has the rows of a range of items. What it computes from them is a part
of a sum over items, or some of the columns of a block of scores. Every rank has to call the same functions here in the
same order. A process alone has all rows, and then nothing here costs anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.errors import AleatorError, require
from aleator.kernels.ragged import pair_products
from aleator.ranks import ALONE, Ranks, here

Shard = Literal["none", "items"]
"""What the ranks share out. "none": each has the whole table, and takes some of the users of a batch. "items": each has
the rows of some items, and takes all users of a batch."""

_apart: ContextVar[bool] = ContextVar("apart", default=False)


@dataclass(frozen=True)
class Slice:
    """The items `first` to `last` - 1 of `n_items`, whose rows this rank has. Without ranks it is all items."""

    n_items: int = 0
    ranks: Ranks = ALONE

    @staticmethod
    def of(n_items: int, shard: Shard = "items") -> Slice:
        """The slice of this rank in a catalogue of so many items."""
        ranks = here()
        if shard == "none" or ranks.size == 1:
            return WHOLE
        told = f"{n_items} items cannot be shared out over {ranks.size} processes"
        require(n_items >= ranks.size, told, "start fewer processes")
        return Slice(n_items, ranks)

    @property
    def whole(self) -> bool:
        return self.ranks.size == 1

    def edge(self, rank: int) -> int:
        """The first item of a rank."""
        return rank * self.n_items // self.ranks.size

    @property
    def first(self) -> int:
        return self.edge(self.ranks.rank)

    @property
    def last(self) -> int:
        return self.edge(self.ranks.rank + 1)

    @property
    def rows(self) -> list[int]:
        """The number of rows of each rank."""
        return [self.edge(rank + 1) - self.edge(rank) for rank in range(self.ranks.size)]

    def rows_of(self, n_items: int) -> int:
        """How many of the items have their row here."""
        return n_items if self.whole else self.last - self.first

    # What this rank has of something

    def mine(self, items: Tensor) -> Tensor:
        """Which of the items have their row here."""
        return (items >= self.first) & (items < self.last)

    def places(self, items: Tensor) -> Tensor:
        """The rows of those `items` that are here."""
        return items if self.whole else items[self.mine(items)] - self.first

    def pairs(self, users: Users) -> tuple[Users, Tensor | slice]:
        """The pairs of a batch whose items have their row here, with the rows in place of the ids, and which they are.

        The sizes of the histories are those of these pairs.
        """
        if self.whole:
            return users, slice(None)
        which = self.mine(users.item)
        row = users.row[which]
        return (
            replace(
                users,
                row=row,
                item=users.item[which] - self.first,
                weight=users.weight[which],
                size=torch.bincount(row, minlength=len(users)),
                within=None,
            ),
            which,
        )

    # What all ranks have together

    def sum(self, part: Tensor) -> Tensor:
        """The sum over the ranks, in place. Differentiable: the gradient is summed over the ranks too."""
        if self.whole:
            return part
        if not part.requires_grad:
            self.ranks.sum(part)
            return part
        summed: Tensor = _Sum.apply(part, self.ranks)  # type: ignore[no-untyped-call]
        return summed

    def spread(self, values: Tensor, which: Tensor | slice) -> Tensor:
        """[n] the values of all pairs of a batch, from those of the pairs that are here."""
        if isinstance(which, slice):
            return values
        return self.sum(values.new_zeros(len(which)).index_put_((which,), values))

    def products(self, p: Tensor, q: Tensor, items: Tensor | None = None) -> Tensor:
        """<p_u, q_i> of all items, or of the same `items` on each rank. `q` has the rows of this rank."""
        if self.whole:
            return p @ (q if items is None else q[items]).T
        if _apart.get():
            assert items is not None, "the items of this rank"
            return p @ q[items - self.first].T
        if items is None:
            return torch.cat(self.ranks.gather((p @ q.T).T.contiguous(), self.rows)).T.contiguous()
        block, which = p.new_zeros((len(p), len(items))), self.mine(items)
        block[:, which] = p @ q[self.places(items)].T
        return self.sum(block)

    def pair_products(self, p: Tensor, q: Tensor, users: Users) -> Tensor:
        """<p_u, q_i> of each user of a batch and each item of the history, [n]."""
        pairs, which = self.pairs(users)
        return self.spread(pair_products(p, q, pairs), which)


WHOLE = Slice()


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        summed = part.clone()
        ranks.sum(summed)
        return summed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        grad = grads[0].clone()
        ctx.ranks.sum(grad)
        return grad, None


@contextmanager
def apart() -> Iterator[None]:
    """Inside, each rank asks for scores of items of its own, and nothing is sent for them."""
    before = _apart.set(True)
    try:
        yield
    finally:
        _apart.reset(before)


def found_slice(n_items: int, rows: int, shard: Shard) -> Slice:
    """The slice that a table of so many rows has. What was saved is whole, and what a journal kept may not be."""
    own = WHOLE if rows == n_items else Slice.of(n_items, shard)
    if rows != own.rows_of(n_items):
        raise ValueError(f"a table has {rows} rows of {n_items}")
    return own


@contextmanager
def collected(
    tensors: dict[str, Tensor], slices: Mapping[str, Slice], beside: Path | None
) -> Iterator[dict[str, Tensor]]:
    """Inside, the first rank has the tensors with all their rows, in files next to `beside`. Others have their own."""
    if not slices:
        yield tensors
        return
    if beside is None:  # not the first rank
        for name, own in sorted(slices.items()):
            own.ranks.collect(tensors[name], None, own.rows)
        yield tensors
        return
    try:
        beside.parent.mkdir(parents=True, exist_ok=True)
        place = TemporaryDirectory(prefix=f".{beside.name}.", dir=beside.parent)
    except OSError as error:
        raise AleatorError(f"nothing can be written beside '{beside}' ({error})", "save to another place") from None
    with place as folder:
        yield tensors | {
            name: _collected(tensors[name], own, Path(folder) / str(number))
            for number, (name, own) in enumerate(sorted(slices.items()))
        }


def _collected(tensor: Tensor, own: Slice, file: Path) -> Tensor:
    shape = own.n_items, *tensor.shape[1:]
    numbers = torch.Size(shape).numel()
    into = torch.from_file(str(file), shared=True, size=numbers, dtype=tensor.dtype).view(shape)
    own.ranks.collect(tensor, into, own.rows)
    return into
