"""The figures that the paper printed, for datasets whose split is the same here and there."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _tables() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parent / "published.json").read_text())
    return found


def published(study: str, dataset: str) -> dict[str, Any]:
    """The metrics of each method by protocol. Empty where the paper has no such figure or used another split."""
    found: dict[str, Any] = _tables().get(study, {}).get(dataset, {})
    return found


def figure(study: str, dataset: str, method: str, protocol: str, metric: str) -> float | None:
    """One printed number, or None."""
    value = published(study, dataset).get(method, {}).get(protocol, {}).get(metric)
    return None if value is None else float(value)
