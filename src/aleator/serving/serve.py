"""serve: a model folder behind an address, from the command line or beside a Python program."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aleator.errors import AleatorError, require

if TYPE_CHECKING:
    from aleator.data.splits import Split
    from aleator.serving.settings import Settings

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NEEDED = ("fastapi", "uvicorn", "uvloop", "httptools", "prometheus_client")


def serve(
    folder: Path,
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    split: Split | None = None,
    told: Callable[[str], None] = print,
) -> None:
    """Serve a folder until SIGTERM or Ctrl-C. `told` is called with the address once it answers."""
    for name in _NEEDED:
        found = importlib.util.find_spec(name) is not None
        require(found, f"the service needs the library {name}", "install it: pip install 'aleator[serve]'")
    require(hasattr(os, "fork"), "the service forks, which this system cannot", "run it on Linux or macOS")
    require(0 <= port < 1 << 16, f"port is {port}", "give a number from 0 to 65535")
    require(workers >= 1, f"workers is {workers}", "give a number of at least 1")
    from aleator.serving.supervisor import Supervisor

    with _bound(host, port) as listening:
        address = _address(host, listening.getsockname()[1])
        Supervisor(folder, settings, listening, workers, split).run(lambda: told(address))


def _bound(host: str, port: int) -> socket.socket:
    """A socket that is bound to an address. It does not listen yet."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
    except (OSError, OverflowError) as error:
        told = f"the service cannot listen at {host} port {port} ({error})"
        raise AleatorError(told, "give another --port or --host") from None
    made.set_inheritable(True)
    return made


def _address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@contextmanager
def serving(folder: str | os.PathLike[str], *options: str) -> Iterator[str]:
    """Serve a folder in a process of its own, inside a `with` block, at a free port of this machine.

    Args:
        folder: A folder of a saved model.
        *options: Options of `aleator serve`, such as "--workers", "2".

    Yields:
        The address, such as http://127.0.0.1:41234.
    """
    program = "from aleator_command import main; main()"
    command = [sys.executable, "-c", program, "serve", os.fspath(folder), "--port", "0", *options]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                process.wait()
                log.seek(0)
                raise AleatorError(f"the service did not start ({log.read()[-500:].strip()})", "see its message")
            yield address
        finally:
            process.terminate()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
