"""What the tests of the data layer share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from aleator.data import arrays
from aleator.data.arrays import Array


@contextmanager
def in_pieces_of(rows: int) -> Iterator[None]:
    """Let the data layer work on `rows` rows at a time, so that a short column takes several pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "PIECE", rows)
        yield


def listed(column: Array | None) -> list[Any]:
    """The values of an optional column that must be there."""
    assert column is not None
    values: list[Any] = column.tolist()
    return values
