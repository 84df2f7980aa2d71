"""FISM: a user is the sum of the items in the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.errors import require
from aleator.kernels.fold_in import padded, with_new_items
from aleator.kernels.ragged import history_products, history_sum
from aleator.models.base import Model
from aleator.models.epochs import Epochs, normal
from aleator.models.squares import Negatives, squared_error
from aleator.options import Among, Between, Ranges
from aleator.training.draws import per_pair, per_user
from aleator.training.slices import WHOLE, Shard, Slice, found_slice
from aleator.training.stop import Stop
from aleator.training.update import Update


@dataclass(kw_only=True, eq=False, repr=False)
class FISM(Epochs, Model):
    """r_ui = <p_u, q_i> + b_i, p_u = sum of z_j over the history / sqrt(its size) (Kabbur, Ning and Karypis, 2013).

    The exponent is 1/2, and users have no bias. The loss is the squared error over all items, with weight `alpha` on
    observed pairs. So r_ui is near 0 for a pair that is not expected and higher for one that is.

    An observed item is left out of the history in its own loss: the sum and the size are those of the other items.
    Otherwise the model would learn to repeat the history.

    Two options are for short histories, and cost accuracy on long ones. `bias` b_i makes popularity count the more, the
    less is known of a user. With `history_dropout` the model sees short histories in training. In each step a user draws
    a rate between 0 and this number, and each item of the history is dropped with that rate. The loss still asks for all
    items.

    With `shard="items"`, each of several processes has the rows of some of the items in z and q (see `ranks.py`).
    """

    dim: int | Literal["auto"] = "auto"  # dimensions of z and q: an eighth of the items, at most 1024
    bias: bool = False  # whether each item has a bias
    alpha: float = 3.0  # weight of the observed pairs in the loss
    mu: float = 1.0  # weight (or share) of the unobserved pairs in the loss
    history_dropout: float = 0.0  # largest rate at which the items of a history are dropped in training
    weight_decay: float = 1.0  # weight decay of AdamW
    lr: float = 1e-3  # learning rate of AdamW
    check_every: int = 1  # epochs between two checks of the validation Recall@20
    negatives: Negatives = "all"  # unobserved pairs in the loss: all, or drawn for each user or each batch
    shard: Shard = "none"  # what several processes share out: users of a batch, or "items", each with rows of its own

    z: Tensor = field(init=False)  # [n_items, dim] for the items of a history
    q: Tensor = field(init=False)  # [n_items, dim] for candidates; with biases they are the last of dim + 1 columns

    own: Slice = field(default=WHOLE, init=False)  # the items whose rows this process has

    learned: ClassVar[Mapping[str, str]] = {"z": "[n_items, dim]", "q": "[n_items, width]"}
    weighs_negatives: ClassVar[bool] = True
    streams: ClassVar[bool] = True
    excludes_itself: ClassVar[bool] = True  # whether an observed item is left out of the history in its own loss
    steps: ClassVar[int] = 16
    ranges: ClassVar[Ranges] = {
        "dim": Among(256, 512, 1024, 2048),
        "alpha": Between(1.0, 20.0, log=True),
        "weight_decay": Between(0.01, 10.0, log=True),
        "lr": Between(3e-4, 5e-3, log=True),
        "history_dropout": Between(0.0, 0.9),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim == "auto" or self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        require(self.alpha > 0, f"alpha is {self.alpha}", "give an alpha above 0")
        require(self.weight_decay >= 0, f"weight_decay is {self.weight_decay}", "give at least 0")
        require(0 <= self.history_dropout <= 1, f"history_dropout is {self.history_dropout}", "give a rate from 0 to 1")
        told = f"negatives is {self.negatives} and the items are shared out"
        require(self.shard == "none" or self.negatives == "all", told, 'give negatives="all" or shard="none"')

    def learn(self, stop: Stop) -> None:
        n_items = self.fitted.n_items
        shape = n_items, min(max(n_items // 8, 1), 1024) if self.dim == "auto" else self.dim
        self.own = Slice.of(n_items, self.shard)
        self.z, self.q = normal(shape, shape, seed=self.seed, device=self.torch_device, own=self.own)
        if self.bias:
            self.q = torch.cat([self.q, torch.zeros_like(self.q[:, :1])], 1)
        self.go_on(stop)

    @property
    def goes_on(self) -> bool:
        return True

    def go_on(self, stop: Stop) -> None:
        self.log = self.minimise(
            self.loss,
            self.parameters(),
            self.histories,
            stop,
            seed=self.seed,
            weight_decay=self.weight_decay,
            shard=self.shard,
        )

    def expand(self, update: Update, before: Histories) -> None:
        both, dim = torch.cat([self.z, self.q], 1)[: update.n_items], self.z.shape[1]
        self.z = padded(self.z[: update.n_items], self.fitted.n_items)
        both = with_new_items(both, lambda users: self._summed(users, self._kept(users)), before, self.histories)
        self.z, self.q = both[:, :dim].contiguous(), both[:, dim:].contiguous()

    def parameters(self) -> list[Tensor]:
        return [self.z, self.q]

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        """The squared error summed over a batch."""
        keep = self._kept(users, generator)
        less, ratio = self._without(users, keep) if self.excludes_itself else (None, None)
        return squared_error(
            self._summed(users, keep),
            self.q,
            self.own.pairs(users)[0],
            self.mu,
            negatives=self.negatives,
            draw=generator,
            positive=self.alpha,
            less=less,
            ratio=ratio,
        )

    def _kept(self, users: Users, draw: torch.Generator | None = None) -> Tensor:
        """[n] 1 for each history item that is summed, 0 for one that is dropped. Without `draw` none is dropped."""
        if self.history_dropout == 0 or draw is None:
            return torch.ones_like(users.item, dtype=self.z.dtype)
        rate = self.history_dropout * per_user(torch.rand, users, generator=draw)
        drawn = per_pair(torch.rand, users, generator=draw)
        return (drawn >= rate[users.row]).to(self.z.dtype)

    def _count(self, users: Users, keep: Tensor) -> Tensor:
        """[n] how many items of the history are summed, for each item of a history."""
        return keep.new_zeros(len(users)).index_add_(0, users.row, keep)[users.row]

    def _summed(self, users: Users, keep: Tensor) -> Tensor:
        """[B, dim] p of each user, from the items to keep. With biases the last of dim + 1 columns is 1."""
        pairs, which = self.own.pairs(users)
        weight = keep * self._count(users, keep).clamp_min(1).rsqrt()
        p = self.own.sum(history_sum(self.z, pairs, weight[which]))
        return torch.cat([p, p.new_ones(len(p), 1)], 1) if self.bias else p

    def _without(self, users: Users, keep: Tensor) -> tuple[Tensor, Tensor]:
        """`less` and `ratio` [n], with which (r - less) ratio is r from the rest of the history, for each of its items.

        They are those of the pairs whose items have their rows here.
        An item adds `own` to its own score through p, and the size of the rest makes the ratio sqrt(size / (size - 1)).
        The bias b has no part in it: (own + r' + b - less) ratio = r' ratio + b. If there is no rest, r' is 0.
        """
        pairs, which = self.own.pairs(users)
        count = self._count(users, keep)[which]
        rest = count - keep[which]
        ratio = torch.where(rest > 0, (count / rest.clamp_min(1)).sqrt(), 1.0)
        own = (self.z * self.q[:, : self.z.shape[1]]).sum(1).index_select(0, pairs.item)
        less = own * (keep[which] * count.clamp_min(1).rsqrt())
        return (less + self.q[:, -1].index_select(0, pairs.item) * (1 - 1 / ratio) if self.bias else less), ratio

    def raw_factors(self, users: Users) -> tuple[Tensor, Tensor] | None:
        return (self._p(users), self.q) if self.own.whole else None

    def raw_block(self, users: Users, items: Tensor | None = None) -> Tensor:
        return super().raw_block(users, items) if self.own.whole else self.own.products(self._p(users), self.q, items)

    def raw_pairs(self, users: Users) -> Tensor:
        return super().raw_pairs(users) if self.own.whole else self.own.pair_products(self._p(users), self.q, users)

    def _p(self, users: Users) -> Tensor:
        """p of a batch, which the ranks send each other once: an estimator asks for pairs and for blocks of a batch."""
        return users.once("p of FISM", lambda: self._summed(users, self._kept(users)), self.z)

    @property
    def slices(self) -> Mapping[str, Slice]:
        return {} if self.own.whole else {"model.z": self.own, "model.q": self.own}

    def take_rows(self, tensors: Mapping[str, Tensor]) -> int:
        self.own = found_slice(self.fitted.n_items, len(tensors["z"]), self.shard)
        return self.own.rows_of(self.fitted.n_items)

    def raw_terms(self, users: Users, items: Tensor) -> Tensor:
        """<z_j, q_i> / sqrt(size of the history). The bias is the rest."""
        products = history_products(self.z, self.q[:, : self.z.shape[1]], users, items)
        return products * self._count(users, self._kept(users)).rsqrt()[:, None]

    def out_of_sample_pairs(self, users: Users) -> Tensor | None:
        """The expectation from the rest of the history, as in training. None if training did not leave items out."""
        if not self.excludes_itself:
            return None
        less, ratio = (
            self.own.spread(each, self.own.pairs(users)[1]) for each in self._without(users, self._kept(users))
        )
        scores = (self.raw_pairs(users) - less) * ratio
        return scores if self.map is None else self.map(scores)
