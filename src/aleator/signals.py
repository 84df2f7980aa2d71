"""How a process ends on Ctrl-C and on SIGTERM."""

from __future__ import annotations

import signal
from types import FrameType


def leaving(number: int) -> BaseException:
    """What ends a process on a signal: with the exit code 130 after Ctrl-C, and 143 after SIGTERM."""
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def leaves(number: int, frame: FrameType | None) -> None:
    """The handler of a signal that ends the process at once. What is open is closed."""
    raise leaving(number)
