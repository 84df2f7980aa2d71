"""Journal: keeps the steps of a fit in a folder, so that a fit that was killed goes on where it was.

A fit is a program without chance: the same data, options and threads take the same steps to the same bits. So a fit that
goes on runs the whole program again. A step that the journal holds returns at once with what it found before. The
training that was running goes on after the last step that it saved. All else is computed again.

Several ranks each keep a journal, in folders of their own that may lie on different disks. They save at the same steps. A
fit goes on from what all of them have.

Steps lie inside each other: the fit of a model has trainings in it. Once a step is done, what is inside it is deleted.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from aleator.errors import AleatorError, require
from aleator.locks import locked
from aleator.paths import as_path
from aleator.progress import note
from aleator.ranks import here
from aleator.signals import leaves, leaving
from aleator.training import whole
from aleator.version import __version__

EVERY = 10.0  # seconds between two saves of a training
SHARE = 0.03  # largest share of the time that saves take; where one takes long, fewer are made
STATES = 2  # saved states of a training that are kept
_ABOUT, _LOCK = "about.json", "lock"
_OURS = re.compile(rf"{_LOCK}|{_ABOUT}|\d{{4}}.*{whole.ENDING}|{whole.UNFINISHED}")
_clock = time.monotonic
_journal: ContextVar[Journal | None] = ContextVar("journal", default=None)


class Journal:
    """The steps of a fit in a folder. A step has a number in the step that it is inside of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inside = [0]  # the number of the latest step on each level
        self.training = False  # whether a training is running, which saves before it is interrupted
        self.asked: int | None = None  # the signal that asks the training to end
        self.failed = False  # whether the latest file could not be written

    def files(self, name: str = "", kind: str = "") -> list[Path]:
        """The files of a step, or of all steps, the oldest first."""
        start = f"{name}-{kind}" if name else ""
        return sorted(p for p in self.folder.glob(f"{start}*{whole.ENDING}") if p.name[:4].isdigit())

    def write(self, name: str, facts: dict[str, Any], tensors: dict[str, Tensor]) -> bool:
        """Write a file. If it cannot be written the fit goes on without it, and older files stay."""
        try:
            whole.write(self.folder, name, facts, tensors)
        except OSError as error:
            if not self.failed:
                note(f"a checkpoint could not be written to '{self.folder}' ({error}); the fit goes on without it")
            self.failed = True
            return False
        self.failed = False
        return True

    def newest(self, name: str, kind: str, label: str) -> whole.Content | None:
        """The newest intact file of a step."""
        for path in reversed(self.files(name, kind)):
            found = whole.read(path)
            if found is not None and found[0].get("label") == label and isinstance(found[0].get("facts"), dict):
                return found[0]["facts"], found[1]
            note(f"the checkpoint '{path}' is damaged, and is not used")
            delete(path)
        return None

    def leave(self) -> None:
        """End the process as the signal asks, if there was one."""
        if self.asked is not None:
            raise leaving(self.asked)

    def signalled(self, number: int, frame: FrameType | None) -> None:
        """Take a signal. A running training first saves. A second signal does not wait for that."""
        if not self.training or self.asked is not None:
            raise leaving(number)
        self.asked = number


