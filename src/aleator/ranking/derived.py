"""Derived: what is computed from tensors once, and again when they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from torch import Tensor

T = TypeVar("T")


class Derived(Generic[T]):
    """The last result of `make`, kept as long as it is asked for with the same tensors and numbers.

    A tensor is another one after it was written into. The tensors are kept too, so that no new one can take their place
    in memory.
    """

    def __init__(self, make: Callable[..., T]) -> None:
        self.make = make
        self._last: tuple[tuple[Any, ...], tuple[Any, ...], T] | None = None  # key, what it was made of, result

    def __getstate__(self) -> dict[str, Any]:
        return {"make": self.make, "_last": None}  # a place in memory names nothing in another process

    def __call__(self, *given: Any) -> T:
        """`make(*given)`, or the last result."""
        key = tuple(_key(value) for value in given)
        last = self._last  # another thread may replace it
        if last is None or last[0] != key:
            self._last = None  # free the old result first
            del last
            self._last = last = key, given, self.make(*given)
        return last[2]


def _key(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.data_ptr(), value.shape, value.stride(), value._version
