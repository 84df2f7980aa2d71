"""Logs: a line of JSON on stderr for each event, without histories and without ids."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from contextlib import suppress
from typing import Any


def event(name: str, level: str = "info", **told: Any) -> None:
    """Write one event. A log that cannot be written, as on a full disk, is no reason to stop answering."""
    line = {"time": round(time.time(), 3), "level": level, "event": name, "pid": os.getpid(), **told}
    with suppress(OSError):
        sys.stderr.write(json.dumps(line) + "\n")
        sys.stderr.flush()


def bug(error: BaseException, **told: Any) -> None:
    """An exception that nobody expected: its type and where it came from. Its text may hold what somebody asked."""
    places = [f"{os.path.basename(at.filename)}:{at.lineno}" for at in traceback.extract_tb(error.__traceback__)]
    event("bug", "error", kind=type(error).__name__, places=places[-12:], **told)


class ToEvents(logging.Handler):
    """What uvicorn logs, as events."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and record.exc_info[1] is not None:
            bug(record.exc_info[1])
        else:
            event("server", record.levelname.lower(), message=record.getMessage())


def take_over() -> None:
    """Let uvicorn and asyncio log events: warnings and worse."""
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.addHandler(ToEvents())
        logger.setLevel(logging.WARNING)
