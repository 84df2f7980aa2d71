"""Models to serve, and services of them: in this process, and as processes of their own."""

from __future__ import annotations

import importlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn

import aleator as al
from aleator.serving.app import Service, create_app
from aleator.serving.counters import Counters
from aleator.serving.protocol import patient
from aleator.serving.served import Served
from aleator.serving.settings import Settings
from tests.cli.conftest import run as shell

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


@contextmanager
def listening(served: Served, settings: Settings) -> Iterator[str]:
    """A service that a thread of this process answers from."""
    counters = Counters(1)
    config = uvicorn.Config(
        create_app(Service(served, settings, counters)),
        http=patient(settings, counters),
        loop="uvloop",
        lifespan="off",
        log_config=None,
        access_log=False,
    )
    server = uvicorn.Server(config)
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen()
        thread = threading.Thread(target=server.run, args=([made],))
        thread.start()
        yield f"http://127.0.0.1:{made.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def address(served: Served) -> Iterator[str]:
    """The address of a service that does not wait long for anybody."""
    with listening(served, replace(SETTINGS, patience=0.3)) as found:
        yield found


run = shell  # `run("serve", folder)` runs the command in this process
