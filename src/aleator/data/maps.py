"""Maps: pairs in files that are mapped into memory, sorted by user and item, for data that is larger than memory.

A folder of maps holds a file for each column and a manifest with the size and the checksum of each. It appears whole or
not at all. Everything is written and sorted in pieces, so that no array of the size of the pairs is ever made.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aleator.data.arrays import Array
from aleator.errors import AleatorError
from aleator.progress import beat

CHUNK = 1 << 20  # pairs that are read or written at a time
BUCKET = 1 << 22  # pairs that are sorted at a time, unless there are more than `BUCKETS` times as many
BUCKETS = 512  # files that are open at a time
FORMAT = 1
MANIFEST = "manifest.json"
TYPES = {"start": ("<i8",), "user": ("<i4",), "item": ("<i4",), "weight": ("<f4",), "time": ("<i8", "<f8")}
Content = dict[str, Array]  # columns by name
Facts = dict[str, Any]  # what a manifest says


class Rows(NamedTuple):
    """A sparse matrix by rows, in mapped files."""

    start: NDArray[np.int64]  # [n_rows + 1] where each row starts
    column: NDArray[np.int32]  # [n] column of each entry, ascending in each row
    weight: NDArray[np.float32] | None  # [n] None means 1 for each entry
    n_columns: int


@dataclass(frozen=True, eq=False)
class Maps:
    """Pairs in mapped files, sorted by user and item. `whole` is what they were taken from, if they are a part."""

    folder: Path
    n_users: int
    n_items: int
    columns: Content  # user, item and, where they are known, weight and time
    start: NDArray[np.int64]  # [n_users + 1] where each user's pairs start
    whole: Maps | None = None

    @classmethod
    def open(cls, folder: Path, whole: Maps | None = None) -> Maps:
        """The maps of a folder, once its files are checked."""
        with whole_in(folder):
            facts, columns = _load(folder)
            users, items, start = facts["users"], facts["items"], columns.pop("start")
            _check(start, users, columns, {"user": users, "item": items})
            if whole is not None and (users, items) != (whole.n_users, whole.n_items):
                raise ValueError("it has other users or items than what it is a part of")
        return cls(folder, users, items, columns, start, whole)

    def __len__(self) -> int:
        return len(self.columns["user"])

    @property
    def by_user(self) -> Rows:
        """The items of each user."""
        return Rows(self.start, self.columns["item"], self.columns.get("weight"), self.n_items)

    @cached_property
    def by_item(self) -> Rows:
        """The users of each item. They are sorted into a folder of their own when they are first asked for."""
        folder = self.folder / "by-item"
        if not (folder / MANIFEST).exists():
            with written(folder) as part:
                self._turn(part)
        with whole_in(folder):
            _, columns = _load(folder)
            start = columns.pop("start")
            _check(start, self.n_items, columns, {"user": self.n_users})
        return Rows(start, columns["user"], columns.get("weight"), self.n_users)

    @cached_property
    def csr(self) -> sp.csr_matrix:
        """The pairs as a scipy matrix that copies none of them."""
        dtype = np.int32 if len(self) <= np.iinfo(np.int32).max else np.int64
        matrix = sp.csr_matrix((self.n_users, self.n_items), dtype=np.float32)
        # its constructor would copy: it has no place for one weight that stands for all
        matrix.indptr, matrix.indices = self.start.astype(dtype), self.columns["item"].astype(dtype, copy=False)
        weight = self.columns.get("weight")
        matrix.data = np.broadcast_to(np.float32(1), len(self)) if weight is None else weight
        matrix.has_sorted_indices = True
        return matrix

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges of users with at most `BUCKET` pairs each, or with a single user."""
        return ranges(self.start, BUCKET)

    def _turn(self, folder: Path) -> None:
        size = np.zeros(self.n_items, np.int64)
        for rows in _chunks(len(self)):
            size += np.bincount(self.columns["item"][rows], minlength=self.n_items)
        columns = {name: values for name, values in self.columns.items() if name != "time"}
        parts = ({name: values[rows] for name, values in columns.items()} for rows in _chunks(len(self)))
        with Writer(folder) as writer:
            for part in sorted_by("item", parts, size, folder):
                order = np.argsort(part.pop("item"), kind="stable")  # users of an item stay in their order
                writer.append({name: values[order] for name, values in part.items()})
            writer.finish({}, start=starts(size))


