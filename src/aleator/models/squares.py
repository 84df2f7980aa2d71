"""The squared error on observed and unobserved pairs, with all negatives or a random share of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from aleator.batches import Users
from aleator.kernels.ragged import add_by_item, history_sum, pair_products
from aleator.training.draws import per_user

Negatives = Literal["all", "each", "shared"]
"""How the unobserved pairs enter the loss. All three are the same in expectation.

"all" takes every unobserved pair with weight mu. One Gram matrix sums them up, so the cost of an epoch grows with the
observed pairs and not with users x items. "each" draws a share mu of them for each user, as the AUR paper does. "shared"
draws one set of items for all users of a batch, as the paper's released program does.
"""


def squared_error(
    x: Tensor,
    y: Tensor,
    users: Users,
    mu: float,
    *,
    negatives: Negatives = "all",
    draw: torch.Generator | None = None,
    positive: float = 1.0,
    less: Tensor | None = None,
    ratio: Tensor | None = None,
) -> Tensor:
    """The weighted squared error summed over a batch and all items.

    It is w `positive` (r - 1)^2 on an observed pair of weight w, and `mu` r^2 on any other. r = <x_u, y_i> for x [B, dim]
    and y [n_items, dim]. On the observed pairs r is (<x_u, y_i> - `less`) `ratio`. Both are [n], and may be left out.
    """
    if negatives == "all":
        loss: Tensor = _Squares.apply(x, y, users, mu, positive, less, ratio)  # type: ignore[no-untyped-call]
        return loss
    assert draw is not None, "drawing negatives takes a generator"
    scores = x @ y.T
    others = (_drawn(scores, users, mu, negatives, draw) * scores.square()).sum()
    error = _error(scores[users.row, users.item], less, ratio)
    return others + positive * (users.weight * error.square()).sum()


def _error(product: Tensor, less: Tensor | None, ratio: Tensor | None) -> Tensor:
    """[n] r - 1 of the observed pairs, from their inner products."""
    rest = product if less is None else product - less
    return (rest if ratio is None else rest * ratio) - 1


def _drawn(scores: Tensor, users: Users, mu: float, negatives: Negatives, draw: torch.Generator) -> Tensor:
    """[B, n_items] 1 for each unobserved pair that was drawn, 0 for all others."""
    if negatives == "each":
        drawn = (per_user(torch.rand, users, scores.shape[1], generator=draw) < mu).to(scores.dtype)
    else:  # floor(mu * n_items) items, as the released program draws them
        n_items = scores.shape[1]
        pick = torch.randperm(n_items, generator=draw, device=scores.device)[: int(mu * n_items)]
        drawn = torch.zeros_like(scores, requires_grad=False).index_fill_(1, pick, 1)
    drawn[users.row, users.item] = 0
    return drawn


@dataclass(frozen=True)
class Slopes:
    """A loss, and its gradients by x, y and `less`."""

    loss: Tensor
    x: Tensor
    y: Tensor
    less: Tensor


@torch.no_grad()
def squares_by_hand(
    x: Tensor,
    y: Tensor,
    users: Users,
    mu: float,
    positive: float = 1.0,
    less: Tensor | None = None,
    ratio: Tensor | None = None,
    *,
    l2: tuple[float, float] = (0.0, 0.0),
    scale: float = 1.0,
) -> Slopes:
    """The squared error with all negatives + l2[0] |x|^2 + l2[1] |y|^2, and `scale` times its gradients.

    sum_i <x, y_i>^2 = x' (Y'Y) x takes one Gram matrix. The observed pairs are then subtracted from the sum.
    """
    product, twice = pair_products(x, y, users), 2 * scale
    weight = users.weight if positive == 1 else positive * users.weight
    error = _error(product, less, ratio)
    weighted = weight * error
    pull = weighted if ratio is None else weighted * ratio  # half the slope in the product
    slope = (pull - mu * product) * twice
    if 3 * len(x) < 2 * x.shape[1]:  # for few users, three products with a block cost less than two with dim x dim
        scores = x @ y.T
        x_gram, dy = scores @ y, (mu * twice * scores.T) @ x
    else:
        x_gram, dy = x @ (y.T @ y), y @ (mu * twice * (x.T @ x))
    dx = (mu * x_gram + l2[0] * x) * twice
    dx += history_sum(y, users, slope)
    if l2[1]:
        dy += (l2[1] * twice) * y
    add_by_item(dy, x, users, slope)
    others = (x_gram * x).sum() - product.square().sum()
    penalty = l2[0] * x.square().sum() + l2[1] * y.square().sum()
    return Slopes(mu * others + (weighted * error).sum() + penalty, dx, dy, pull * -twice)


class _Squares(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        users: Users,
        mu: float,
        positive: float,
        less: Tensor | None,
        ratio: Tensor | None,
    ) -> Tensor:
        found = squares_by_hand(x, y, users, mu, positive, less, ratio)
        ctx.save_for_backward(found.x, found.y, found.less)
        return found.loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        dx, dy, dless = (slope * grads[0] for slope in ctx.saved_tensors)
        return dx, dy, None, None, None, dless if ctx.needs_input_grad[5] else None, None
