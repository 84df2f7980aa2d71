"""MF: matrix factorisation, by alternating least squares (ALS) or by Adam."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.device import require_tables
from aleator.errors import require
from aleator.evaluation.held_out import HeldOut
from aleator.kernels.least_squares import (
    approach,
    history_terms,
    least_squares,
    leave_one_out,
    refine,
    weighted_gram,
)
from aleator.models.base import Model
from aleator.models.epochs import Epochs, normal
from aleator.models.factors import FactorTable
from aleator.models.path import short_path
from aleator.models.squares import Negatives, squared_error, squares_by_hand
from aleator.options import Among, Between, Ranges
from aleator.ranking.derived import Derived
from aleator.training.loop import Log
from aleator.training.stop import Stop
from aleator.training.update import Update
from aleator.training.watch import phase, stage

_OF_ADAM = ("lr", "batch_size", "max_epochs", "patience", "check_every", "negatives")
_OF_ALS = ("iterations",)
_START = 0.003  # the l2 that a path starts from, and that is used if nothing is held out
_FIRST, _NEXT = 8, 4  # iterations of ALS for the first value on a path, and for each that goes on from the best so far
_STEPS = 3  # of conjugate gradients in each half of an iteration


@dataclass(kw_only=True, eq=False, repr=False)
class MF(Epochs, Model):
    """Matrix factorisation: r_ui = <x_u, y_i>, near 0 for a pair that is not expected and near 1 for one that is.

    It minimises sum w_ui (r_ui - Y_ui)^2 + l2 (sum_u c_u |x_u|^2 + sum_i c_i |y_i|^2). The weight w is 1 on observed
    pairs (times their weight) and `mu` on the others (Hu, Koren and Volinsky, 2008). With `frequency`, c_u is the weight
    of the user's pairs + mu n_items, and c_i that of the item's pairs + mu n_users (Rendle et al., 2022). An `l2` then
    means about the same for data of any size. Without it, c is 1.

    `l2="auto"` tries a short path of values on held-out pairs. A large l2 turns off dimensions that the data cannot
    support, so `dim` need not be chosen.

    `solver="als"` (alternating least squares) solves for users and items in turn. `solver="adam"` takes gradient steps
    with early stopping, which leaves little to choose: "auto" is then a fixed l2. Options of the other solver are
    refused: `iterations` belongs to ALS, and the training options and `negatives` to Adam.
    """

    dim: int = 256  # dimensions of the factors
    l2: float | Literal["auto"] = "auto"  # weight of the squared norms in the loss; "auto" chooses it on validation
    frequency: bool = True  # whether the penalty of a user or an item grows with the weight of its pairs
    solver: Literal["als", "adam"] = "als"  # alternating least squares, or gradient steps by Adam
    iterations: int = 15  # iterations of alternating least squares
    lr: float = 2e-3  # learning rate of Adam
    negatives: Negatives = "all"  # unobserved pairs in the loss: all, or drawn for each user or each batch

    solved_by: str | None = field(default=None, init=False)  # "conjugate gradients" (ALS) or "adam"
    _gram: Derived[Tensor] = field(default_factory=lambda: Derived(weighted_gram), init=False)  # for each fold-in

    facts: ClassVar[tuple[str, ...]] = ("solved_by",)
    trains_jointly: ClassVar[bool] = True
    streams: ClassVar[bool] = True
    weighs_negatives: ClassVar[bool] = True
    steps: ClassVar[int] = 8
    ranges: ClassVar[Ranges] = {
        "dim": Among(16, 32, 64, 128, 256),
        "mu": Between(0.01, 1.0, log=True),
        "l2": Between(1e-5, 0.1, log=True),
    }
    paper_ranges: ClassVar[Ranges] = {"mu": Among(0.01, 0.1, 0.2, 0.4), "l2": Among(0.0, 1e-4, 1e-3, 1e-2, 1e-1)}
    paper: ClassVar[dict[str, Any]] = {
        "dim": 128,
        "solver": "adam",
        "negatives": "shared",
        "l2": 0.0,
        "frequency": False,
        "lr": 1e-4,
        "batch_size": 32,
        "max_epochs": 1000,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        require(self.l2 == "auto" or self.l2 >= 0, f"l2 is {self.l2}", "give an l2 of at least 0, or auto")
        require(self.iterations >= 1, f"iterations is {self.iterations}", "give at least 1")

    def unused(self) -> Mapping[str, str]:
        names = _OF_ADAM if self.solver == "als" else _OF_ALS
        return {**super().unused(), **dict.fromkeys(names, f"with solver {self.solver}")}

    @property
    def stops_early(self) -> bool:
        return self.solver == "adam"

    @property
    def chooses(self) -> bool:
        return self.solver == "als" and self.l2 == "auto"

    @property
    def l2_used(self) -> float:
        """The l2 of the fit: the option, or what was chosen on held-out pairs."""
        return self.chosen.get("l2", _START) if self.l2 == "auto" else self.l2

    def learn(self, stop: Stop) -> None:
        if self.solver == "adam":
            self._by_adam(stop)
        else:
            self._by_als(ALS(self), self.iterations)

    # Alternating least squares

    def _by_als(self, als: ALS, iterations: int) -> None:
        als.iterate(iterations)
        # Users are solved at the end. A user and a newcomer with the same history then get the same scores.
        users = refine(als.users, als.items, als.by_user, self.mu, self.penalty(als.by_user))
        self.table = FactorTable(users, als.items)
        self.solved_by, self.log = "conjugate gradients", Log(iterations)

    def choose(self, held_out: HeldOut) -> None:
        als, best, iterations = ALS(self), -1.0, _FIRST
        kept = als.users, als.items  # those of the best l2 so far

        def judge(l2: float) -> float:
            nonlocal best, kept, iterations
            self.chosen = {"l2": l2}
            als.users, als.items = kept
            with phase(f"l2 {l2:.4g}"):
                als.iterate(iterations)
            als.solve_users()
            iterations = _NEXT
            self.table = FactorTable(als.users, als.items)
            found = self._recall(held_out)
            path.advance(metric=found)
            if found > best:
                best, kept = found, (als.users, als.items)
            return found

        with stage(f"l2 of {type(self).__name__}", None) as path:
            self.keep("l2", short_path(judge, _START * (1 if self.frequency else als.mean_weight())))

    def penalty(self, rows: Histories, weight: Tensor | None = None) -> Tensor:
        """[n_rows] the weight of the squared norm of each row's factors in the loss.

        `weight` is `weight_of` the rows, if it is known already.
        """
        if not self.frequency:
            return torch.full((rows.n_users,), self.l2_used, device=rows.device)
        weight = weight_of(rows, self.mu) if weight is None else weight
        return (self.l2_used * weight).to(rows.weight.dtype)

    def pair_weight(self, item: Tensor, weight: Tensor) -> Tensor:
        """[n] the weights of observed pairs in the loss, from their items and from their weights in the data."""
        return weight

    def rows(self, users: Users | None = None) -> Histories:
        """The observed pairs of all users, or of a batch, with the weights that they have in the loss."""
        rows = copy.copy(self.histories) if users is None else Histories.of_users(users, self.fitted.n_items)
        rows.weight = self.pair_weight(rows.item, rows.weight)
        return rows

    def item_rows(self) -> Histories:
        """The observed pairs of all items, with the weights that they have in the loss."""
        if self.fitted.on_disk is not None:
            return Histories.of_rows(self.fitted.on_disk.by_item, self.torch_device)
        csr, weight = self.fitted.csr, self.rows().weight.cpu().numpy()
        by_user = sp.csr_matrix((weight, csr.indices, csr.indptr), shape=csr.shape)
        return Histories(by_user.T.tocsr(), self.torch_device)

    # Adam

    def _by_adam(self, stop: Stop) -> None:
        shapes = (self.fitted.n_users, self.dim), (self.fitted.n_items, self.dim)
        self.table = FactorTable(*normal(*shapes, seed=self.seed, device=self.torch_device))
        self.go_on(stop)
        self.solved_by = "adam"

    def parameters(self) -> list[Tensor]:
        return [self.table.users, self.table.items]

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        """The objective summed over a batch. Each user has a share of the penalty of the items."""
        users = replace(users, weight=self.pair_weight(users.item, users.weight))
        table, mean, l2 = self.table, 1 / len(users), self.l2_used
        x, y = table.users.index_select(0, users.index), table.items
        on_x, on_y = self._penalty_of_batch(users)
        none = x.new_zeros(())  # without a penalty, autograd need not pass through all factors
        penalty = l2 * ((x.square() * on_x).sum() + (y.square() * on_y).sum()) if l2 else none
        if self.negatives != "all":
            return squared_error(x, y, users, self.mu, negatives=self.negatives, draw=generator) + penalty
        # The gradients are computed by hand, for the mean over users. Autograd would read the tables several times.
        found = squares_by_hand(x, y, users, self.mu, scale=mean)
        with torch.no_grad():
            dx, dy = (found.x.addcmul_(x, on_x, value=2 * mean * l2), found.y.addcmul_(y, on_y, value=2 * mean * l2))
            table.users.grad = torch.zeros_like(table.users).index_copy_(0, users.index, dx)
            table.items.grad = dy
        return found.loss + penalty.detach()

    def _penalty_of_batch(self, users: Users) -> tuple[Tensor, Tensor]:
        """[B, 1] and [n_items, 1] or less: the factors of the squared norms of a batch's users, and of the items.

        Those of the items add up over the users: a pair adds its weight to its item, and every user adds mu.
        """
        x, (n_users, n_items) = self.table.users, (self.fitted.n_users, self.fitted.n_items)
        if not self.frequency:
            return x.new_ones(1), x.new_full((1,), len(users) / n_users)
        on_x = weight_of(Histories.of_users(users, n_items), self.mu).to(x.dtype)
        on_y = x.new_full((n_items,), self.mu * len(users)).index_add_(0, users.item, users.weight.to(x.dtype))
        return on_x[:, None], on_y[:, None]

    # Updates

    @property
    def goes_on(self) -> bool:
        return not self._calibrated

    def expand(self, update: Update, before: Histories) -> None:
        """By ALS, users are solved with the items of the fit, and then the items that came since with all users."""
        if self.solver == "adam" or self._calibrated:
            super().expand(update, before)
            return
        als = ALS(self, self.table.padded(self.histories, update.n_items))
        als.solve_users()
        als.solve_items_from(update.n_items)
        self.table = FactorTable(als.users, als.items)

    def moved(self, x: Tensor, before: Users, after: Users) -> Tensor:
        return super().moved(x, before, after) if self._calibrated else self.fold_in(after)

    def go_on(self, stop: Stop) -> None:
        if self.solver == "adam":
            self.log = self.minimise(self.loss, self.parameters(), self.histories, stop, seed=self.seed)
        else:
            self._by_als(ALS(self, self.table), stop.epochs or 0)

    # Newcomers, and residuals out of sample

    @property
    def _calibrated(self) -> bool:
        """Whether a linear map is part of the factors. They then no longer minimise the loss."""
        return self.table.dim != self.dim

    def fold_in(self, users: Users) -> Tensor:
        """Fold-in by least squares for each newcomer. If the factors are calibrated, it is a linear map instead."""
        if self._calibrated:
            return super().fold_in(users)
        rows, items = self.rows(users), self.table.items
        return least_squares(items, rows, self.mu, self.penalty(rows), self._gram(items, self.mu))

    def raw_terms(self, users: Users, items: Tensor) -> Tensor | None:
        """The terms of the least squares that give the factors of a user. There are none with another solver."""
        if self.solver != "als" or self._calibrated:
            return None
        rows = self.rows(users)
        return history_terms(self.table.items, rows, self.mu, self.penalty(rows), items)

    def out_of_sample_pairs(self, users: Users) -> Tensor | None:
        """The closed form of least squares without one pair of the user."""
        if self.solver != "als" or self._calibrated:
            return None
        rows = self.rows(users)
        found = leave_one_out(self.table.items, rows, self.mu, self.penalty(rows))
        return found if self.map is None else self.map(found)


class ALS:
    """Alternating least squares for a model: its factors, and the pairs of users and items. They start at random.

    Each half of an iteration takes a few steps of conjugate gradients from the factors of the iteration before. That is
    far quicker than solving it exactly, and it ends at the same place.
    """

    def __init__(self, model: MF, start: FactorTable | None = None) -> None:
        self.model, device = model, model.torch_device
        self.by_user, self.by_item = model.rows(), model.item_rows()
        rows = self.by_user.n_users, self.by_user.n_items
        require_tables(*((n, model.dim) for n in rows), device=device)
        draw = torch.Generator().manual_seed(model.seed)
        self.items = 0.01 * torch.rand((self.by_user.n_items, model.dim), generator=draw).to(device)
        self.items[self.by_item.size == 0] = 0  # their least squares solution
        self.users = self.items.new_zeros((self.by_user.n_users, model.dim))
        if start is not None:
            self.users, self.items = start.users, start.items
        # a batch of all rows is kept; several are made anew each time, since together they are as large as the pairs
        self._whole = [_batch(rows, 0, rows.n_users) if len(rows.spans) == 1 else None for rows in self._sides]
        self._weights = self._weigh() if model.frequency else []

    @property
    def _sides(self) -> tuple[Histories, Histories]:
        return self.by_user, self.by_item

    def _weigh(self) -> list[Tensor]:
        return [weight_of(rows, self.model.mu) for rows in self._sides]

    def iterate(self, times: int) -> None:
        """Solve for the users, then for the items, `times` times."""
        with stage(f"{type(self.model).__name__} by ALS", times) as told:
            for _ in range(times):
                self.solve_users()
                self.items = self._solve(1, self.items, self.users)
                told.advance()

    def solve_users(self) -> None:
        self.users = self._solve(0, self.users, self.items)

    def solve_items_from(self, first: int) -> None:
        """Solve exactly for the items from the dense id `first` on."""
        index = torch.arange(first, self.by_item.n_users)
        rows = Histories.of_users(self.by_item.batch(index), self.by_item.n_items)
        model = self.model
        found = least_squares(self.users, rows, model.mu, model.penalty(rows))
        self.items = torch.cat([self.items[:first], found])

    def _solve(self, side: int, x: Tensor, y: Tensor) -> Tensor:
        model, rows = self.model, self._sides[side]
        l2 = model.penalty(rows, self._weights[side] if self._weights else None)
        gram, found = weighted_gram(y, model.mu), torch.empty_like(x)
        for a, b in rows.spans:
            batch = self._whole[side] or _batch(rows, a, b)
            found[a:b] = approach(x[a:b], y, batch, model.mu, l2[a:b], _STEPS, gram)
        return found

    def mean_weight(self) -> float:
        """The mean over users and items of what `frequency` multiplies their penalty by."""
        return float(torch.cat(self._weights or self._weigh()).mean())


def _batch(rows: Histories, first: int, last: int) -> Users:
    return rows.batch(torch.arange(first, last))


def weight_of(rows: Histories, mu: float) -> Tensor:
    """[n_rows] the weight of each row's pairs, and `mu` for each pair that it could have. In float64."""
    found = torch.empty(rows.n_users, dtype=torch.float64, device=rows.device)
    for a, b in rows.spans:
        ends = rows.indptr[a : b + 1]
        start, end = int(ends[0]), int(ends[-1])
        found[a:b] = torch.segment_reduce(rows.weight[start:end].double(), "sum", offsets=ends - start, initial=0)
    return found.add_(mu * rows.n_items)
