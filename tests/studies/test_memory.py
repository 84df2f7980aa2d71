"""The peak of the memory is that of the work inside."""

from __future__ import annotations

import mmap

import pytest

from aleator.studies.memory import peak


def test_the_peak_is_that_of_the_work_inside() -> None:
    with peak("cpu") as small:
        pass
    if small.bytes is None:
        pytest.skip("this system does not tell")
    with peak("cpu") as large, mmap.mmap(-1, 40_000_000) as fresh:  # malloc could reuse what was freed before
        fresh.write(b"1" * 40_000_000)
    assert large.bytes is not None
    assert large.bytes > small.bytes + 30_000_000
