"""Matrix factorisation, by alternating least squares or by Adam."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from aleator.data.interactions import Interactions
from aleator.errors import need, require
from aleator.evaluation.held_out import HeldOut
from aleator.models.base import Model
from aleator.progress import progress
from aleator.training.histories import Histories, Users
from aleator.training.kernels import add_by_item, history_sum, least_squares, pair_products
from aleator.training.trainer import Log, Trainer


@dataclass(kw_only=True, eq=False, repr=False)
class MF(Model):
    """Matrix factorisation: r_ui = <x_u, y_i>, near 0 for a pair that is not expected and near 1 for one that is.

    Minimises sum w_ui (r_ui - Y_ui)^2 + l2 (|x|^2 + |y|^2) with w = 1 on observed pairs (times their weight) and `mu`
    on the others (Hu, Koren and Volinsky, 2008). `solver="als"` does so one side at a time, `"adam"` by gradients. The
    AUR paper draws a random share `mu` of the others in each batch (`negatives="each"`), the same in expectation; with
    `"all"` they come from one Gram matrix, so that an epoch costs the observed pairs and not users x items.
    """

    dim: int = 128
    mu: float = 0.1  # weight, or share kept, of the unobserved pairs
    l2: float = 0.005
    solver: Literal["als", "adam"] = "als"
    iterations: int = 15  # of ALS
    negatives: Literal["all", "each", "shared"] = "all"  # Adam: all, or drawn for each user, or one set for a batch
    lr: float = 2e-3
    batch_size: int | Literal["auto"] = "auto"  # users; "auto" makes about 8 steps an epoch
    max_epochs: int = 200
    patience: int = 10
    check_every: int = 2

    solved_by: str | None = field(default=None, init=False)  # "implicit", "torch" or "adam"

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
        require(0 < self.mu <= 1, f"mu is {self.mu}", "give a mu above 0 and at most 1")
        require(self.l2 >= 0, f"l2 is {self.l2}", "give an l2 of at least 0")
        require(
            min(self.iterations, self.max_epochs, self.patience, self.check_every) >= 1
            and (self.batch_size == "auto" or self.batch_size >= 1)
            and self.lr > 0,
            "a training option is not positive",
            "give numbers above 0",
        )

    @property
    def stops_early(self) -> bool:
        return self.solver == "adam"

    def train(self, data: Interactions, check: HeldOut | None = None, epochs: int | None = None) -> None:
        self.data = data
        if self.solver == "adam":
            self._adam(check, epochs)
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
            als.fit(self.fitted.csr, show_progress=False, callback=lambda *_: shown.advance(1))
        self.item_factors = torch.from_numpy(als.item_factors).to(self.torch_device)
        self._finish("implicit")

    def _als_torch(self) -> None:
        """The same alternation by batched Cholesky factorisations on the device."""
        generator = torch.Generator(self.torch_device).manual_seed(self.seed)
        shape = (self.fitted.n_items, self.dim)
        self.item_factors = 0.01 * torch.rand(shape, generator=generator, device=self.torch_device)
        by_item = Histories(self.fitted.csr.T.tocsr(), self.torch_device)
        with progress("MF by ALS", self.iterations) as shown:
            for _ in range(self.iterations):
                users = least_squares(self.item_factors, self.histories, self.mu, self.l2)
                self.item_factors = least_squares(users, by_item, self.mu, self.l2)
                shown.advance(1)
        self._finish("torch")

    def _finish(self, solver: str) -> None:
        """Solve the users exactly once more: a user and a newcomer of the same history then get the same scores."""
        self.user_factors = least_squares(self.item_factors, self.histories, self.mu, self.l2)
        self.solved_by, self.log = solver, Log(self.iterations)

    def _adam(self, check: HeldOut | None, epochs: int | None) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        sizes = (self.fitted.n_users, self.fitted.n_items)
        self.user_factors, self.item_factors = (
            (0.01 * torch.randn(n, self.dim, generator=generator)).to(self.torch_device).requires_grad_() for n in sizes
        )
        trainer = Trainer(
            max_epochs=epochs or self.max_epochs,
            batch_size=self.histories.batch_size(8) if self.batch_size == "auto" else self.batch_size,
            lr=self.lr,
            device=self.torch_device,
            patience=self.patience,
            check_every=self.check_every,
            seed=self.seed,
            label="MF by Adam",
        )
        parameters = [self.user_factors, self.item_factors]
        self.log = trainer.fit(parameters, self.loss, self.histories, self.checker(check))
        self.user_factors, self.item_factors = (p.detach() for p in parameters)
        self.solved_by = "adam"

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        """The objective summed over a batch, or its estimate from a share of the others; item L2 in proportion."""
        if self.negatives == "all":
            return self._loss_with_all(users)
        x, y = self.user_factors.index_select(0, users.index), self.item_factors
        scores = x @ y.T
        observed = scores[users.row, users.item]
        penalty = x.square().sum() + y.square().sum() * (len(users) / self.fitted.n_users)
        others = (self._drawn(scores, users, generator) * scores.square()).sum()
        return others + (users.weight * (observed - 1).square()).sum() + self.l2 * penalty

    @torch.no_grad()
    def _loss_with_all(self, users: Users) -> Tensor:
        """By hand: sum_i <x, y_i>^2 = x' (Y'Y) x, less the observed pairs. The gradient of the mean is left in place."""
        x, y = self.user_factors.index_select(0, users.index), self.item_factors
        share, mean = len(users) / self.fitted.n_users, 2 / len(users)
        gram, observed = y.T @ y, pair_products(x, y, users)
        x_gram = x @ gram
        slope = (users.weight * (observed - 1) - self.mu * observed) * mean
        dx = (self.mu * x_gram + self.l2 * x) * mean
        dx += history_sum(y, users, slope)
        dy = y @ (self.mu * mean * (x.T @ x)) + (self.l2 * mean * share) * y
        add_by_item(dy, x, users, slope)
        self.user_factors.grad = torch.zeros_like(self.user_factors).index_copy_(0, users.index, dx)
        self.item_factors.grad = dy
        others = (x_gram * x).sum() - observed.square().sum()
        penalty = x.square().sum() + gram.trace() * share
        return self.mu * others + (users.weight * (observed - 1).square()).sum() + self.l2 * penalty

    def _drawn(self, scores: Tensor, users: Users, generator: torch.Generator) -> Tensor:
        """[B, n_items] 1 for the unobserved pairs that were drawn."""
        if self.negatives == "each":
            drawn = (torch.rand(scores.shape, generator=generator, device=scores.device) < self.mu).to(scores.dtype)
        else:  # floor(mu * n_items) items, the same for all users of the batch, as the released program draws them
            n_items = scores.shape[1]
            pick = torch.randperm(n_items, generator=generator, device=scores.device)[: int(self.mu * n_items)]
            drawn = torch.zeros_like(scores, requires_grad=False).index_fill_(1, pick, 1)
        drawn[users.row, users.item] = 0
        return drawn

    def factors(self, users: Users) -> tuple[Tensor, Tensor]:
        """[B, dim] and [n_items, dim] whose inner products are the scores; newcomers are solved for exactly."""
        new = users.index < 0
        if users.trained or not bool(new.any()):
            return self.user_factors[users.index], self.item_factors
        solved = least_squares(self.item_factors, Histories.of_users(users, len(self.item_factors)), self.mu, self.l2)
        known = self.user_factors[users.index.clamp_min(0)]
        return torch.where(new[:, None], solved, known), self.item_factors

    def score_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        x, y = self.factors(users)
        scores = x @ (y if items is None else y[items]).T
        return self.without_history(scores, users, items)

    def score_pairs(self, users: Users) -> Tensor:
        return pair_products(*self.factors(users), users)

    def pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        learned = {"solved_by": self.solved_by, "log": None if self.log is None else self.log.to_dict()}
        return learned, {"model.user_factors": self.user_factors, "model.item_factors": self.item_factors}

    def unpack(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.solved_by = learned["solved_by"]
        self.log = None if learned["log"] is None else Log(**learned["log"])
        self.user_factors, self.item_factors = tensors["model.user_factors"], tensors["model.item_factors"]
