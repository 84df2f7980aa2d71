"""Progress bars for long work. They are shown on a terminal only."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_quiet = False
_display: Progress | None = None  # the display of the outermost work that is running


def quiet(on: bool = True) -> None:
    """Switch progress bars off for this process, or on again with `on=False`."""
    global _quiet
    _quiet = on


class Bar:
    """A progress bar that shows nothing. Work reports to it in the same way as to a visible one."""

    def advance(self, n: int, **shown: object) -> None:
        """Report `n` more units of work. `shown` are the latest figures, such as loss=0.12."""


class _RichBar(Bar):
    def __init__(self, display: Progress, task: TaskID) -> None:
        self._display = display
        self._task = task

    def advance(self, n: int, **shown: object) -> None:
        if shown:
            figures = "  ".join(f"{name} {_short(value)}" for name, value in shown.items())
            self._display.update(self._task, advance=n, shown=figures)
        else:
            self._display.update(self._task, advance=n)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Bar]:
    """A progress bar on stderr for the work in the `with` block.

    Nothing is shown if stderr is not a terminal, if rich is not installed, or after `quiet()`. A bar inside another
    one is one more line of the same display.

    Args:
        label: What the work is.
        total: Number of units of work, or None if it is unknown.

    Example:
        >>> with progress("fitting", 3) as bar:
        ...     bar.advance(1, loss=0.5)
    """
    if _quiet or not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        yield Bar()
    elif _display is not None:
        task = _display.add_task(label, total=total, shown="")
        try:
            yield _RichBar(_display, task)
        finally:
            _display.remove_task(task)
    else:
        with _new_display() as display:
            yield _RichBar(display, display.add_task(label, total=total, shown=""))


@contextmanager
def _new_display() -> Iterator[Progress]:
    global _display
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = TextColumn("{task.fields[shown]}")
    with Progress(*columns, shown, console=Console(stderr=True), transient=True) as display:
        _display = display
        try:
            yield display
        finally:
            _display = None
