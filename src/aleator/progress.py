"""Progress of long work, on a terminal only."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_quiet = False
_display: Progress | None = None


def quiet(on: bool = True) -> None:
    """Switch progress off (or on again) for this process."""
    global _quiet
    _quiet = on


class Bar:
    """What the work reports to; this one shows nothing."""

    def advance(self, n: int, **shown: object) -> None:
        """`n` more units are done; `shown` are the latest figures, such as loss=0.12."""


class _RichBar(Bar):
    def __init__(self, display: Progress, task: TaskID) -> None:
        self._display, self._task = display, task

    def advance(self, n: int, **shown: object) -> None:
        figures = {"shown": "  ".join(f"{name} {_short(value)}" for name, value in shown.items())} if shown else {}
        self._display.update(self._task, advance=n, **figures)  # type: ignore[arg-type]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Bar]:
    """A bar of `total` units (None where unknown) on stderr, if that is a terminal, rich is there and nobody said quiet.

    >>> with progress("fitting", 3) as bar:
    ...     bar.advance(1, loss=0.5)
    """
    global _display
    if _quiet or not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        yield Bar()
        return
    if _display is not None:  # work within work is one more line
        task = _display.add_task(label, total=total, shown="")
        try:
            yield _RichBar(_display, task)
        finally:
            _display.remove_task(task)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = TextColumn("{task.fields[shown]}")
    with Progress(*columns, shown, console=Console(stderr=True), transient=True) as display:
        _display = display
        try:
            yield _RichBar(display, display.add_task(label, total=total, shown=""))
        finally:
            _display = None
