"""Checks: what a manifest and tensors must be before they are used. What is not so raises a ValueError."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import Tensor

Figure = Annotated[float, "NaN is null in a manifest"]  # what was measured, perhaps on nothing
_WHOLE = 1 << 63  # integers beyond it fit into no tensor


def typed(hint: Any, value: Any, name: str) -> Any:
    """A value of a manifest as the type `hint` says: lists become tuples, and dicts become dataclasses.

    >>> typed(tuple[float, ...], [1, 2.5], "knots")
    (1, 2.5)
    """
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin is Annotated:
        return math.nan if value is None else typed(args[0], value, name)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _made(hint, value, name)
    if origin in (typing.Union, types.UnionType):
        return typed(next((arg for arg in args if _is_kind(arg, value)), args[0]), value, name)
    if not _is_kind(hint, value):
        raise ValueError(f"{name} is {str(value)[:60]!r}")
    if origin is list:
        return [typed(args[0], each, name) for each in value]
    if origin is dict:
        return {typed(args[0], key, name): typed(args[1], each, name) for key, each in value.items()}
    if origin is tuple:
        each = [args[0]] * len(value) if args[-1] is ... else args
        return tuple(typed(kind, part, name) for kind, part in zip(each, value, strict=True))
    return value


def _is_kind(hint: Any, value: Any) -> bool:
    """Whether a value of JSON can be of a type, without a look at what it contains."""
    kind = typing.get_origin(hint) or hint
    if kind is typing.Literal:
        return any(value == arg and type(value) is type(arg) for arg in typing.get_args(hint))
    if kind is float:
        return (type(value) is int and abs(value) < _WHOLE) or (isinstance(value, float) and math.isfinite(value))
    if kind is int:
        return type(value) is int and abs(value) < _WHOLE
    if dataclasses.is_dataclass(kind):
        return isinstance(value, dict)
    return isinstance(value, (list, tuple) if kind is tuple else kind)


def _made(kind: type, value: Any, name: str) -> Any:
    """A dataclass from a dict with its fields. Fields with a default may be missing."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {str(value)[:60]!r}")
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for key in value:
        if key not in fields:
            raise ValueError(f"{name} has an unknown {key[:60]!r}")
    return kind(**{key: typed(hints[key], each, f"{name}.{key}") for key, each in value.items()})


def fit(tensors: Mapping[str, Tensor], shapes: Mapping[str, str], **sizes: int) -> None:
    """Refuse tensors that are missing, or that have another shape or type than `shapes` says.

    A shape names its sizes, such as "[n_items, dim + 1]" or "[n_users] bool"; without a type it is float32. A size that
    is not among `sizes` may be any, but the same wherever it is named.
    """
    for name, shape in shapes.items():
        inside, _, dtype = shape.removeprefix("[").partition("]")
        wanted, tensor = inside.split(","), tensors[name]
        good = tensor.dtype == getattr(torch, dtype.strip() or "float32") and tensor.ndim == len(wanted)
        if not (good and all(_is_size(text, size, sizes) for text, size in zip(wanted, tensor.shape, strict=True))):
            raise ValueError(f"{name} is {list(tensor.shape)} {tensor.dtype}, not {shape}")


def _is_size(text: str, size: int, sizes: dict[str, int]) -> bool:
    """Whether a size is the sum that `text` says. A name that is not known yet gets its value from it."""
    terms = [term.strip() for term in text.split("+")]
    known = sum(int(term) if term.isdigit() else sizes.get(term, 0) for term in terms)
    unknown = [term for term in terms if not term.isdigit() and term not in sizes]
    if unknown:
        sizes[unknown[0]], rest = divmod(size - known, len(unknown))
        return rest == 0 and size >= known
    return known == size


def fit_rows(start: Tensor, column: Tensor, width: int) -> None:
    """Refuse rows of a sparse matrix that do not follow each other, or columns from `width` on.

    The entries of row j are those from start[j] up to start[j + 1], and `column` has the column of each.
    """
    whole = int(start[0]) == 0 and int(start[-1]) == len(column) and bool((start[1:] >= start[:-1]).all())
    if not whole or (len(column) and not 0 <= int(column.min()) <= int(column.max()) < width):
        raise ValueError("the rows of a sparse matrix do not fit")


def finite(tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors with NaN or infinite numbers."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            low, high = tensor.aminmax()
            if not (math.isfinite(low) and math.isfinite(high)):  # NaN is both
                raise ValueError(f"{name} has numbers that are not finite")
