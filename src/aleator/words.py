"""Words: the values that options take, as types. The command line shows them before anything large is imported."""

from __future__ import annotations

from typing import Literal

By = Literal["random", "user_time", "global_time", "last", "balanced"]  # which pairs a split holds out
Duplicates = Literal["first", "sum"]  # what becomes of a pair that comes again
Empty = Literal["skip", "zero"]  # a user without a relevant item is left out of a mean, or counts as 0
Format = Literal["parquet", "csv"]  # of the parts of a batch
Missing = Literal["error", "drop"]  # what becomes of rows with missing values
Only = Literal["model", "uncertainty"]  # whose options a search takes
RecipeName = Literal["ours", "test", "paper"]
Select = Literal["balanced", "overall"]  # what lam is chosen for
Target = Literal["parquet", "npy", "faiss", "usearch", "lancedb", "qdrant"]  # what an export writes
Unknown = Literal["error", "drop", "popular"]  # what becomes of users whom a model does not know

DEFAULT_RECIPE: RecipeName = "ours"
PER_PART = 10_000  # users in a part of a batch
