"""Matrix factorisation, by alternating least squares or by Adam."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import scipy.sparse as sp
import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.errors import need, require
from aleator.evaluation.held_out import HeldOut
from aleator.kernels.least_squares import least_squares, leave_one_out
from aleator.models.factors import FactorModel
from aleator.models.squares import SquaresModel, squares_by_hand
from aleator.options import Among, Between, Ranges
from aleator.progress import progress
from aleator.training.loop import Log


@dataclass(kw_only=True, eq=False, repr=False)
class MF(FactorModel, SquaresModel):
    """Matrix factorisation: r_ui = <x_u, y_i>, near 0 for a pair that is not expected and near 1 for one that is.

    Minimises sum w_ui (r_ui - Y_ui)^2 + l2 (|x|^2 + |y|^2) with w = 1 on observed pairs (times their weight) and `mu`
    on the others (Hu, Koren and Volinsky, 2008). `solver="als"` does so one side at a time, `"adam"` by gradients, with
    the others as `negatives` says: all, or drawn for each user, or one set for a batch.
    """

    l2: float = 0.005
    solver: Literal["als", "adam"] = "als"
    iterations: int = 15  # of ALS
    lr: float = 2e-3

    solved_by: str | None = field(default=None, init=False)  # "implicit", "torch" or "adam"

    facts: ClassVar[tuple[str, ...]] = ("solved_by",)
    trains_jointly: ClassVar[bool] = True
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
        require(self.l2 >= 0, f"l2 is {self.l2}", "give an l2 of at least 0")
        require(self.iterations >= 1, f"iterations is {self.iterations}", "give at least 1")

    @property
    def stops_early(self) -> bool:
        return self.solver == "adam"

    def learn(self, check: HeldOut | None, epochs: int | None) -> None:
        if self.solver == "adam":
            self.user_factors, self.item_factors = self.normal(
                (self.fitted.n_users, self.dim), (self.fitted.n_items, self.dim)
            )
            self.optimise(self.parameters(), self.loss, check, epochs)
            self.solved_by = "adam"
        elif self.torch_device.type == "cuda":
            self._als_torch()
        else:
            self._als_implicit()

    def _als_implicit(self) -> None:
        need("implicit", "ALS on the CPU (solver adam does not)")
        from implicit.cpu.als import AlternatingLeastSquares
        from threadpoolctl import threadpool_limits

        # implicit puts c = 1 / mu on observed pairs and 1 on the others: our objective divided by mu
        with progress("MF by ALS", self.iterations) as shown, threadpool_limits(1, "blas"):
            als = AlternatingLeastSquares(
                factors=self.dim,
                alpha=1 / self.mu,
                regularization=self.l2 / self.mu,
                iterations=self.iterations,
                random_state=self.seed,
            )
            als.fit(self._matrix(), show_progress=False, callback=lambda *_: shown.advance(1))
        self.item_factors = torch.from_numpy(als.item_factors).to(self.torch_device)
        self._finish("implicit")

    def _als_torch(self) -> None:
        """The same alternation by batched Cholesky factorisations on the device."""
        generator = torch.Generator(self.torch_device).manual_seed(self.seed)
        shape = (self.fitted.n_items, self.dim)
        self.item_factors = 0.01 * torch.rand(shape, generator=generator, device=self.torch_device)
        rows, by_item = self._rows(), Histories(self._matrix().T.tocsr(), self.torch_device)
        with progress("MF by ALS", self.iterations) as shown:
            for _ in range(self.iterations):
                users = least_squares(self.item_factors, rows, self.mu, self.l2)
                self.item_factors = least_squares(users, by_item, self.mu, self.l2)
                shown.advance(1)
        self._finish("torch")

    def _finish(self, solver: str) -> None:
        """Solve the users exactly once more: a user and a newcomer of the same history then get the same scores."""
        self.user_factors = least_squares(self.item_factors, self._rows(), self.mu, self.l2)
        self.solved_by, self.log = solver, Log(self.iterations)

    def pair_weight(self, item: Tensor, weight: Tensor) -> Tensor:
        """[n] the weights of observed pairs in the loss, by their items and their weights in the data."""
        return weight

    def _rows(self, users: Users | None = None) -> Histories:
        """Everybody's observed pairs, or those of a batch, with the weights that they have in the loss."""
        rows = copy.copy(self.histories) if users is None else Histories.of_users(users, len(self.item_factors))
        rows.weight = self.pair_weight(rows.item, rows.weight)
        return rows

    def _matrix(self) -> sp.csr_matrix:
        """Everybody's, on the host."""
        csr, weight = self.fitted.csr, self._rows().weight.cpu().numpy()
        return sp.csr_matrix((weight, csr.indices, csr.indptr), shape=csr.shape)

    def parameters(self) -> list[Tensor]:
        return [self.user_factors, self.item_factors]

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        """The objective summed over a batch, or its estimate from a share of the others; item L2 in proportion."""
        users = replace(users, weight=self.pair_weight(users.item, users.weight))
        x, y = self.user_factors.index_select(0, users.index), self.item_factors
        share, mean = len(users) / self.fitted.n_users, 1 / len(users)
        if self.negatives != "all":
            penalty = x.square().sum() + y.square().sum() * share
            return self.squares(x, y, users, generator) + self.l2 * penalty
        # the gradient of the mean is put in place by hand, which spares passes of autograd over the tables
        found = squares_by_hand(x, y, users, self.mu, l2=(self.l2, self.l2 * share), scale=mean)
        self.user_factors.grad = torch.zeros_like(self.user_factors).index_copy_(0, users.index, found.x)
        self.item_factors.grad = found.y
        return found.loss

    def fold_in(self, users: Users) -> Tensor:
        """Newcomers are solved for exactly, but for those of calibrated factors."""
        if self.calibrated:
            return super().fold_in(users)
        return least_squares(self.item_factors, self._rows(users), self.mu, self.l2)

    def out_of_sample_pairs(self, users: Users) -> Tensor | None:
        """In closed form for the least squares of the user: `kernels.leave_one_out`."""
        if self.solver != "als" or self.calibrated:
            return None
        found = leave_one_out(self.item_factors, self._rows(users), self.mu, self.l2)
        return found if self.map is None else self.map(found)
