"""Progress of long work: bars on a terminal, and elsewhere a plain line every few seconds, for the log of a job."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

T = TypeVar("T")
_EVERY = 5.0  # seconds between two lines
_clock = time.monotonic
_quiet = False
_display: Progress | None = None  # the display of the outermost work that is running on a terminal
_lines: ContextVar[_Lines | None] = ContextVar("lines", default=None)  # those of the outermost work elsewhere


def quiet(on: bool = True) -> None:
    """Switch progress off for this process, or on again with `on=False`."""
    global _quiet
    _quiet = on


class Bar:
    """Progress that shows nothing. Work reports to it in the same way as to a visible one."""

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


class _Lines:
    """Plain lines on stderr. Works inside each other share a line, and `_EVERY` seconds lie between two lines.

    There is no thread: a line is printed when work reports. So the first one comes after `_EVERY` seconds at the
    earliest, and work that is shorter prints none.
    """

    def __init__(self) -> None:
        self.start = self.last = _clock()
        self.works: list[_LineBar] = []

    def beat(self) -> None:
        """Print a line if it is time."""
        now = _clock()
        if now - self.last >= _EVERY:
            self.last = now
            minutes, seconds = divmod(int(now - self.start), 60)
            print(f"[{minutes}:{seconds:02}] {': '.join(map(str, self.works))}", file=sys.stderr, flush=True)


class _LineBar(Bar):
    def __init__(self, lines: _Lines, label: str, total: int | None) -> None:
        self._lines, self._label, self._total = lines, label, total
        self._done, self._shown = 0, dict[str, object]()

    def advance(self, n: int, **shown: object) -> None:
        self._done += n
        self._shown |= shown
        self._lines.beat()

    def __str__(self) -> str:
        done = [f"{self._done:,}/{self._total:,}"] if self._total is not None else []
        done += [f"{self._done:,}"] if self._total is None and self._done else []
        return ", ".join([" ".join([self._label, *done]), *(f"{n} {_short(v)}" for n, v in self._shown.items())])


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def note(text: str) -> None:
    """Tell a person on stderr what happened to a long work. It is told also after `quiet()`."""
    print(f"note: {text}", file=sys.stderr, flush=True)


def beat() -> None:
    """Show that the work that is running goes on, from inside a long step of it. Only plain lines need this."""
    lines = _lines.get()
    if lines is not None:
        lines.beat()


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Bar]:
    """Progress on stderr of the work in the `with` block.

    It is a bar on a terminal, and elsewhere a plain line every few seconds. Nothing is shown after `quiet()`. A bar
    inside another one is one more line of the same display, or the next part of the same plain line.

    Args:
        label: What the work is.
        total: Number of units of work, or None if it is unknown.

    Example:
        >>> with progress("fitting", 3) as bar:
        ...     bar.advance(1, loss=0.5)
    """
    if _quiet:
        yield Bar()
    elif _display is not None:  # asked first: the stderr of a display is no terminal in older versions of rich
        task = _display.add_task(label, total=total, shown="")
        try:
            yield _RichBar(_display, task)
        finally:
            _display.remove_task(task)
    elif not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        with _line(label, total) as bar:
            yield bar
    else:
        with _new_display() as display:
            yield _RichBar(display, display.add_task(label, total=total, shown=""))


def each(label: str, work: Sequence[T]) -> Iterator[T]:
    """The pieces of a work one after the other, with progress if there are several.

    >>> list(each("lists", [1, 2]))
    [1, 2]
    """
    if len(work) < 2:
        yield from work
        return
    with progress(label, len(work)) as bar:
        for piece in work:
            yield piece
            bar.advance(1)


@contextmanager
def _line(label: str, total: int | None) -> Iterator[Bar]:
    lines = _lines.get() or _Lines()
    _lines.set(lines)
    bar = _LineBar(lines, label, total)
    lines.works.append(bar)
    lines.beat()
    try:
        yield bar
    finally:
        lines.works.remove(bar)
        if not lines.works:
            _lines.set(None)


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
