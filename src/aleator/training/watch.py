"""Watch: what trainings tell while they run, to the progress on stderr and to callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from aleator.progress import Bar, progress

_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())
_ended: ContextVar[Exception | None] = ContextVar("ended", default=None)  # the exception of a watcher, on its way out
_phases: ContextVar[tuple[str, ...]] = ContextVar("phases", default=())


@dataclass(frozen=True)
class Epoch:
    """What the callback of `fit` is told after each epoch of a training, and after each iteration of ALS.

    Attributes:
        stage: What is trained, such as "FISM", "MF by ALS" or "uncertainty estimator".
        phases: What that is a part of, the outermost first, such as a round of the race and one of its settings. Empty
            where a model is fitted for the first time.
        epoch: The number of the epoch, from 1.
        last: The largest number of epochs. None if it is not known.
        loss: The mean loss over users. None where the stage has none, such as ALS.
        metric: What early stopping watches on held-out pairs, higher is better. None in an epoch without a check.
        seconds: Seconds since the stage began, with its checks.
    """

    stage: str
    phases: tuple[str, ...]
    epoch: int
    last: int | None
    loss: float | None
    metric: float | None
    seconds: float

    @property
    def label(self) -> str:
        """The phases and the stage as a path, such as "refit/FISM". Epochs of one label make one curve."""
        return "/".join([*self.phases, self.stage]).replace(",", "")


Watcher = Callable[[Epoch], None]


class Stage:
    """A training that is running."""

    def __init__(self, name: str, last: int | None, shown: Bar, done: int = 0) -> None:
        self.name, self.last, self.shown = name, last, shown
        self.epoch, self.start = done, time.perf_counter()
        if done:
            shown.advance(done)

    def advance(self, loss: float | None = None, metric: float | None = None) -> None:
        """Tell that one more epoch is done."""
        self.epoch += 1
        figures = {name: value for name, value in (("loss", loss), ("metric", metric)) if value is not None}
        self.shown.advance(1, **figures)
        seconds = time.perf_counter() - self.start
        told = Epoch(self.name, _phases.get(), self.epoch, self.last, loss, metric, seconds)
        for watcher in _watchers.get():
            try:
                watcher(told)
            except Exception as error:
                _ended.set(error)
                raise


def ended_by(error: Exception) -> bool:
    """Whether an exception is that of a watcher, so that it ends the whole fit. What catches errors of a fit asks."""
    return error is _ended.get()


@contextmanager
def stage(name: str, last: int | None, done: int = 0) -> Iterator[Stage]:
    """A training of at most `last` epochs, in the `with` block. It is shown as progress, and watchers are told of it.

    `done` epochs were taken before.
    """
    with progress(name, last) as shown:
        yield Stage(name, last, shown, done)


@contextmanager
def phase(name: str, total: int | None = None) -> Iterator[Bar]:
    """A part of a fit that has trainings in it. It is shown as progress, with `total` units of work."""
    before = _phases.set((*_phases.get(), name))
    try:
        with progress(name, total) as shown:
            yield shown
    finally:
        _phases.reset(before)


@contextmanager
def watching(watcher: Watcher | None) -> Iterator[None]:
    """Inside, `watcher` is told of each epoch of every training. Its exception ends the training, and comes out here."""
    before = _watchers.get()
    _watchers.set(before if watcher is None else (*before, watcher))
    try:
        yield
    finally:
        _watchers.set(before)
        _ended.set(None)
