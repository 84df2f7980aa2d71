"""Ranges of options, which stand beside the class that has them; `aleator tune` searches in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Between:
    """A number from low to high; `log` where ratios matter, `whole` where it is an integer."""

    low: float
    high: float
    log: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Among:
    """One of these values."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)


Ranges = dict[str, Between | Among]
