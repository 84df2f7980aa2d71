"""The program `aleator`. It takes Ctrl-C and SIGTERM from its first moment, since its imports take seconds.

It is no part of the package: to import anything from there, Python would import all of it first.
"""

from __future__ import annotations

import os
import signal
from types import FrameType


def _stop(number: int, frame: FrameType | None) -> None:
    """End at once: nothing is open yet, and an exception could be lost inside an import."""
    os.write(2, b"interrupted before the command began\n")
    os._exit(128 + number)


def main() -> None:
    """Run a command."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)
    from aleator.cli import main as run

    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