def starts(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """[n + 1] where each row starts, from the sizes [n] of all rows."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(size, dtype=np.int64)])


def ranges(start: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows with at most `most` entries each, or with a single row."""
    first, n = 0, len(start) - 1
    while first < n:
        last = max(int(np.searchsorted(start, start[first] + most, side="right")) - 1, first + 1)
        yield first, min(last, n)
        first = last


def _chunks(n: int) -> Iterator[slice]:
    for first in range(0, n, CHUNK):
        beat()
        yield slice(first, min(first + CHUNK, n))


def sorted_by(key: str, parts: Iterable[Content], size: NDArray[np.int64], scratch: Path) -> Iterator[Content]:
    """The rows of all parts in groups by ascending ranges of `key`, each small enough to be sorted in memory.

    `size` counts the rows of each key. Inside a group, the rows keep their order. They wait in files in `scratch`.
    """
    start = starts(size)
    edges = [last for _, last in ranges(start, max(BUCKET, -(-int(start[-1]) // BUCKETS)))]
    dtype: np.dtype[Any] | None = None
    with ExitStack() as stack, tempfile.TemporaryDirectory(dir=scratch, prefix="sort-") as folder:
        files = [stack.enter_context((Path(folder) / str(i)).open("w+b")) for i in range(len(edges))]
        for part in parts:
            dtype = np.dtype([(name, values.dtype) for name, values in part.items()])
            records = np.empty(len(part[key]), dtype)
            for name, values in part.items():
                records[name] = values
            bucket = np.searchsorted(edges, part[key], side="right")
            order = np.argsort(bucket, kind="stable")
            ends = np.cumsum(np.bincount(bucket, minlength=len(edges))).tolist()
            for file, a, b in zip(files, [0, *ends], ends, strict=False):
                if b > a:
                    file.write(records[order[a:b]].data)
        for file in files:
            beat()
            file.flush()
            file.seek(0)
            if dtype is not None:
                records = np.frombuffer(file.read(), dtype)
                yield {name: records[name].copy() for name in dtype.names or ()}
            file.truncate(0)


class Writer:
    """Columns that are written piece by piece into the files of a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.stack = folder, ExitStack()
        self.files: dict[str, IO[bytes]] = {}
        self.about: dict[str, Facts] = {}

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def append(self, columns: Content) -> None:
        """Write the next rows of each column."""
        for name, values in columns.items():
            if name not in self.files:
                self.files[name] = self.stack.enter_context((self.folder / name).open("wb"))
                self.about[name] = {"dtype": values.dtype.str, "bytes": 0, "crc32": 0}
            content, about = np.ascontiguousarray(values).view(np.uint8).data, self.about[name]
            self.files[name].write(content)
            about["bytes"] += content.nbytes
            about["crc32"] = zlib.crc32(content, about["crc32"])

    def finish(self, facts: Facts, **columns: Array) -> None:
        """Write columns that are known at the end, and the manifest."""
        self.append(columns)
        self.stack.close()  # a full disk may only show when a file is closed
        told = {"format": FORMAT, **facts, "files": self.about}
        (self.folder / MANIFEST).write_text(json.dumps(told, indent=1))


@contextmanager
def written(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target` to write into. It becomes `target` if nothing fails."""
    made: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        yield made
        made.chmod(0o755)
        if not (target.is_dir() and any(target.iterdir())):  # otherwise another process was faster
            made.rename(target)
    except OSError as error:
        problem = f"'{target}' cannot be written ({error.strerror or error})"
        raise AleatorError(problem, "check the folder and the free space") from None
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def read_manifest(folder: Path) -> Facts:
    """What the manifest of a folder of maps says."""
    with whole_in(folder):
        facts = json.loads((folder / MANIFEST).read_text())
        if isinstance(facts, dict) and not facts.keys() & {"source", "files"}:
            raise AleatorError(
                f"'{folder}' holds something else than pairs on disk", "give a folder that aleator may make"
            )
        if facts["format"] != FORMAT:
            raise ValueError(f"it has format {facts['format']!r:.20}, and this version reads {FORMAT}")
        return dict(facts)


@contextmanager
def whole_in(folder: Path) -> Iterator[None]:
    """Inside, what a folder of maps should have and has not is an `AleatorError`."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise AleatorError(f"'{folder}' is not whole ({reason:.200})", "delete it, and read the source again") from None


def _load(folder: Path) -> tuple[Facts, Content]:
    """The manifest of a folder and its columns, mapped into memory, once they have the size and content that it says."""
    facts = read_manifest(folder)
    for name, about in facts["files"].items():
        if about["dtype"] not in TYPES[name]:
            raise ValueError(f"'{name}' is of type {about['dtype']}")
    return facts, {name: _mapped(folder / name, about) for name, about in facts["files"].items()}


def _check(start: NDArray[np.int64], n_rows: int, columns: Content, below: dict[str, int]) -> None:
    """Refuse rows that would lead into other memory. `below` has the numbers that ids of a column are below."""
    if any(type(n) is not int or n < 0 for n in (n_rows, *below.values())):
        raise ValueError("its numbers of users and items are none")
    n = {len(values) for values in columns.values()}
    if len(n) != 1 or len(start) != n_rows + 1 or [start[0], start[-1]] != [0, *n] or bool((np.diff(start) < 0).any()):
        raise ValueError("its columns do not fit each other")
    for name, most in below.items():
        for rows in _chunks(*n):
            if columns[name][rows].min() < 0 or columns[name][rows].max() >= most:
                raise ValueError(f"'{name}' has an id that is none")


def _mapped(path: Path, about: Facts) -> Array:
    if path.stat().st_size != about["bytes"]:
        raise ValueError(f"'{path.name}' has not the size that was written")
    crc = 0
    with path.open("rb", buffering=0) as file:
        while content := file.read(CHUNK):
            crc = zlib.crc32(content, crc)
            beat()
    if crc != about["crc32"]:
        raise ValueError(f"'{path.name}' has not the content that was written")
    dtype = np.dtype(about["dtype"])
    # copy on write: what a process writes stays its own, and PyTorch takes no array that is read only
    return np.memmap(path, dtype, "c") if about["bytes"] else np.zeros(0, dtype)
