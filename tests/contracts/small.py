"""What the contracts need to know of each model: options that make it small and quick, and whether chance is in it."""

from __future__ import annotations

from typing import Any

EPOCHS: dict[str, Any] = {"dim": 3, "lr": 0.05, "max_epochs": 40, "batch_size": 16, "check_every": 1}
SMALL: dict[str, list[dict[str, Any]]] = {
    "mf": [{"dim": 3}, EPOCHS | {"solver": "adam"}],
}
STARTS_AT_RANDOM = {  # so that other item numbers mean another start
    "mf",
}
DRAWS_BY_USER = {  # so that other user numbers do, by name and textual options
    "mf adam",
}
