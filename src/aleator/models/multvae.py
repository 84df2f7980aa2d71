"""MultVAE: a variational autoencoder of histories."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from aleator.batches import Histories, Users
from aleator.errors import require
from aleator.kernels.fold_in import padded, with_new_items
from aleator.kernels.ragged import history_sum
from aleator.models.base import Model
from aleator.models.epochs import Epochs, normal
from aleator.models.path import Path
from aleator.models.squares import Negatives, squared_error
from aleator.options import Among, Between, Ranges
from aleator.training.draws import per_pair, per_user
from aleator.training.stop import Stop
from aleator.training.update import Update
from aleator.training.watch import phase

_LARGEST = 10.0  # largest log-variance, so that exp does not overflow
_DROPOUTS = (0.0, 0.5)  # none, and that of Liang et al.


@dataclass(kw_only=True, eq=False, repr=False)
class MultVAE(Epochs, Model):
    """The variational autoencoder of histories (Liang et al., 2018): `hidden` units, a Gaussian in `dim`, `hidden` units.

    The last layer is an inner product, r_ui = <[h_u, 1], [w_i, b_i]>. As in the AUR paper, the loss is the squared
    error instead of a multinomial likelihood. r_ui is near 0 for a pair that is not expected and near 1 for one that is.
    The model sees a user only by the history. So a newcomer gets the same scores as a user with the same history.

    With `kl` = 0, the default, nothing pulls the Gaussian to the standard one. Strictly, the model is then no variational
    autoencoder. It is an autoencoder with noise in `dim`, whose size it learns.

    `dropout="auto"` trains without dropout and with half of each history dropped, as the authors do, and keeps the one
    with the higher Recall@20 on held-out pairs. Dropout gains where popular items are taken next, and loses much where
    the held-out pairs are even over items.
    """

    hidden: int = 1024  # units of the hidden layers
    dim: int = 512  # dimensions of the latent Gaussian
    dropout: float | Literal["auto"] = "auto"  # share of the history items that are dropped in training
    sample: bool = True  # whether to draw from the Gaussian in training; scores take its mean
    kl: float = 0.0  # weight of the divergence from the standard Gaussian in the loss
    weight_decay: float = 1.0  # weight decay of AdamW
    lr: float = 5e-4  # learning rate of AdamW; at 2e-3 all units may saturate for good
    negatives: Negatives = "all"  # unobserved pairs in the loss: all, or drawn for each user or each batch

    encoder: Tensor = field(init=False)  # [n_items + 1, hidden]: the last row is the bias, as in the next two
    gaussian: Tensor = field(init=False)  # [hidden + 1, 2 dim]: to the mean and the log-variance
    decoder: Tensor = field(init=False)  # [dim + 1, hidden]
    item_factors: Tensor = field(init=False)  # [n_items, hidden + 1]: the last column is the bias

    learned: ClassVar[Mapping[str, str]] = {
        "encoder": "[n_items + 1, hidden]",
        "decoder": "[dim + 1, hidden]",
        "gaussian": "[hidden + 1, dim + dim]",
        "item_factors": "[n_items, hidden + 1]",
    }
    trains_jointly: ClassVar[bool] = True
    weighs_negatives: ClassVar[bool] = True
    steps: ClassVar[int] = 16
    ranges: ClassVar[Ranges] = {
        "mu": Between(0.01, 0.5, log=True),
        "dropout": Between(0.0, 0.7),
        "weight_decay": Between(0.01, 3.0, log=True),
        "lr": Between(1e-4, 1e-3, log=True),
    }
    paper_ranges: ClassVar[Ranges] = {"mu": Among(0.01, 0.1, 0.2, 0.4)}
    paper: ClassVar[dict[str, Any]] = {
        "dropout": 0.0,
        "negatives": "shared",
        "weight_decay": 0.0,
        "lr": 1e-4,
        "batch_size": 32,
        "max_epochs": 1000,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(min(self.hidden, self.dim) >= 1, "hidden or dim is below 1", "give a hidden and a dim of at least 1")
        require(
            self.dropout == "auto" or 0 <= self.dropout < 1,
            f"dropout is {self.dropout}",
            "give a share from 0 to below 1, or auto",
        )
        require(min(self.kl, self.weight_decay) >= 0, "kl or weight_decay is below 0", "give at least 0")

    @property
    def dropout_used(self) -> float:
        """The dropout of the fit: the option, or what was chosen on held-out pairs."""
        return self.chosen.get("dropout", 0.0) if self.dropout == "auto" else self.dropout

    def learn(self, stop: Stop) -> None:
        if self.dropout == "auto" and stop.metric is not None:
            self._compare(stop.metric)
        else:
            self._train(stop)

    def _compare(self, metric: Callable[[], float]) -> None:
        """Train with each dropout until the metric no longer rises, and keep the best. Without dropout wins a tie."""
        tried: dict[float, float] = {}
        best = 0.0
        for dropout in _DROPOUTS:
            self.chosen = {"dropout": dropout}
            with phase(f"dropout {dropout:g}"):
                self._train(Stop(metric))
            tried[dropout] = metric()
            if dropout == best or tried[dropout] > tried[best]:
                best, kept = dropout, (self.parameters(), self.log)
        (self.encoder, self.gaussian, self.decoder, self.item_factors), self.log = kept
        self.keep("dropout", Path(best, tried))

    def _train(self, stop: Stop) -> None:
        n_items, hidden, dim = self.fitted.n_items, self.hidden, self.dim
        shapes = (n_items, hidden), (hidden, 2 * dim), (dim, hidden), (n_items, hidden)
        drawn = normal(*shapes, seed=self.seed, device=self.torch_device, spread=1.0)
        encoder, gaussian, decoder, items = (
            table * math.sqrt(2 / sum(table.shape)) for table in drawn
        )  # Xavier initialisation
        self.encoder, self.gaussian, self.decoder = (
            torch.cat([table, torch.zeros_like(table[:1])]) for table in (encoder, gaussian, decoder)
        )
        self.item_factors = torch.cat([items, torch.zeros_like(items[:, :1])], 1)
        self.go_on(stop)

    @property
    def goes_on(self) -> bool:
        return True

    def go_on(self, stop: Stop) -> None:
        self.log = self.minimise(
            self.loss, self.parameters(), self.histories, stop, seed=self.seed, weight_decay=self.weight_decay
        )

    def expand(self, update: Update, before: Histories) -> None:
        items, bias = self.encoder[: update.n_items], self.encoder[-1:]
        both = torch.cat([items, self.item_factors[: update.n_items]], 1)
        self.encoder = torch.cat([padded(items, self.fitted.n_items), bias])
        both = with_new_items(both, lambda users: self.raw_factors(users)[0], before, self.histories)
        items, self.item_factors = both[:, : self.hidden].contiguous(), both[:, self.hidden :].contiguous()
        self.encoder = torch.cat([items, bias])
        self.gaussian, self.decoder = self.gaussian.clone(), self.decoder.clone()  # training writes into them

    def parameters(self) -> list[Tensor]:
        return [self.encoder, self.gaussian, self.decoder, self.item_factors]

    def loss(self, users: Users, generator: torch.Generator) -> Tensor:
        """The objective summed over a batch."""
        keep = None
        if self.dropout_used:
            drawn = per_pair(torch.rand, users, generator=generator)
            keep = (drawn >= self.dropout_used) / (1 - self.dropout_used)
        mean, log_variance = self._encode(users, keep)
        noise = per_user(torch.randn, users, self.dim, generator=generator) if self.sample else 0
        x = self._decode(mean + noise * (log_variance / 2).exp())
        divergence = (mean.square() + log_variance.exp() - log_variance - 1).sum() / 2 if self.kl else 0
        error = squared_error(x, self.item_factors, users, self.mu, negatives=self.negatives, draw=generator)
        return error + self.kl * divergence

    def _encode(self, users: Users, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of each history, [B, dim] each. `keep` [n] multiplies the weights of its items.

        The input is the multi-hot history, scaled to length 1.
        """
        share = users.size.clamp_min(1).to(self.encoder.dtype).rsqrt()[users.row]
        summed = history_sum(self.encoder, users, share if keep is None else share * keep)
        mean, log_variance = _layer(torch.tanh(summed + self.encoder[-1]), self.gaussian).chunk(2, 1)
        return mean, log_variance.clamp_max(_LARGEST)

    def _decode(self, z: Tensor) -> Tensor:
        """[B, hidden + 1] the factors of users, from latent vectors z [B, dim]."""
        h = torch.tanh(_layer(z, self.decoder))
        return torch.cat([h, torch.ones_like(h[:, :1])], 1)

    def raw_factors(self, users: Users) -> tuple[Tensor, Tensor]:
        return self._decode(self._encode(users)[0]), self.item_factors


def _layer(x: Tensor, table: Tensor) -> Tensor:
    """A linear layer. The last row of `table` is the bias."""
    return torch.addmm(table[-1], x, table[:-1])
