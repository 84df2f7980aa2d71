"""Models to serve, and services of them: in this process, and as processes of their own."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aleator as al
from aleator.serving import serving
from aleator.serving.app import Service
from aleator.serving.counters import Counters
from aleator.serving.served import Served
from aleator.serving.settings import Settings

SETTINGS = Settings(log_requests=False)


@pytest.fixture(scope="session")
def attack() -> Iterator[Any]:
    """tools/attack_service.py, which compares answers with those of the library."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2] / "tools")
        yield importlib.import_module("attack_service")


@pytest.fixture(scope="session")
def data(attack: Any) -> al.Split:
    """A split with texts as ids, titles and attributes."""
    split: al.Split = attack.simulated()
    return split


@pytest.fixture(scope="session")
def folder(attack: Any, data: al.Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("served") / "shop"
    attack.small_model(data).save(place)
    return place


@pytest.fixture(scope="session")
def model(folder: Path) -> al.AUR:
    found = al.load_model(folder, device="cpu")
    assert isinstance(found, al.AUR)
    return found


@pytest.fixture(scope="session")
def served(folder: Path, data: al.Split) -> Served:
    return Served.load(folder, SETTINGS, data)


@pytest.fixture
def service(served: Served) -> Service:
    return Service(served, SETTINGS, Counters(2))


@pytest.fixture(scope="session")
def address(folder: Path) -> Iterator[str]:
    """A service with two workers, in processes of its own."""
    with serving(folder, "--workers", "2", "--quiet", "--patience", "1") as found:
        yield found
