"""Columns as numpy arrays, with work on long columns done piece by piece."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from aleator.errors import AleatorError, require

Array = NDArray[Any]
# Some operations on a whole column take several times the memory of the column. They take this many rows at a time.
PIECE = 1 << 22
YEARS = 290_000  # as many fit into 64 bits of microseconds


@runtime_checkable
class ArrayLike(Protocol):
    """Anything that numpy can turn into an array by itself: arrays, tensors, columns of frames."""

    def __array__(self) -> Array: ...


def pieces(n: int) -> list[slice]:
    """Slices that cover n rows, `PIECE` rows each. For n = 0 there is one empty slice."""
    return [slice(start, start + PIECE) for start in range(0, max(n, 1), PIECE)]


def flat(values: Any) -> Array:
    """One column as an array [n].

    A list becomes an array of Python objects, so that no value takes the type of another one. A single value becomes
    an array of length 1.
    """
    if isinstance(values, np.ma.MaskedArray):
        masked: np.ma.MaskedArray[Any, Any] = np.ma.asarray(values.astype(object))
        column = np.atleast_1d(masked.filled(None))
    elif not isinstance(values, (list, tuple)) and isinstance(values, ArrayLike):
        try:
            column = np.atleast_1d(np.asarray(values))
        except Exception:  # of torch, say, for a tensor that is sparse or has a gradient
            remedy = "give an array or a list of strings, numbers or dates"
            raise AleatorError(f"a column is a {type(values).__name__} that numpy cannot take", remedy) from None
    elif isinstance(values, Iterable) and not isinstance(values, (str, bytes)):
        listed = list(values)
        column = np.fromiter(listed, object, len(listed))
    else:
        column = np.fromiter([values], object, 1)
    require(column.ndim == 1, f"a column has {column.ndim} dimensions", "give one value for each row")
    return column


def as_texts(values: Array, what: str) -> Array:
    """An array of texts as numpy's StringDType, which keeps NULs at their ends. `what` names them in messages."""
    try:
        native = values if values.dtype.byteorder != ">" else values.astype(values.dtype.newbyteorder("="))
        return native.astype(np.dtypes.StringDType())
    except (UnicodeError, TypeError, SystemError):  # lone surrogates, or numbers that are no characters
        raise AleatorError(f"{what} hold texts that are no valid Unicode", "decode them as UTF-8") from None


def require_texts(arrays: Iterable[Array], where: str) -> None:
    """Refuse texts with numbers that are no characters. Python cannot make texts of them, nor tell what they are."""
    for array in arrays:
        if array.dtype.kind == "U":
            as_texts(array, f"arrays of {where}")


def require_years(dates: Array) -> None:
    """Refuse dates that microseconds since 1970 cannot hold in 64 bits. numpy would turn them into other dates."""
    years = dates.astype("datetime64[Y]").astype(np.int64)[~np.isnat(dates)]
    fit = not len(years) or int(np.abs(years).max()) < YEARS
    require(fit, f"a date is more than {YEARS:,} years away from 1970", "check the column of times")


def look_up(table: Array, dense: NDArray[np.int32]) -> Array:
    """`table[dense]`, an array [n]. In pieces, because numpy copies the whole index to 64 bits."""
    return np.concatenate([table[dense[rows]] for rows in pieces(len(dense))])


def picked(table: Array, dense: Any) -> Array:
    """`table[dense]`, where texts become Python strings. A text that is picked often is one Python string."""
    dense = np.asarray(dense, np.int64)
    if table.dtype.kind == "T" and dense.size > len(table):
        table = table.astype(object)
    found: Array = table[dense]
    return found.astype(object) if found.dtype.kind == "T" else found


def count(dense: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    """How often each of the dense ids 0 .. n - 1 occurs, an array [n]."""
    total = np.zeros(n, np.int64)
    for rows in pieces(len(dense)):
        total += np.bincount(dense[rows], minlength=n)
    return total
