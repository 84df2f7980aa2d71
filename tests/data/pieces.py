"""Small pieces, so that a short column is worked on in several of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aleator.data import arrays


@contextmanager
def in_pieces_of(rows: int) -> Iterator[None]:
    """Let the data layer work on `rows` rows at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "PIECE", rows)
        yield
