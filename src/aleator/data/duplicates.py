"""Finding the rows of (user, item) pairs that occur more than once."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aleator.data import arrays
from aleator.data.arrays import Array


def repeated_rows(
    user: NDArray[np.int32], item: NDArray[np.int32], time: Array | None, shape: tuple[int, int]
) -> tuple[Array, NDArray[np.bool_]]:
    """The rows of all pairs that occur more than once, pair by pair.

    Args:
        user: Dense user id of each row, [n].
        item: Dense item id of each row, [n].
        time: Time of each row, [n], or None.
        shape: Number of users and number of items.

    Returns:
        Row numbers [r], and a mask [r] of the rows that are the first of their pair. The rows of a pair are in order of
        time. Without times, or with equal times, they are in file order.
    """
    numbers = _row_numbers(user, item, shape)
    same_as_before = np.r_[False, numbers.indices[1:] == numbers.indices[:-1]]
    starts_of_users = numbers.indptr[:-1][np.diff(numbers.indptr) > 0]
    same_as_before[starts_of_users] = False  # the same item as before, but of the next user
    repeated = same_as_before | np.r_[same_as_before[1:], False]
    rows, first = numbers.data[repeated], ~same_as_before[repeated]
    _sort_by_time(rows, first, time)
    return rows, first


def _row_numbers(user: NDArray[np.int32], item: NDArray[np.int32], shape: tuple[int, int]) -> sp.csr_matrix:
    """The row number of each pair, [n_users, n_items], columns sorted. A pair in two rows has two entries."""
    rows = np.arange(len(user), dtype=np.min_scalar_type(len(user)))
    matrix = sp.coo_matrix((rows, (user, item)), shape=shape)
    matrix.has_canonical_format = True  # otherwise scipy adds up the entries of a pair
    matrix = matrix.tocsr()
    matrix.sort_indices()
    return matrix


def _sort_by_time(rows: Array, first: NDArray[np.bool_], time: Array | None) -> None:
    """Order the rows of each pair, in place. Works on `PIECE` pairs at a time to save memory."""
    starts = np.flatnonzero(first)
    cuts = np.r_[starts[:: arrays.PIECE], len(rows)]
    for start, end in itertools.pairwise(cuts.tolist()):
        part = rows[start:end]
        pair = np.cumsum(first[start:end])
        keys = (part, pair) if time is None else (part, time[part], pair)
        rows[start:end] = part[np.lexsort(keys)]
