"""Trials that take no time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aleator.tuning.search import Search

from .pretending import Fake


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fake], list[dict[str, Any]]]:
    """Trials whose result is a function of their options; returns the options of each, as they come."""

    def set_up(fake: Fake) -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = []

        def measure(_: Search, options: dict[str, Any]) -> dict[str, Any]:
            seen.append(dict(options))
            return fake(options)

        monkeypatch.setattr(Search, "measure", measure)
        return seen

    return set_up
