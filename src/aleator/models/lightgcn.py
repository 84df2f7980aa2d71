"""LightGCN: embeddings that are smoothed over the graph of users and items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Users
from aleator.errors import require
from aleator.kernels.ragged import pair_products
from aleator.models.base import Model
from aleator.models.epochs import Epochs, normal
from aleator.models.factors import FactorTable
from aleator.models.squares import Negatives, squared_error
from aleator.options import Among, Between, Ranges
from aleator.training.graph import Graph, check_layers
from aleator.training.negatives import unobserved
from aleator.training.stop import Stop

Loss = Literal["squares", "bpr", "softmax"]
_TRIPLES, _SHARED = 1, 2048  # negatives of "bpr" for each observed pair, and of "softmax" for each batch


@dataclass(kw_only=True, eq=False, repr=False)
class LightGCN(Epochs, Model):
    """r_ui = <x_u, y_i>, where factors are embeddings that are smoothed over the graph of pairs (He et al., 2020).

    A step over the graph gives each vertex the normalised sum of its neighbours. A factor is the mean of the embedding
    and of the results of 1 to `layers` steps. To the loss, l2 |e|^2 of the embeddings is added. There are three losses.

    - "squares", as in the AUR paper: the squared error over all pairs. r_ui is near 0 for a pair that is not expected and
      near 1 for one that is.
    - "bpr", as its authors train it: -ln sigmoid(<x_u, y_i> - <x_u, y_j>), the mean over `draws` negatives j that are
      drawn for each observed pair.
    - "softmax", sampled softmax (Wu et al., 2024): -ln of the observed item's share of the sum of exp(cos / temperature)
      over itself and `draws` items, which all users of a batch share. Items that the user observed are not negatives.
      Factors have length 1, so that scores are cosines.

    The last two see only differences of scores, so r_ui is the score calibrated to the label's scale.

    Of several processes that fit together, each smooths over the whole graph, and takes some of the users of a batch.
    """

    dim: int = 128  # dimensions of the embeddings
    layers: int = 3  # steps over the graph, at most 64
    loss: Loss = "squares"  # "squares", "bpr" or "softmax"
    draws: int | Literal["auto"] = "auto"  # negatives for each pair ("bpr": 1) or each batch ("softmax": 2048)
    temperature: float = 0.2  # divides the cosines of "softmax"
    l2: float = 0.1  # weight of the squared norms of the embeddings in the loss
    lr: float = 2e-3  # learning rate of Adam
    max_epochs: int = 400  # largest number of epochs
    check_every: int = 5  # epochs between two checks of the validation Recall@20
    negatives: Negatives = "all"  # unobserved pairs in the loss: all, or drawn for each user or each batch

    embeddings: tuple[Tensor, Tensor] = field(init=False)  # of users and items, [n, dim]; not saved
    graph: Graph = field(init=False)  # not saved: scores need only the factors

    weighs_negatives: ClassVar[bool] = True
    steps: ClassVar[int] = 8
    ranges: ClassVar[Ranges] = {
        "dim": Among(64, 128, 256),
        "layers": Between(1, 4, whole=True),
        "mu": Between(0.01, 0.5, log=True),
        "l2": Between(1e-3, 1.0, log=True),
        "lr": Between(5e-4, 5e-3, log=True),
    }
    paper_ranges: ClassVar[Ranges] = {"mu": Among(0.01, 0.1, 0.2, 0.4), "l2": Among(0.0, 1e-4, 1e-3, 1e-2, 1e-1)}
    paper: ClassVar[dict[str, Any]] = {
        "negatives": "shared",
        "l2": 0.0,
        "lr": 1e-4,
        "batch_size": 32,
        "max_epochs": 1000,
        "check_every": 2,
    }

    def __post_init__(self) -> None:
        if self.loss != "squares" and "calibrate" not in self.given:
            self.calibrate = "linear"
        super().__post_init__()
        require(self.dim >= 1, f"dim is {self.dim}", "give a dim of at least 1")
        check_layers(self.layers)
        require(self.l2 >= 0, f"l2 is {self.l2}", "give an l2 of at least 0")
        require(self.draws == "auto" or self.draws >= 1, f"draws is {self.draws}", "give at least 1")
        require(self.temperature > 0, f"temperature is {self.temperature}", "give a temperature above 0")

    def unused(self) -> Mapping[str, str]:
        found, beside = dict(super().unused()), f'with loss="{self.loss}"'
        if self.loss == "squares":
            found["draws"] = beside
        else:
            found["negatives"] = beside
            if self.calibrate == "none":
                found["mu"] = f"{beside} and without calibration"
        if self.loss != "softmax":
            found["temperature"] = beside
        return found

    @property
    def trains_jointly(self) -> bool:  # type: ignore[override]  # of the class it is true
        """Whether AUR-J can train it: it needs the squared error, whose scores are on the label's scale."""
        return self.loss == "squares"

    def learn(self, stop: Stop) -> None:
        shapes = (self.fitted.n_users, self.dim), (self.fitted.n_items, self.dim)
        users, items = normal(*shapes, seed=self.seed, device=self.torch_device)
        self.embeddings, self.graph = (users, items), Graph(self.histories)
        self.log = self.minimise(self.objective, self.parameters(), self.histories, stop, seed=self.seed)

    def parameters(self) -> list[Tensor]:
        return list(self.embeddings)

    def publish(self) -> None:
        self.table = FactorTable(*self._factors())

    def _factors(self) -> tuple[Tensor, Tensor]:
        """[n_users, dim] and [n_items, dim] the factors."""
        x, y = self.graph.propagate(*self.embeddings, self.layers)
        return (F.normalize(x), F.normalize(y)) if self.loss == "softmax" else (x, y)

    def objective(self, users: Users, generator: torch.Generator) -> Tensor:
        """The objective summed over a batch. The penalty of the items counts by the batch's share of the users."""
        theirs, items = self.embeddings[0].index_select(0, users.index), self.embeddings[1]
        penalty = theirs.square().sum() + items.square().sum() * (len(users) / self.fitted.n_users)
        x, y = self._factors()
        return self._error(x.index_select(0, users.index), y, users, generator) + self.l2 * penalty

    def _error(self, x: Tensor, y: Tensor, users: Users, generator: torch.Generator) -> Tensor:
        """The loss without the penalty, from the factors of the batch and of all items."""
        if self.loss == "squares":
            return squared_error(x, y, users, self.mu, negatives=self.negatives, draw=generator)
        observed = pair_products(x, y, users)
        if self.loss == "bpr":
            draws = _TRIPLES if self.draws == "auto" else self.draws
            others = unobserved(users, len(y), draws, generator)
            losses = F.softplus(pair_products(x, y, others).view(-1, draws) - observed[:, None])
            return (others.weight * losses.flatten()).sum()
        draws = _SHARED if self.draws == "auto" else self.draws
        items = torch.randperm(len(y), generator=generator, device=y.device)[:draws].sort().values
        scores = (x @ y[items].T / self.temperature).index_put(users.among(items), x.new_tensor(-torch.inf))
        rest = scores.logsumexp(1)[users.row]  # of the items that the user did not observe
        return (users.weight * F.softplus(rest - observed / self.temperature)).sum()
