"""The spectral start: projections that give related items a high log-variance before training.

The leading singular vectors of the normalised interactions, D_u^-1/2 R D_i^-1/2 = U S V', are the low-pass graph filter
of collaborative filtering (Shen et al., 2021; He et al., 2020). With z = q = V S^1/2, related items have a high s. The
scale and level of s are then fitted to the objective, on a sample. Training from there takes few epochs. From random
projections it takes a hundred. Subspace iteration finds the singular vectors (Halko, Martinsson and Tropp, 2011).

Where ranks share out the items, each has the rows of its own. In each iteration they sum tables of [n_users, dim] and
[dim, dim].
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from aleator.batches import Histories, Users, pieces
from aleator.device import free_memory
from aleator.kernels.ragged import add_by_item, history_sum, pair_products, row_dots
from aleator.progress import beat
from aleator.ranks import here
from aleator.training.draws import normal_rows
from aleator.training.slices import WHOLE, Slice
from aleator.uncertainty.base import Expectation
from aleator.uncertainty.objective import Objective
from aleator.uncertainty.step import shorter

_ITERATIONS = 3
_ROWS = 1 << 16  # rows of a table at a time, where it is written over
_USERS, _ITEMS = 512, 2048  # size of the sample that scale and level are fitted on
_SPARE = 9  # tables that must fit into free memory beside one that is kept: those of a training


class _Spectrum(NamedTuple):
    """Singular vectors and values that are kept, with the histories that they belong to."""

    histories: Histories
    table: Tensor
    values: Tensor
    drawn: Tensor  # the state of the generator after them


_kept: ContextVar[dict[tuple[int, int, int], _Spectrum] | None] = ContextVar("spectra", default=None)


@contextmanager
def keeping_spectra() -> Iterator[None]:
    """Inside, starts from the same histories share their singular vectors, where memory allows it."""
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def spectral_start(
    histories: Histories,
    dim: int,
    expectation: Expectation,
    objective: Objective,
    generator: torch.Generator,
    own: Slice = WHOLE,
) -> tuple[Tensor, Tensor]:
    """z and q, [n_items, dim] each, or their rows of a slice. Dimensions beyond the rank of the data are 0."""
    table, values = _spectrum(histories, dim, generator, own)
    table.mul_(values.sqrt())
    if len(values) < dim:
        table = F.pad(table, (0, dim - len(values)))
    scale, level, mean = _fit(histories, table, expectation, objective, generator, own)
    z = table.mul_(scale**0.5)
    return z, z + level / (scale**0.5 * mean.square().sum()) * mean


def _spectrum(histories: Histories, dim: int, generator: torch.Generator, own: Slice) -> tuple[Tensor, Tensor]:
    """The singular vectors and values, computed or kept. The caller may write over them."""
    kept, key = _kept.get(), (id(histories), dim, generator.initial_seed())
    if kept is None or here().size > 1:
        return singular_vectors(histories, dim, generator, own)
    if key not in kept:
        table, values = singular_vectors(histories, dim, generator, own)
        if free_memory(table.device) < _SPARE * table.nbytes:
            return table, values
        kept[key] = _Spectrum(histories, table, values, generator.get_state())
    found = kept[key]
    generator.set_state(found.drawn)
    return found.table.clone(), found.values


def singular_vectors(
    histories: Histories, k: int, generator: torch.Generator, own: Slice = WHOLE
) -> tuple[Tensor, Tensor]:
    """The k leading right singular vectors [n_items, k] and singular values [k] of the normalised interactions."""
    n_users = int((histories.host_size > 0).sum())
    k = min(k, n_users, int((histories.count > 0).sum()))
    found = normal_rows((histories.n_items, k), generator, own, histories.device)
    kept = list(_everyone(histories, own)) if len(histories.spans) == 1 else None  # several are made anew each time
    for _ in range(_ITERATIONS):
        basis = _orthonormal(found, own)
        found = torch.zeros_like(basis)
        for pairs, weight in kept or _everyone(histories, own):
            add_by_item(found, own.sum(history_sum(basis, pairs, weight)), pairs, weight)
            beat()
        del basis
    found = _orthonormal(found, own)
    products = torch.zeros(k, k, dtype=torch.float64, device=histories.device)
    for pairs, weight in kept or _everyone(histories, own):
        summed = own.sum(history_sum(found, pairs, weight))
        products += (summed.T @ summed).double()
    squares, rotation = torch.linalg.eigh(products)
    own.ranks.broadcast(squares, rotation)  # the signs of the vectors may differ between unlike machines
    for rows in pieces(found, _ROWS):
        rows.copy_(rows @ rotation.flip(1).float())
    return found, squares.flip(0).clamp_min(0).sqrt().float()


def _everyone(histories: Histories, own: Slice) -> Iterator[tuple[Users, Tensor]]:
    """All users in batches, with the entries of the normalised interactions. Of a slice, those of its items."""
    for first, last in histories.spans:
        users = histories.batch(torch.arange(first, last))
        weight = (users.size[users.row] * histories.count[users.item]).float().rsqrt()
        pairs, which = own.pairs(users)
        yield pairs, weight[which]


def _orthonormal(table: Tensor, own: Slice = WHOLE) -> Tensor:
    """An orthonormal basis of the columns, by the Cholesky factor of their products. It is far cheaper than QR.

    Columns beyond the rank of the data can make the products singular up to rounding. QR is then the way. Where the rows
    are shared out it is a decomposition of the products, and the columns beyond the rank become 0. The basis is written
    over the table, some rows at a time.
    """
    products = own.sum(table.T @ table).double()
    products.diagonal().add_(1e-6 * products.diagonal().mean())
    root, failed = torch.linalg.cholesky_ex(products)
    if not own.whole and own.ranks.any(bool(failed)):
        squares, rotation = torch.linalg.eigh(products)
        own.ranks.broadcast(squares, rotation)
        scale = torch.where(squares > 1e-5 * squares[-1], squares.clamp_min(0).rsqrt(), 0)
        spanned: Tensor = (table.double() @ (rotation * scale)).float().contiguous()
        return spanned
    if bool(failed):
        whole: Tensor = torch.linalg.qr(table.double()).Q.float().contiguous()
        return whole
    for rows in pieces(table, _ROWS):
        rows.copy_(torch.linalg.solve_triangular(root.float(), rows.T, upper=False).T)
    return table


def _fit(
    histories: Histories,
    table: Tensor,
    expectation: Expectation,
    objective: Objective,
    generator: torch.Generator,
    own: Slice,
) -> tuple[float, float, Tensor]:
    """The best scale and level of s = scale <p_u, table_i> + level <p_u, mean p> / |mean p|^2, and the mean p [dim].

    They minimise the objective on a random sample of users and items. The observed pairs of these users are all taken,
    each without its own item in the history.
    """
    # the sample: users and their p, and items
    who = (histories.size > 0).nonzero().squeeze(1)
    some = who[torch.randperm(len(who), generator=generator, device=who.device)[:_USERS]]
    users = replace(histories.batch(some), trained=True)
    items = torch.randperm(histories.n_items, generator=generator, device=some.device)[:_ITEMS].sort().values
    norm = users.size.clamp_min(1).float().rsqrt()
    pairs, which = own.pairs(users)
    p = own.sum(history_sum(table, pairs, norm[pairs.row]))
    mean = p.mean(0)
    direction = mean / mean.square().sum()

    # unobserved pairs: products, levels and expectations, and a mask that leaves out the observed pairs
    products = own.products(p, table, items)
    r = expectation.score_block(users, items)
    unobserved = torch.ones_like(products)
    unobserved[users.among(items)] = 0
    levels = (p @ direction)[:, None]
    up = histories.n_items / len(items)  # from the sample to all items

    # observed pairs: products, levels and residuals
    share, without = norm[pairs.row], shorter(norm, torch.ones_like(users.weight), users)[which]
    observed_products = (pair_products(p, table, pairs) - row_dots(table, table)[pairs.item] * share) * without
    observed_levels = (levels[pairs.row, 0] - (table @ direction)[pairs.item] * share) * without
    observed_products, observed_levels = (own.spread(each, which) for each in (observed_products, observed_levels))
    residual = expectation.score_pairs(users) - 1
    weight = objective.alpha * users.weight

    def loss(scale: float, level: float) -> float:
        others = (unobserved * objective.pairs(r, scale * products + level * levels)).sum()
        observed = (weight * objective.pairs(residual, scale * observed_products + level * observed_levels)).sum()
        return float((up * others + observed).double().nan_to_num(torch.inf))

    # a pattern search: the loss is smooth in both
    scale, level = 1 / float(observed_products.mean().clamp_min(1e-6)), -2.0
    lowest, step = loss(scale, level), 1.0
    while step > 0.02:
        around = [(scale * 2**step, level), (scale / 2**step, level), (scale, level + step), (scale, level - step)]
        found = min((loss(*there), there) for there in around)
        if found[0] < lowest:
            lowest, (scale, level) = found
        else:
            step /= 2
    best = torch.tensor([scale, level], dtype=torch.float64)
    own.ranks.broadcast(best)
    return *best.tolist(), mean