class Step:
    """A step of a fit: a training, the fit of a model, or an entry of a race. Without a journal it keeps nothing."""

    def __init__(self, journal: Journal | None, label: str) -> None:
        self.journal, self.label = journal, label
        self.name = "" if journal is None else ".".join(f"{number:04}" for number in journal.inside)
        self.saves, self.next = 0, _clock() + EVERY

    @property
    def keeps(self) -> bool:
        """Whether there is a journal."""
        return self.journal is not None

    def found(self) -> whole.Content | None:
        """The result of the step, if the journal has it, and those of all ranks do."""
        if self.journal is None:
            return None
        found = self.journal.newest(self.name, "done", self.label)
        return None if here().any(found is None) else found

    def state(self) -> whole.Content | None:
        """The newest state of the training, if the journal has one. Of several ranks, the newest of all."""
        if self.journal is None:
            return None
        while True:
            files = self._latest()
            found = self.journal.newest(self.name, "state", self.label)
            files = [path for path in files if path.exists()]  # without those that are damaged
            self.saves = _number(files[-1]) if files and found is not None else 0
            saves = [int(each) for each in here().gather(torch.tensor([self.saves]), [1] * here().size)]
            if len(set(saves)) == 1:
                return found
            for path in files:
                if _number(path) > min(saves):
                    delete(path)

    def _latest(self) -> list[Path]:
        """The files of the latest states. Older ones are deleted."""
        assert self.journal is not None
        files = self.journal.files(self.name, "state")
        for path in files[:-STATES]:
            delete(path)
        return files[-STATES:]

    @property
    def due(self) -> bool:
        """Whether the training should save its state now."""
        return self.journal is not None and (self.journal.asked is not None or _clock() >= self.next)

    def save(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Keep the state of the training. Older states but one are deleted. Then end, if a signal asks for it."""
        assert self.journal is not None, "it is due"
        start, self.saves = _clock(), self.saves + 1
        name = f"{self.name}-state-{self.saves:06}"
        if self.journal.write(name, {"label": self.label, "facts": facts}, tensors):
            self._latest()
        now = _clock()
        self.next = now + max(EVERY, (now - start) / SHARE)
        self.journal.leave()

    def finish(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Keep the result of the step, and delete what is inside it."""
        if self.journal is None:
            return
        written = self.journal.write(f"{self.name}-done", {"label": self.label, "facts": facts}, tensors)
        if not here().any(not written):
            for path in self.journal.files():
                if path.name.startswith((f"{self.name}.", f"{self.name}-state")):
                    delete(path)


def _number(path: Path) -> int:
    """Which save of its step the file of a state is."""
    return int(path.name.split("-")[2])


@contextmanager
def taking() -> Iterator[None]:
    """Inside, what a file of the journal holds is taken over. What does not fit becomes an `AleatorError`."""
    journal = _journal.get()
    try:
        yield
    except (RuntimeError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        if journal is None:
            raise
        raise AleatorError(
            f"a checkpoint in '{journal.folder}' is not one of this fit ({type(error).__name__}: {str(error)[:120]})",
            "start anew with resume=False (--no-resume)",
        ) from None


@contextmanager
def step(label: str, training: bool = False) -> Iterator[Step]:
    """The next step of the fit, in the `with` block."""
    journal = _journal.get()
    if journal is None:
        yield Step(None, label)
        return
    journal.inside[-1] += 1
    made = Step(journal, label)
    journal.inside.append(0)
    journal.training = training
    try:
        yield made
    finally:
        journal.inside.pop()
        journal.training = False
    journal.leave()


def recorded(
    label: str,
    compute: Callable[[], None],
    pack: Callable[[], whole.Content],
    take: Callable[[dict[str, Any], dict[str, Tensor]], None],
) -> None:
    """Compute, and keep what `pack` returns as the result of a step. Or `take` the result that the journal has."""
    with step(label) as made:
        found = made.found()
        if found is not None:
            with taking():
                take(*found)
            return
        compute()
        if made.journal is not None:
            made.finish(*pack())


@contextmanager
def kept_in(folder: str | os.PathLike[str], about: dict[str, Any], resume: bool = True) -> Iterator[None]:
    """Inside, the steps of a fit are kept in a folder, which is removed at the end.

    If the folder holds an unfinished fit of the same data and options, that one goes on. One of others is refused. With
    `resume` off, it is deleted. `about` says what the data and the options are, as a dict for JSON.
    """
    place, ranks = as_path(folder), here()
    if ranks.size > 1:
        place, about = place / f"rank-{ranks.rank}", {**about, "processes": ranks.size}
    with ExitStack() as stack:
        try:
            place.mkdir(parents=True, exist_ok=True)
            free = stack.enter_context(locked(place / _LOCK))
        except OSError as error:
            raise _unwritable(place, error) from None
        told = f"another fit is running in '{place}'"
        require(free, told, "wait for it, or give this one another place")
        _prepare(place, json.loads(json.dumps({**about, **_machine()}, default=str)), resume)
        journal = Journal(place)
        before = _journal.set(journal)
        try:
            with _signals(journal):
                yield
        except (KeyboardInterrupt, SystemExit):
            note(f"the fit so far is kept in '{place}'; the same call goes on from there")
            raise
        finally:
            _journal.reset(before)
        ranks.wait()  # what the others still have to do may need all journals again
        _empty(place)
    with suppress(OSError):
        place.rmdir()
        if ranks.size > 1:
            place.parent.rmdir()


def _prepare(place: Path, about: dict[str, Any], resume: bool) -> None:
    """Make the folder that of a fit, or find that it is."""
    shared = [path for path in place.glob("rank-*") if _about(path) is not None]
    told = f"'{place}' holds an unfinished fit of several processes"
    require(not shared or not resume, told, "start as many, or start anew with resume=False (--no-resume)")
    for path in shared:
        with locked(path / _LOCK) as free:
            require(free, f"another fit is running in '{path}'", "wait for it, or give this one another place")
            _empty(path)
        with suppress(OSError):  # what else is in it stays, and is told below
            path.rmdir()
    foreign = [path.name for path in place.iterdir() if not _OURS.fullmatch(path.name)]
    told = f"'{place}' has files that are not of a fit, such as '{min(foreign, default='')}'"
    require(not foreign, told, "give another place for the checkpoints")
    there = _about(place)
    if there is not None and resume and Journal(place).files():
        other = [name for name in about if about[name] != there.get(name)]
        require(
            not other,
            f"'{place}' holds an unfinished fit with other {', '.join(other)}",
            "fit with the same, or start anew with resume=False (--no-resume)",
        )
        note(f"the fit goes on from '{place}'")
    else:
        _empty(place)
        made = place / whole.UNFINISHED / _ABOUT
        try:
            made.parent.mkdir(exist_ok=True)
            made.write_text(json.dumps(about, indent=1))
            made.replace(place / _ABOUT)
        except OSError as error:
            raise _unwritable(place, error) from None
    whole.clean(place)


def _about(place: Path) -> dict[str, Any] | None:
    """What the fit in a folder is about. None if the folder is not that of a fit."""
    try:
        found = json.loads((place / _ABOUT).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "machine" in found else None


def _machine() -> dict[str, Any]:
    """What the bits of a fit depend on, beside its data and options."""
    versions = {"aleator": __version__, "torch": torch.__version__, "numpy": np.__version__, "scipy": scipy.__version__}
    return {
        "versions": versions | {"python": platform.python_version()},
        "threads": torch.get_num_threads(),
        "machine": [platform.system(), platform.machine(), torch.backends.cpu.get_cpu_capability()],
    }


def _empty(place: Path) -> None:
    """Delete the files of a journal, what it is about first: without it, the others count for nothing."""
    for path in [place / _ABOUT, *Journal(place).files()]:
        delete(path)
    whole.clean(place)


def delete(path: Path) -> None:
    """Delete a file. One that cannot be deleted stays."""
    with suppress(OSError):
        path.unlink()


def _unwritable(place: Path, error: OSError) -> AleatorError:
    return AleatorError(f"checkpoints cannot be written to '{place}' ({error.strerror})", "give another place")


@contextmanager
def _signals(journal: Journal) -> Iterator[None]:
    """Inside, Ctrl-C and SIGTERM go to the journal, unless the program has handlers of its own.

    Only the main thread can ask for that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    taken = [n for n, handler in before.items() if handler in (signal.SIG_DFL, signal.default_int_handler, leaves)]
    for number in taken:
        signal.signal(number, journal.signalled)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
