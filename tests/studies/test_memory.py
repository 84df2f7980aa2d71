"""The peak of the memory is that of the work inside."""

from __future__ import annotations

import numpy as np
import pytest

from aleator.studies.memory import peak


def test_the_peak_is_that_of_the_work_inside() -> None:
    with peak("cpu") as small:
        pass
    if small.bytes is None:
        pytest.skip("this system does not tell")
    with peak("cpu") as large:
        np.ones(40_000_000, np.uint8)
    assert large.bytes is not None
    assert large.bytes > small.bytes + 30_000_000
