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
from aleator.errors import need, require
from aleator.kernels.least_squares import least_squares, leave_one_out
from aleator.models.base import Model
from aleator.models.epochs import Epochs, normal
from aleator.models.factors import FactorTable
from aleator.models.squares import Negatives, squared_error, squares_by_hand
from aleator.options import Among, Between, Ranges
from aleator.progress import progress
from aleator.training.loop import Log
from aleator.training.stop import Stop

_OF_ADAM = ("lr", "batch_size", "max_epochs", "patience", "check_every", "negatives")
_OF_ALS = ("iterations",)


@dataclass(kw_only=True, eq=False, repr=False)
class MF(Epochs, Model):
    """Matrix factorisation: r_ui = <x_u, y_i>, near 0 for a pair that is not expected and near 1 for one that is.

    It minimises sum w_ui (r_ui - Y_ui)^2 + l2 (|x|^2 + |y|^2). The weight w is 1 on observed pairs (times their weight)
    and `mu` on the others (Hu, Koren and Volinsky, 2008).

    `solver="als"` (alternating least squares) solves for users and items in turn. `solver="adam"` takes gradient steps
    with early stopping. Options of the other solver are refused: `iterations` belongs to ALS, and the training options
    and `negatives` to Adam.
    """

    dim: int = 128  # dimensions of the factors
    l2: float = 0.005  # weight of the squared norms of the factors in the loss
    solver: Literal["als", "adam"] = "als"  # alternating least squares, or gradient steps by Adam
    iterations: int = 15  # iterations of alternating least squares
    lr: float = 2e-3  # learning rate of Adam
    negatives: Negatives = "all"  # unobserved pairs in the loss: all, or drawn for each user or each batch

    solved_by: str | None = field(default=None, init=False)  # "implicit" or "torch" (ALS), or "adam"

    facts: ClassVar[tuple[str, ...]] = ("solved_by",)
    trains_jointly: ClassVar[bool] = True
    weighs_negatives: ClassVar[bool] = True
    steps: ClassVar[int] = 8
    ranges: ClassVar[Ranges] = {
        "dim": Among(16, 32, 64, 128, 256),
        "mu": Between(0.01, 1.0, log=True),
        "l2": Between(1e-4, 10.0, log=True),
    }
    paper_ranges: ClassVar[Ranges] = {"mu": Among(0.01, 0.1, 0.2, 0.4), "l2": Among(0.0, 1e-4, 1e-3, 1e-2, 1e-1)}
    paper: ClassVar[dict[str, Any]] = {
        "solver": "adam",
        "negatives": "shared",
        "l2": 0.0,
        "lr": 1e-4,
        "batch_size": 32,
        "max_epochs": 1000,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        require(self.l2 >= 0, f"l2 is {self.l2}", "give an l2 of at least 0")
        require(self.iterations >= 1, f"iterations is {self.iterations}", "give at least 1")

    def unused(self) -> Mapping[str, str]:
        names = _OF_ADAM if self.solver == "als" else _OF_ALS
        return {**super().unused(), **dict.fromkeys(names, f"with solver {self.solver}")}

    @property
    def stops_early(self) -> bool:
        return self.solver == "adam"

    def learn(self, stop: Stop) -> None:
        if self.solver == "adam":
            self._by_adam(stop)
        elif self.torch_device.type == "cuda":
            self._by_als_in_torch()
        else:
            self._by_als_of_implicit()

    # Alternating least squares

    def _by_als_of_implicit(self) -> None:
        need("implicit", "ALS on the CPU (solver adam does not)")
        from implicit.cpu.als import AlternatingLeastSquares
        from threadpoolctl import threadpool_limits

        # implicit puts weight 1 / mu on observed pairs and 1 on the others: that is our objective divided by mu
        with progress("MF by ALS", self.iterations) as shown, threadpool_limits(1, "blas"):
            als = AlternatingLeastSquares(
                factors=self.dim,
                alpha=1 / self.mu,
                regularization=self.l2 / self.mu,
                iterations=self.iterations,
                random_state=self.seed,
            )
            als.fit(self._matrix(), show_progress=False, callback=lambda *_: shown.advance(1))
        self._finish_als(torch.from_numpy(als.item_factors).to(self.torch_device), "implicit")

    def _by_als_in_torch(self) -> None:
        """Alternating least squares on a GPU, by batched Cholesky factorisations."""
        generator = torch.Generator(self.torch_device).manual_seed(self.seed)
        shape = (self.fitted.n_items, self.dim)
        items = 0.01 * torch.rand(shape, generator=generator, device=self.torch_device)
        rows, by_item = self._rows(), Histories(self._matrix().T.tocsr(), self.torch_device)
        with progress("MF by ALS", self.iterations) as shown:
            for _ in range(self.iterations):
                users = least_squares(items, rows, self.mu, self.l2)
                items = least_squares(users, by_item, self.mu, self.l2)
                shown.advance(1)
        self._finish_als(items, "torch")

    def _finish_als(self, items: Tensor, solver: str) -> None:
        """Solve for the users once more. A user and a newcomer with the same history then get the same scores."""
        self.table = FactorTable(least_squares(items, self._rows(), self.mu, self.l2), items)
        self.solved_by, self.log = solver, Log(self.iterations)

    def pair_weight(self, item: Tensor, weight: Tensor) -> Tensor:
        """[n] the weights of observed pairs in the loss, from their items and from their weights in the data."""
        return weight

    def _rows(self, users: Users | None = None) -> Histories:
        """The observed pairs of all users, or of a batch, with the weights that they have in the loss."""
        rows = copy.copy(self.histories) if users is None else Histories.of_users(users, self.fitted.n_items)
        rows.weight = self.pair_weight(rows.item, rows.weight)
        return rows

    def _matrix(self) -> sp.csr_matrix:
        """The observed pairs of all users, with the weights that they have in the loss, on the host."""
        csr, weight = self.fitted.csr, self._rows().weight.cpu().numpy()
        return sp.csr_matrix((weight, csr.indices, csr.indptr), shape=csr.shape)

    # Adam

    def _by_adam(self, stop: Stop) -> None:
        shapes = (self.fitted.n_users, self.dim), (self.fitted.n_items, self.dim)
        self.table = FactorTable(*normal(*shapes, seed=self.seed, device=self.torch_device))
        self.log = self.minimise(self.loss, self.parameters(), self.histories, stop, seed=self.seed)
        self.solved_by = "adam"

    def parameters(self) -> list[Tensor]:
        return [self.table.users, self.table.items]

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        """The objective summed over a batch. The penalty of the items counts by the batch's share of the users."""
        users = replace(users, weight=self.pair_weight(users.item, users.weight))
        table, share, mean = self.table, len(users) / self.fitted.n_users, 1 / len(users)
        x, y = table.users.index_select(0, users.index), table.items
        if self.negatives != "all":
            penalty = x.square().sum() + y.square().sum() * share
            error = squared_error(x, y, users, self.mu, negatives=self.negatives, draw=generator)
            return error + self.l2 * penalty
        # The gradients are computed by hand, for the mean over users. Autograd would read the tables several times.
        found = squares_by_hand(x, y, users, self.mu, l2=(self.l2, self.l2 * share), scale=mean)
        table.users.grad = torch.zeros_like(table.users).index_copy_(0, users.index, found.x)
        table.items.grad = found.y
        return found.loss

    # Newcomers, and residuals out of sample

    @property
    def _calibrated(self) -> bool:
        """Whether a linear map is part of the factors. They then no longer minimise the loss."""
        return self.table.dim != self.dim

    def fold_in(self, users: Users) -> Tensor:
        """Fold-in by least squares for each newcomer. If the factors are calibrated, it is a linear map instead."""
        if self._calibrated:
            return super().fold_in(users)
        return least_squares(self.table.items, self._rows(users), self.mu, self.l2)

    def out_of_sample_pairs(self, users: Users) -> Tensor | None:
        """The closed form of least squares without one pair of the user."""
        if self.solver != "als" or self._calibrated:
            return None
        found = leave_one_out(self.table.items, self._rows(users), self.mu, self.l2)
        return found if self.map is None else self.map(found)
