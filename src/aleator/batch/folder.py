"""The folder of a batch: parts that are whole or absent, a journal of those that are finished, one run at a time.

`part-00000.parquet` and so on hold the lists. `_journal.jsonl` has a line that says which batch it is, and one for each
finished part. `_SUCCESS` is written last. A run may be killed at any moment: the next one takes the finished parts from
the journal, removes what else was left, and goes on.

Any process may write what becomes a part (`written`), under a name that no other has. Only the process that holds the
folder gives it the name of the part (`Folder.take`). So a part that was written twice, since its first writer was taken
for dead, comes once.
"""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from aleator.errors import AleatorError, require

JOURNAL, DONE = "_journal.jsonl", "_SUCCESS"
_OURS = re.compile(r"\.?part-\d{5,}\.\w+(\.tmp)?|\.(part-\d{5,}\.\w+|_SUCCESS)(\.[0-9a-f]{32})?\.tmp")
AGAIN = "give another folder, or empty this one"
About = dict[str, Any]


class Written(NamedTuple):
    """A file that is whole and on disk, and has not its name yet."""

    made: str  # what it is called so far
    bytes: int


def written(folder: Path, name: str, write: Callable[[Path], Any]) -> Written:
    """Write what becomes the file `name` of a folder."""
    made = folder / f".{name}.{uuid.uuid4().hex}.tmp"
    write(made)
    with made.open("r+b") as file:
        os.fsync(file.fileno())
    return Written(made.name, made.stat().st_size)


class Folder:
    """The folder of a batch, while a run holds it."""

    def __init__(self, path: Path, journal: IO[bytes], finished: dict[str, About]) -> None:
        self.path = path
        self.journal = journal
        self.finished = finished  # by the name of the part: what `add` was told about it

    def add(self, name: str, write: Callable[[Path], Any], about: About) -> None:
        """Write a part. It has its name, and a line in the journal, only once it is whole and on disk."""
        self.take(name, written(self.path, name, write), about)

    def take(self, name: str, part: Written, about: About) -> None:
        """Make what was written a part."""
        (self.path / DONE).unlink(missing_ok=True)
        self._name(part, name)
        about = {"part": name, "bytes": part.bytes, **about}
        _append(self.journal, about)
        self.finished[name] = about

    def finish(self, manifest: dict[str, Any]) -> None:
        """Say that all parts are there. What killed writers left is removed."""
        _sweep(self.path, self.finished)
        if not (self.path / DONE).exists():
            text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
            self._name(written(self.path, DONE, lambda path: path.write_text(text)), DONE)

    def _name(self, part: Written, name: str) -> None:
        (self.path / part.made).replace(self.path / name)
        _sync(self.path)


@contextmanager
def held(path: Path, batch: dict[str, Any], told: Mapping[str, type] | None = None) -> Iterator[Folder]:
    """The folder at `path` for the batch that `batch` describes, made or taken up again. No other run may have it.

    `told` are the names and types of what `add` is told about a part.
    """
    try:
        check(path)
        path.mkdir(parents=True, exist_ok=True)
        with (path / JOURNAL).open("a+b") as journal:
            _lock(journal, path)
            folder = Folder(path, journal, _taken_up(path, journal, batch, told or {}))
            yield folder
    except OSError as error:
        problem = f"'{path}' cannot be written ({error.strerror or error})"
        raise AleatorError(problem, "check the folder and the free space, and run it again to go on") from None


def check(path: Path) -> None:
    """Refuse a folder that holds other things than a batch."""
    require(not path.exists() or path.is_dir(), f"'{path}' is a file", "give a folder")
    free = not path.exists() or (path / JOURNAL).exists() or not any(path.iterdir())
    require(free, f"'{path}' is not empty and holds no batch", "give another folder")


def _lock(journal: IO[bytes], path: Path) -> None:
    """Keep other runs out. The system gives the lock back when the process ends, however it ends."""
    if sys.platform == "win32":  # it has no such locks
        return
    import fcntl

    try:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AleatorError(f"another run is writing to '{path}'", "wait for its end, or give another folder") from None


def _taken_up(path: Path, journal: IO[bytes], batch: dict[str, Any], told: Mapping[str, type]) -> dict[str, About]:
    """The finished parts of an earlier run of the same batch. What it left half done is removed."""
    earlier, finished = _read(journal, path, {"part": str, "bytes": int, **told})
    whole = {name: about for name, about in finished.items() if _is_whole(path / name, about)}
    if whole and earlier != batch:
        different = [name for name in {**earlier, **batch} if earlier.get(name) != batch.get(name)]
        raise AleatorError(f"'{path}' holds a batch with another {' and '.join(different)}", AGAIN)
    if not whole:
        journal.truncate(0)
        _append(journal, batch)
    if whole != finished or not whole:
        (path / DONE).unlink(missing_ok=True)
    _sweep(path, whole)
    return whole


def _sweep(path: Path, kept: Container[str]) -> None:
    """Remove what was left half done: all files of parts, but those of `kept`."""
    for file in path.iterdir():
        if _OURS.fullmatch(file.name) and file.name not in kept:
            file.unlink()


def _read(journal: IO[bytes], path: Path, told: Mapping[str, type]) -> tuple[dict[str, Any], dict[str, About]]:
    """The batch that a journal is of, and the parts that it names. A line that was not written to its end is cut off."""
    journal.seek(0)
    text = journal.read()
    whole = text[: text.rfind(b"\n") + 1]
    journal.truncate(len(whole))
    try:
        first, *lines = [json.loads(line) for line in whole.splitlines()] or [{}]
        if not isinstance(first, dict) or not all(type(line[name]) is told[name] for line in lines for name in told):
            raise TypeError
        return first, {line["part"]: line for line in lines if _OURS.fullmatch(line["part"])}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise AleatorError(f"'{path / JOURNAL}' is damaged", AGAIN) from None


def _is_whole(part: Path, about: About) -> bool:
    return part.is_file() and part.stat().st_size == about["bytes"]


def _append(journal: IO[bytes], line: dict[str, Any]) -> None:
    journal.write(json.dumps(line).encode() + b"\n")
    journal.flush()
    os.fsync(journal.fileno())


def _sync(folder: Path) -> None:
    """Let the names in a folder reach the disk."""
    if sys.platform == "win32":  # it does not open folders
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
