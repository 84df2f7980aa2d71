"""What the tests of batches share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import aleator as al
from aleator.recommender import Recommender


def lists_in(folder: Path, format: str = "parquet") -> pl.DataFrame:
    """All parts in their order."""
    read = pl.read_parquet if format == "parquet" else pl.read_csv
    return pl.concat([read(path) for path in sorted(folder.glob(f"part-*.{format}"))])


def assert_alike(found: pl.DataFrame, want: pl.DataFrame) -> None:
    """The same columns and values, up to how sums round. (polars has this too, with other options in each version.)"""
    assert found.schema == want.schema
    for name, values in want.to_dict().items():
        if values.dtype.is_float():
            np.testing.assert_allclose(found[name].to_numpy(), values.to_numpy(), rtol=1e-5, atol=1e-6)
        else:
            assert found[name].to_list() == values.to_list(), name


def batch(model: Recommender, users: Any, out: Path, **options: Any) -> dict[str, Any]:
    return al.recommend_batch(model, users, out, **{"k": 5, "per_part": 11, **options})
