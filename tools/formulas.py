"""Formulas: what a fit takes in bytes, on the network and in operations, as the code computes it.

They are plain functions of the numbers of users, items, pairs, dimensions and processes. docs/scale.md has them with the
places in the code that they follow from, and tests/test_formulas.py compares them with what the code says or does. An
operation is one multiplication or addition of two numbers.
"""

from __future__ import annotations

import math

from aleator.device import BUDGETS
from aleator.kernels.ragged import _NARROW
from aleator.models.mf import _STEPS
from aleator.ranking.top import _COPIES
from aleator.uncertainty.factor import _FEWEST, _SHARE
from aleator.uncertainty.spectral import _ITEMS, _ITERATIONS, _USERS

NUMBER = 4  # bytes of a float32, of an int32, and of a row or an item in a file
PLACE = 8  # bytes of an int64 or a float64
COPIES_OF_PAIRS = 4  # in `AUR.fit`: of the model, of the AUR, and of few and of many held-out users
LISTED_PAIR = 2 * PLACE + 2 * NUMBER  # bytes of a pair in a batch of the spectral start: row, item and two weights

# Batches


def batch(users: int, steps: int) -> int:
    """Users of a batch, if an epoch is to have about so many steps."""
    most = min(max(math.ceil(users / steps), 16), 8192)
    return math.ceil(users / math.ceil(users / most))


def sampled(items: int, device: str) -> int:
    """The items that a batch of the estimator is trained on by default: all, or a sample."""
    enough = BUDGETS[device].sampled_items
    return enough if items > 2 * enough else items


def lean_batch(users: int, items: int, pairs: int, sampled_items: int, steps: int) -> int:
    """The same for the lean optimizer, where few rows are to be in use at a time."""
    size = batch(users, steps)
    if not few_rows(items, sampled_items):
        return size
    most = min(size, max(int((_SHARE * items - sampled_items) / max(pairs / users, 1)), _FEWEST))
    return math.ceil(users / math.ceil(users / most))


def few_rows(items: int, sampled_items: int) -> bool:
    """Whether the sample is so small that a lean batch uses few rows. A sample of all items is none."""
    return sampled_items < items and 2 * sampled_items <= _SHARE * items


def rows_in_use(users: int, items: int, pairs: int, sampled_items: int, size: float, *, lean: bool = False) -> float:
    """The rows that a step on `size` users moves: of the sample and of their pairs, or all if that is not far less."""
    some = sampled_items + size * pairs / users
    return min(some, items) if sampled_items < items and (lean or items > 3 * some) else items


# Memory of a process, in bytes


