"""What the tests of batches share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

import aleator as al
from aleator.recommender import Recommender


def lists_in(folder: Path, format: str = "parquet") -> pl.DataFrame:
    """All parts in their order."""
    read = pl.read_parquet if format == "parquet" else pl.read_csv
    return pl.concat([read(path) for path in sorted(folder.glob(f"part-*.{format}"))])


def batch(model: Recommender, users: Any, out: Path, **options: Any) -> dict[str, Any]:
    return al.recommend_batch(model, users, out, **{"k": 5, "per_part": 11, **options})
