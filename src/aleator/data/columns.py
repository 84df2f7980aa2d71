"""Columns by role: which column holds the users, the items, the ratings, the weights and the times."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from aleator.data.arrays import Array, flat, require_years
from aleator.data.reading import Reading
from aleator.errors import AleatorError, require

# The usual names of the column of each role, in lower case. An earlier name wins over a later one.
ALIASES = {
    "user": "user user_id userid uid visitorid visitor_id customer_id customerid reviewerid account_id session_id",
    "item": "item item_id itemid iid movieid movie_id sid asin parent_asin product_id productid article_id business_id"
    " book_id song_id track_id artist_id news_id",
    "rating": "rating ratings stars score overall",
    "weight": "weight count plays listen_count confidence",
    "time": "time timestamp datetime date unixreviewtime event_time created_at ts",
}
IDS = ("user", "item")  # the roles whose column holds ids

_SHOWN = 40  # letters of a value in a message

Read = Callable[[Array], Array | None]  # of texts; None if a value cannot be read
Columns = dict[str, Any]  # role -> values [n]
Names = dict[str, str | None]  # role -> the name that the caller gave to its column, or None


def find_roles(present: Sequence[Any], named: Names, where: str, hint: str = "") -> tuple[dict[str, Any], list[str]]:
    """Find the column of each role.

    Args:
        present: Names of all columns.
        named: Names that the caller gave. The other roles are found by their usual names.
        where: What has the columns, for error messages.
        hint: What else may help if a column is not found.

    Returns:
        The name of the column of each role that has one, and a note about the columns without a role.
    """
    listed = ", ".join(map(str, present))
    chosen: dict[str, Any] = {}
    for role, name in named.items():
        if name is not None:
            require(name in present, f"{where} has no column '{name}'", f"name one of {listed}")
            chosen[role] = name
    for role, aliases in ALIASES.items():
        if role not in chosen:
            # reversed: of two columns that differ only in case, the first one counts
            free = {str(name).lower(): name for name in reversed(present) if name not in chosen.values()}
            found = next((free[alias] for alias in aliases.split() if alias in free), None)
            if found is not None:
                chosen[role] = found
    for role in IDS:
        require(
            role in chosen,
            f"{where} has no {role} column among {listed}",
            f"name it with {role}= (--{role} in a shell){hint and f', {hint}'}",
        )
    distinct = chosen["user"] != chosen["item"]
    require(distinct, f"column '{chosen['user']}' is named as user and item", "name two columns")
    return chosen, unused_note(present, list(chosen.values()))


def unused_note(present: Iterable[Any], used: list[Any]) -> list[str]:
    """A list with one note about the columns that were not used, or an empty list."""
    unused = [str(name) for name in present if name not in used]
    return [f"columns not used: {', '.join(unused)}"] if unused else []


def require_nothing_named(named: Names, where: str) -> None:
    """Raise an error if the caller named a column of something that has no columns."""
    role = next((role for role, name in named.items() if name is not None), None)
    require(role is None, f"{where} has no columns to name", f"leave out {role}=")


def require_none_missing(n_missing: int, name: Any, where: str) -> None:
    """Raise an error if a column has missing values."""
    require(
        n_missing == 0,
        f"column '{name}' of {where} has {n_missing} missing values",
        "fill them, or drop those rows with missing='drop' (--missing drop in a shell)",
    )


def dropped_note(complete: Array, where: str) -> list[str]:
    """A list with one note about rows with missing values, or an empty list. `complete` is a mask of the other rows."""
    dropped = int((~complete).sum())
    require(dropped < len(complete), f"every row of {where} has a missing value", "name other columns")
    return [f"missing: {dropped} of {len(complete)} rows dropped"] if dropped else []


def by_role(columns: Mapping[Any, Any], named: Names, where: str, reading: Reading) -> tuple[Columns, list[str]]:
    """The columns of a dict of arrays or lists by role, and a note about those that were not used."""
    chosen, notes = find_roles(list(columns), named, where)
    found = {role: flat(columns[name]) for role, name in chosen.items()}
    same_length = len({len(column) for column in found.values()}) == 1  # otherwise there is an error later
    if reading.missing == "drop" and same_length:
        complete = ~np.logical_or.reduce([_is_missing(column) for column in found.values()])
        notes = notes + dropped_note(complete, where)
        found = {role: column[complete] for role, column in found.items()}
    return {role: typed(column, role, chosen[role], where, reading) for role, column in found.items()}, notes


def _is_missing(column: Array) -> Array:
    """Which values are None, NaN or NaT, a mask [n]."""
    if column.dtype.kind in "fM":
        return np.isnan(column) if column.dtype.kind == "f" else np.isnat(column)
    if column.dtype.kind != "O":
        return np.zeros(len(column), bool)
    nothing = ("NoneType", "NAType", "NaTType")
    values = column.tolist()
    missing = (type(v).__name__ in nothing or (isinstance(v, float) and v != v) for v in values)  # NaN is not NaN
    return np.fromiter(missing, bool, len(values))


def typed(values: Any, role: str, name: Any, where: str, reading: Reading) -> Array:
    """The values of a column as an array of the type that its role needs.

    Ids stay as they are. Texts become numbers. In a column of times they may also be dates, in ISO form or
    as `reading` says.
    """
    column = flat(values)
    if role in IDS or column.dtype.kind not in "OUT":
        return column
    read: Read = partial(_as_written, reading=reading)
    wanted, option = "numbers", "decimal"
    if role == "time":
        read, wanted, option = partial(_as_times, reading=reading), "numbers or ISO dates", "dates"
        if reading.dates:
            read, wanted = reading.moments, f"dates like {' or '.join(reading.dates)}"
    found = read(column)
    if found is None:
        example = {"dates": "'%d.%m.%Y %H:%M'", "decimal": "','"}[option]
        told = f"name another column with {role}=, or say how it is written with {option}=, such as {example}"
        raise AleatorError(
            f"column '{name}' of {where} is read as the {role} but does not hold {wanted}: "
            f"one value is {str(_first_bad(column, read))[:_SHOWN]!r}",
            f"{told} (--{role} and --{option} in a shell)",
        )
    return found


def _first_bad(column: Array, read: Read) -> Any:
    """The first value that cannot be read, by bisection."""
    good, bad = 0, len(column)  # values that can be read, and that cannot
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if read(column[:middle]) is None else (middle, bad)
    return column[bad - 1]


def _as_written(column: Array, reading: Reading) -> Array | None:
    numbers = reading.numbers(column)
    return None if numbers is None else _as_numbers(numbers)


def _as_times(column: Array, reading: Reading) -> Array | None:
    numbers = _as_written(column, reading)
    return _as_dates(column) if numbers is None else numbers


def _as_numbers(column: Array) -> Array | None:
    """Integers where that changes no value, floats otherwise, None where a value is not a number."""
    try:
        floats = column.astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        return None
    try:
        integers = column.astype(np.int64)
    except (ValueError, TypeError, OverflowError):
        return floats
    return integers if (integers == floats).all() else floats


def _as_dates(column: Array) -> Array | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # numpy warns that it converts time zones to UTC; we want that
        try:
            require_years(column.astype("datetime64[Y]"))
            return column.astype("datetime64[us]")
        except (ValueError, TypeError, OverflowError):
            return None