def rows(items: int, processes: int = 1) -> int:
    """The most rows of an item table that a process has."""
    return -(-items // processes)


def tables(items: int, dim: int, processes: int = 1) -> int:
    """z and q of an estimator or of FISM."""
    return 2 * NUMBER * rows(items, processes) * dim


def adam(items: int, dim: int, processes: int = 1) -> int:
    """An estimator in training by AdamW: tables, gradients, two moments, room for products, the best weights so far."""
    return 6 * tables(items, dim, processes)


def lean(items: int, dim: int, sampled_items: int, processes: int = 1) -> float:
    """The same by the lean optimizer: tables, first moments in bfloat16, and the gradients of the rows in use."""
    return tables(items, dim, processes) * (1.5 + (4 * _SHARE if few_rows(items, sampled_items) else 2))


def fism(items: int, dim: int, processes: int = 1) -> int:
    """FISM in training by AdamW: tables, gradients, two moments, the best weights so far."""
    return 5 * tables(items, dim, processes)


def als(users: int, items: int, dim: int) -> int:
    """What MF by ALS asks to be free. Nothing of it is shared out."""
    return 5 * NUMBER * (users + items) * dim


def pairs_on_gpu(pairs: int, copies: int = COPIES_OF_PAIRS) -> int:
    """The pairs on a GPU during a fit: an int64 and a float32 each, on every process."""
    return copies * (PLACE + NUMBER) * pairs


def upload(pairs: int) -> int:
    """The peak while pairs without weights are copied to a GPU: int32 and int64 of each item, and its weight."""
    return (NUMBER + PLACE + NUMBER) * pairs


def start_on_gpu(users: int, pairs: int, dim: int, processes: int = 1) -> float:
    """The spectral start on a GPU, beside its tables: a batch of listed pairs, and what is summed for its users.

    With few dimensions, the rows of all pairs are copied twice where they are added up.
    """
    share = min(BUDGETS["cuda"].listed_pairs / pairs, 1)
    copied = 2 * NUMBER * dim if dim <= _NARROW else 0
    return share * (pairs * (LISTED_PAIR + copied / processes) + NUMBER * users * dim)


def user_places(users: int) -> int:
    """Where the pairs of each user start."""
    return PLACE * (users + 1)


def on_disk(users: int, pairs: int, *, weights: bool = False, times: bool = False) -> int:
    """Files of the pairs, by user."""
    return user_places(users) + pairs * (2 * NUMBER + NUMBER * weights + PLACE * times)


def by_item_on_disk(items: int, pairs: int, *, weights: bool = False) -> int:
    """Files of the pairs by item, for ALS."""
    return PLACE * (items + 1) + pairs * (NUMBER + NUMBER * weights)


def saved(users: int, pairs: int) -> int:
    """The pairs in the folder of a model."""
    return user_places(users) + NUMBER * pairs


def checked_by_evaluate(pairs: int) -> int:
    """What `evaluate` copies to see that a model on disk was not trained on the test part: int64 beyond 2^31 pairs."""
    return pairs * (2 * PLACE + 1 if pairs >= 1 << 31 else NUMBER + 1)


def loaded(pairs: int) -> int:
    """A saved model's pairs in memory, for lists: users as int32, items and weights of the histories.

    The weights of the matrix are another float32. Items are mapped, and shared by the processes of a machine.
    """
    return pairs * (NUMBER + PLACE + NUMBER + NUMBER)


# The network: bytes that a process sends, where sums go round in a ring


def ring(size: float, processes: int) -> float:
    """A sum of so many bytes over the processes."""
    return 2 * (processes - 1) / processes * size


def step_by_items(users: float, dim: int, processes: int) -> float:
    """A step on a batch of so many users, whose items are shared out: p and its gradient."""
    return ring(2 * NUMBER * users * dim, processes)


def step_by_users(parameters: int, processes: int) -> float:
    """A step whose users are shared out: all gradients and the loss."""
    return ring(NUMBER * (parameters + 1), processes)


def expectation_of_fism(users: float, pairs: float, dim: int, processes: int) -> float:
    """What a shared FISM adds to a step of the estimator, for a batch with so many pairs: p, and a number for each."""
    return ring(NUMBER * (users * dim + pairs), processes)


def spectral(users: int, items: int, pairs: int, dim: int, processes: int) -> float:
    """The spectral start: four sums of [n_users, dim] and of [dim, dim], and a sample of users, items and their pairs.

    The first process tells the others the rotation, the singular values and two numbers, in float64.
    """
    told = (processes - 1) / processes * PLACE * (dim * dim + dim + 2)
    some = min(users, _USERS)
    sample = NUMBER * some * (dim + min(items, _ITEMS)) + 2 * NUMBER * pairs * some / users
    return ring((_ITERATIONS + 1) * NUMBER * (users * dim + dim * dim) + sample, processes) + told


def gathered(users: int, items: int, dim: int, processes: int) -> float:
    """A block of scores of one part of the blend: p is summed, and each process sends its columns to all."""
    return ring(NUMBER * users * dim, processes) + (processes - 1) / processes * NUMBER * users * items


# Operations


def epoch(users: int, items: int, pairs: int, dim: int, of_model: int = 0) -> float:
    """An epoch of the estimator on `items` items, all or sampled: three products with them, and five over the pairs.

    `of_model` are the dimensions of a model whose expectations of the unobserved pairs are inner products.
    """
    return 6.0 * users * items * dim + 2.0 * users * items * of_model + 10.0 * pairs * dim


def start(users: int, items: int, pairs: int, dim: int) -> float:
    """The spectral start: four orthonormal bases, seven passes over the pairs, and products of [n_users, dim]."""
    bases, passes = _ITERATIONS + 1, 2 * _ITERATIONS + 1
    dense = bases * (2 + 1) + 2  # a Gram matrix and a triangular solution each, and the last rotation
    return dense * items * dim**2 + 2.0 * users * dim**2 + 2.0 * passes * pairs * dim


def scores_at_a_time(items: int, device: str) -> int:
    """The users of a block of scores of all items, where held-out pairs or test pairs are ranked."""
    return max(BUDGETS[device].score_bytes // (NUMBER * _COPIES) // items, 1)


def moved(rows_of_step: float, dim: int, steps: int) -> float:
    """The numbers of z and q that the optimiser of an estimator moves in an epoch."""
    return 2.0 * rows_of_step * dim * steps


def epoch_of_fism(users: int, items: int, pairs: int, dim: int, steps: int) -> float:
    """An epoch of FISM on all items. A step has two Gram matrices, or three products with all items if users are few."""
    size = users / steps
    each = 6 * size * items * dim if 3 * size < 2 * dim else 4 * (items + size) * dim**2
    return steps * each + 10.0 * pairs * dim


def als_iteration(users: int, items: int, pairs: int, dim: int) -> float:
    """An iteration of ALS: for both sides a Gram matrix, and products with it and over the pairs in each step."""
    products = _STEPS + 1  # each step of conjugate gradients, and the first residual
    return 2.0 * (products + 1) * (users + items) * dim**2 + 2 * (4 * products + 2) * pairs * dim


def lists(users: int, items: int, dim: int) -> float:
    """The scores of all items for so many users, of models with `dim` dimensions together."""
    return 2.0 * users * items * dim
