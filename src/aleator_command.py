"""The program `aleator`. It takes Ctrl-C and SIGTERM from its first moment, since its imports take a while.

It is no part of the package: to import anything from there, Python would import some of it first.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping() -> Iterator[None]:
    """Inside, Ctrl-C and SIGTERM end the program at once: nothing is open yet, and an import could lose an exception."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    taken = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in taken:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted before the command began\n")
    os._exit(128 + number)


def main() -> None:
    """Run a command."""
    with stopping():
        from aleator.cli import main as run

    run()
