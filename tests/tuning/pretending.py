"""What trials find, made up and told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aleator.tuning import search as tuning

Fake = Callable[[dict[str, Any]], dict[str, Any]]


def found(value: float) -> dict[str, Any]:
    return {"recall@20": value, "tail_recall@50": 0.5, "epochs": None}


def results(tuned: tuning.Tuned) -> list[Any]:
    """What came out, in the order of the trials and without what chance or the clock decides."""
    rows = sorted(tuned.trials, key=lambda row: row["trial"])
    return [(r["state"], r["options"], r.get("recall@20")) for r in rows if r["state"] in ("complete", "pruned")]
