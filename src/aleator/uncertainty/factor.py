"""The paper's estimator: two projections of the items, one for histories and one for candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Histories, Users
from aleator.device import free_memory
from aleator.errors import require
from aleator.kernels.fold_in import padded, with_new_items
from aleator.kernels.ragged import history_products, pair_products, row_dots
from aleator.options import Among, Between, Ranges
from aleator.progress import note
from aleator.ranking.contributions import Terms
from aleator.ranks import here
from aleator.training.draws import normal_rows
from aleator.training.row_adam import RowAdam
from aleator.training.slices import Shard, Slice, found_slice
from aleator.training.stop import Stop
from aleator.uncertainty.base import Expectation
from aleator.uncertainty.objective import Objective
from aleator.uncertainty.products import ProductEstimator, Schedule
from aleator.uncertainty.spectral import spectral_start
from aleator.uncertainty.step import Tables, factor_step, history, kept, shorter

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: x,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "elu": F.elu,
}
_SHARE = 1 / 8  # most of the rows that are in use at a time in lean training
_FEWEST = 16  # users of a batch
RANDOM_INIT = 0.01  # standard deviation of random projections
RANDOM = Schedule(lr=3e-3, weight_decay=0.3, steps=16, patience=8, check_every=1, tolerance=0.0)
SPECTRAL = Schedule(lr=5e-4, weight_decay=0.0, steps=12, patience=4, check_every=1, tolerance=0.0)
# A step on sampled items is cheap and noisy, and learns less. So there are more steps and more patience.
SPECTRAL_SAMPLED = Schedule(lr=2e-4, weight_decay=0.0, steps=24, patience=8, check_every=1, tolerance=0.0)


@dataclass(kw_only=True, eq=False, repr=False)
class FactorEstimator(ProductEstimator):
    """s_ui = <p_u, q_i>, p_u = act(sum of z_i over the history / sqrt(size of the history)) (Wang et al., 2023).

    This is the paper's estimator, and the default of `AUR`. It learns two vectors for each item: z for the items of a
    history, and q for candidates.

    `self_exclude` leaves an observed item out of the history when its own loss is computed. The size of the history is
    then one less. At recommendation time, a candidate is not part of the history either.

    `init="spectral"` starts from the leading singular vectors of the interactions, so that few epochs remain. A
    number is the standard deviation of random projections (the paper's). "auto" is spectral if `dim` is far below the
    number of items. The values of the other "auto" options depend on the start.

    With `shard="items"`, each of several processes has the rows of some of the items in z and q, with their gradients and
    the state of the optimiser. Two sums of [users of a batch, dim] cross the network in a step: p and its gradient.

    `optimizer="lean"` is for catalogues that hardly fit into memory. First moments are in bfloat16 and second ones
    factored, batches of users are small enough that few rows are in use at a time, and the best weights so far wait on
    disk. "auto" takes AdamW if that fits into free memory, and lean otherwise, with a note.
    """

    dim: int = 1024  # dimensions of z and q
    activation: Literal["linear", "relu", "tanh", "elu"] = "linear"  # activation of the summed history
    init: float | Literal["auto", "spectral"] = "auto"  # start of z and q: spectral, or random with this deviation
    self_exclude: bool = True  # whether to leave an observed item out of the history in its own loss
    history_dropout: float = 0.0  # share of the history items that are dropped in training
    shard: Shard = "none"  # what several processes share out: users of a batch, or "items", each with rows of its own
    optimizer: Literal["auto", "adam", "lean"] = "auto"  # AdamW, or one whose state takes a quarter of its memory

    _lean: bool = field(default=False, init=False)  # whether the present training is lean
    z: Tensor = field(init=False)  # [n_items, dim] for the items of a history
    q: Tensor = field(init=False)  # [n_items, dim] for candidates

    learned: ClassVar[Mapping[str, str]] = {"z": "[n_items, dim]", "q": "[n_items, dim]"}
    paper: ClassVar[dict[str, Any]] = ProductEstimator.paper | {
        "init": RANDOM_INIT,
        "self_exclude": False,
        "history_dropout": 0.0,
    }
    ranges: ClassVar[Ranges] = ProductEstimator.ranges | {
        "dim": Among(128, 256, 512, 1024),
        "history_dropout": Between(0.0, 0.6),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        require(0 <= self.history_dropout < 1, f"history_dropout is {self.history_dropout}", "give a share below 1")

    def learn(self, histories: Histories, expectation: Expectation, objective: Objective, stop: Stop) -> None:
        if hasattr(self, "z"):
            self.forget()  # of an earlier fit
        self.require_memory(histories.n_items, histories.device, checked=stop.metric is not None)
        spectral = self._starts_spectral(histories.n_items)
        self.own = Slice.of(histories.n_items, self.shard)
        self.z, self.q = self._start(histories, expectation, objective, spectral)
        self.go_on(histories, expectation, objective, stop)

    def _starts_spectral(self, n_items: int) -> bool:
        return self.init == "spectral" or (self.init == "auto" and self.dim <= n_items // 4)

    def expand(self, n_items: int, before: Histories, after: Histories) -> None:
        both, dim = torch.cat([self.z, self.q], 1)[:n_items], self.z.shape[1]
        self.z = padded(self.z[:n_items], after.n_items)
        both = with_new_items(both, self.user_factors, before, after)
        self.z, self.q = both[:, :dim].contiguous(), both[:, dim:].contiguous()

    def go_on(self, histories: Histories, expectation: Expectation, objective: Objective, stop: Stop) -> None:
        n_items = histories.n_items
        plan = self.schedule(self._starts_spectral(n_items), n_items, histories.device)
        held = 4 * self.numbers(n_items)
        self._lean = self._leans(n_items, histories.device, checked=stop.metric is not None, held=held)
        if self._lean and self.optimizer == "auto":
            note("the state of AdamW does not fit into free memory: the estimator is trained by the lean optimizer")
        rows = self._row_optimizer(histories, plan)
        gradients = [] if rows else [torch.empty_like(parameter) for parameter in self.parameters()]

        def loss(users: Users, draw: torch.Generator) -> Tensor:
            items = self.sample(n_items, draw)
            if rows is not None:
                used: Tensor | None = None
                if items is not None:
                    used = torch.unique(self.own.places(torch.cat([users.item, items])))
                z, q, dz, dq = rows.rows(used)
                tables = Tables(z, q, dz, dq, used, own=self.own)
            else:
                self.z.grad, self.q.grad = dz, dq = gradients
                tables = Tables(self.z, self.q, dz, dq, own=self.own)
            return self.step(users, expectation, objective, tables, n_items, items, draw)

        self.log = self.minimise(loss, self.parameters(), histories, stop, plan, rows)

    def schedule(self, spectral: bool, n_items: int, device: torch.device) -> Schedule:
        """The training options. Those that are "auto" depend on the start and on whether items are sampled."""
        sample = self.sample_size(n_items, device)
        if not spectral:
            return self.resolved(RANDOM)
        if not sample:
            return self.resolved(SPECTRAL)
        # Sampled rows get rare, large gradients. Adam then takes steps that are too short, so we raise the learning rate.
        plan = self.resolved(SPECTRAL_SAMPLED)
        return replace(plan, lr=plan.lr * min(math.sqrt(n_items / sample), 4))

    @torch.no_grad()
    def _start(
        self, histories: Histories, expectation: Expectation, objective: Objective, spectral: bool
    ) -> tuple[Tensor, Tensor]:
        """z and q before training."""
        generator = torch.Generator(histories.device).manual_seed(self.seed)
        if spectral:
            return spectral_start(histories, self.dim, expectation, objective, generator, self.own)
        shape, spread = (histories.n_items, self.dim), RANDOM_INIT if isinstance(self.init, str) else self.init
        z, q = (spread * normal_rows(shape, generator, self.own, histories.device) for _ in range(2))
        return z, q

    def numbers(self, n_items: int) -> int:
        return 2 * Slice.of(n_items, self.shard).rows_of(n_items) * self.dim

    def take_rows(self, n_items: int, tensors: Mapping[str, Tensor]) -> int:
        self.own = found_slice(n_items, len(tensors["z"]), self.shard)
        return self.own.rows_of(n_items)

    def bytes_needed(self, n_items: int, device: torch.device, *, checked: bool) -> float:
        if not self._leans(n_items, device, checked=checked):
            return super().bytes_needed(n_items, device, checked=checked)
        # weights, moments in bfloat16, and the gradients with what makes them: of all rows, or of the share in use
        return 4 * self.numbers(n_items) * (1.5 + (4 * _SHARE if self._few_rows(n_items, device) else 2))

    def _leans(self, n_items: int, device: torch.device, *, checked: bool, held: int = 0) -> bool:
        """Whether to train by the lean optimizer. `held` are bytes that the tables take already."""
        if self.optimizer != "auto":
            return self.optimizer == "lean"
        return here().any(super().bytes_needed(n_items, device, checked=checked) - held > free_memory(device))

    def _few_rows(self, n_items: int, device: torch.device) -> bool:
        """Whether a lean batch uses few rows: the catalogue is so large that the sampled items are few."""
        return 0 < 2 * self.sample_size(n_items, device) <= _SHARE * n_items

    @property
    def spills(self) -> bool:
        return self._lean

    def users_at_a_time(self, histories: Histories, plan: Schedule) -> int:
        found, n_items = super().users_at_a_time(histories, plan), histories.n_items
        sample = self.sample_size(n_items, histories.device)
        if not self._lean or self.batch_size != "auto" or not self._few_rows(n_items, histories.device):
            return found
        of_users = (_SHARE * n_items - sample) / max(float(histories.host_size.double().mean()), 1)
        return min(found, max(int(of_users), _FEWEST))

    def _row_optimizer(self, histories: Histories, plan: Schedule) -> RowAdam | None:
        """An optimiser that updates only the rows in use, or None if a batch uses many rows."""
        sample = self.sample_size(histories.n_items, histories.device)
        if self._lean:
            return RowAdam(self.parameters(), lr=plan.lr, weight_decay=plan.weight_decay, lean=True)
        in_use = sample + self.users_at_a_time(histories, plan) * float(histories.host_size.double().mean())
        if not sample or histories.n_items <= 3 * in_use:
            return None
        return RowAdam(self.parameters(), lr=plan.lr, weight_decay=plan.weight_decay)

    def step(
        self,
        users: Users,
        expectation: Expectation,
        objective: Objective,
        tables: Tables,
        n_items: int,
        items: Tensor | None = None,
        draw: torch.Generator | None = None,
    ) -> Tensor:
        """The loss of a batch of users. Its gradient is written into the tables."""
        return factor_step(
            tables,
            users,
            kept(users, self.history_dropout, draw, tables.z.dtype),
            expectation,
            objective,
            n_items,
            items,
            activation=None if self.activation == "linear" else ACTIVATIONS[self.activation],
            self_exclude=self.self_exclude,
            dtype=self.product_dtype(tables.z),
        )

    def user_factors(self, users: Users) -> Tensor:
        # where ranks share out the items, each call sums over them
        return users.once("p", lambda: self._p(users), self.z) if self.own.whole else self._p(users)

    def _p(self, users: Users) -> Tensor:
        summed, scale = history(self.z, users, kept(users, 0.0, None, self.z.dtype), self.own)
        return ACTIVATIONS[self.activation](summed * scale[:, None])

    def terms(self, users: Users, items: Tensor) -> Terms:
        """<z_j, q_i> / sqrt(size of the history), if the activation is linear."""
        if self.activation != "linear":
            return super().terms(users, items)
        _, scale = history(self.z, users, kept(users, 0.0, None, self.z.dtype))
        return Terms(history_products(self.z, self.q, users, items) * scale[users.row, None], exact=True)

    def observed(self, users: Users) -> Tensor:
        if not self.self_exclude:
            return super().observed(users)
        keep = kept(users, 0.0, None, self.z.dtype)
        summed, scale = history(self.z, users, keep, self.own)
        pairs, which = self.own.pairs(users)
        without = shorter(scale, keep, users)[which]
        if self.activation == "linear":
            whole = pair_products(summed * scale[:, None], self.q, pairs)
            found = (whole - row_dots(self.z, self.q).index_select(0, pairs.item) * scale[pairs.row]) * without
        else:
            theirs, own = (table.index_select(0, pairs.item) for table in (self.q, self.z))
            rest = (summed.index_select(0, pairs.row) - own) * (scale[pairs.row] * without)[:, None]
            found = (ACTIVATIONS[self.activation](rest) * theirs).sum(1)
        return self.own.spread(found, which)
