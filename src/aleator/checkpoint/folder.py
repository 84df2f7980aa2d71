"""A folder on disk: a manifest, and a file of tensors that the manifest names by its content.

`write` first writes the tensors under a new name, then puts the new manifest in the place of the old one, which is one
step for the file system, then removes the old tensors. So whoever reads finds the old model or the new one, and a writer
that is killed leaves the old model or the new one. What else it leaves, the next writer removes.

Writers take turns: each holds a lock on the folder, which the system takes back when a process ends, however it ends.
So what a writer finds half-written is of no living writer. Readers take no lock.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import SafetensorError
from torch import Tensor

from aleator.checkpoint.formats import FORMAT, upgrade
from aleator.checkpoint.manifest import (
    MOST,
    NAME,
    Path_,
    damaged,
    read_manifest,
    regular,
    sealed,
    tensor_file,
    without_nan,
)
from aleator.checkpoint.replacing import require_writable
from aleator.checkpoint.tensors import checksum, map_tensors, write_tensors
from aleator.errors import AleatorError, require
from aleator.paths import as_path

if sys.platform != "win32":
    import fcntl

_PART = ".part"  # ending of a file that is being written
_OURS = re.compile(rf"(tensors(-[0-9a-f]{{16}})?\.safetensors|{re.escape(NAME)})({re.escape(_PART)})?")
_PATIENCE = 60.0  # seconds to wait for another writer
UNREADABLE = (  # what comes out of damaged files, if nothing was checked before
    OSError,
    SafetensorError,
    RuntimeError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    AssertionError,
)


def write(folder: Path_, manifest: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a folder, or replace what `write` wrote there before. A symlink to a folder stays one."""
    target = check_target(folder)
    sums = {name: checksum(tensor) for name, tensor in sorted(tensors.items())}
    content = hashlib.sha256(json.dumps(sums).encode()).hexdigest()
    name = f"tensors-{content[:16]}.safetensors"
    held = {"file": name, "checksums": sums}
    made = sealed(without_nan({**manifest, "format": FORMAT, "tensors": held}))
    text = json.dumps(made, indent=1, sort_keys=True) + "\n"
    long = f"the manifest of '{folder}' has {len(text):,} bytes, and {MOST:,} are read"
    require(len(text) <= MOST, long, "fit it again with fewer epochs, whose log the manifest holds")
    try:
        with _turn(target):
            try:
                _sweep(target)
                _replace(target / name, lambda file: write_tensors(file, tensors))
                _replace(target / NAME, lambda file: file.write(text.encode()))
            finally:
                _sweep(target)
    except OSError as error:
        raise AleatorError(
            f"the model could not be saved to '{folder}' ({error})", "make room there or save to another place"
        ) from None


def _replace(target: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a file under another name, wait until it is on the disk, and rename it."""
    part = target.with_name(target.name + _PART)
    with part.open("xb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(target)
    _settle(target.parent)


def read(folder: Path_, verify: bool = True) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The manifest of a folder in the present format, and its tensors, which are mapped into memory.

    `verify` compares each tensor with its checksum. A damaged manifest is always refused.
    """
    manifest = read_manifest(folder)
    while True:
        try:
            tensors = map_tensors(Path(folder) / tensor_file(manifest))
            break
        except UNREADABLE as error:
            before, manifest = manifest, read_manifest(folder)
            if manifest == before:
                raise damaged(folder, error) from None
            # A writer replaced the folder between the two files. The new manifest names other tensors.
    if "tensors" in manifest:
        sums = manifest["tensors"]["checksums"]
        if sums.keys() != tensors.keys():
            raise damaged(folder, "its tensors are not those of its manifest")
        differ = [name for name in sums if verify and checksum(tensors[name]) != sums[name]]
        if differ:
            raise damaged(folder, f"the checksum of {differ[0]} differs")
    try:
        return upgrade(manifest), tensors
    except UNREADABLE as error:
        raise damaged(folder, error) from None


def check_target(folder: Path_) -> Path:
    """Where to write, without symlinks. Callers ask before a long training whether a folder can be written, not after.

    A folder is refused if it holds other files than ours.
    """
    target = Path(os.path.realpath(as_path(folder)))
    if target.exists():
        require(_is_ours(target), f"'{folder}' exists and is not a model folder", "save to another place")
    require_writable(target)
    return target


def _is_ours(folder: Path) -> bool:
    """Whether a folder holds a model, or what a killed writer left, and nothing else."""
    try:
        names = {file.name for file in folder.iterdir()}
        if NAME in names:
            regular(folder / NAME)
        ours = NAME not in names or "format" in json.loads((folder / NAME).read_bytes())
        return ours and all(_OURS.fullmatch(name) for name in names)
    except (OSError, ValueError, TypeError, RecursionError):
        return False


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Inside, nobody else writes the folder. It is made if need be, and removed if it is new and still empty."""
    new = not folder.exists()
    held = _lock(folder)
    try:
        yield
    finally:
        if new:
            with suppress(OSError):
                folder.rmdir()
        if held is not None and sys.platform != "win32":
            fcntl.flock(held, fcntl.LOCK_UN)  # a child that was forked meanwhile would hold it on
            os.close(held)


def _lock(folder: Path) -> int | None:
    """Make the folder and lock it. Returns its descriptor. On systems without such locks, writers take no turns."""
    last = time.monotonic() + _PATIENCE
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        if sys.platform == "win32":
            return None
        held = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            told = f"another process has been writing '{folder}' for {_PATIENCE:.0f} seconds"
            require(time.monotonic() < last, told, "end it, or save to another place")
            time.sleep(0.05)
            continue
        except OSError:
            return held
        if folder.exists() and os.path.samestat(os.fstat(held), folder.stat()):
            return held
        os.close(held)  # the writer that we waited for made the folder, failed and removed it


def _settle(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can tell."""
    if sys.platform == "win32":
        return
    held = os.open(folder, os.O_RDONLY)
    with suppress(OSError):
        os.fsync(held)
    os.close(held)


def _sweep(folder: Path) -> None:
    """Remove what killed writers left: parts of files, and tensors that the manifest does not name."""
    named = None
    if (folder / NAME).exists():
        try:
            named = tensor_file(read_manifest(folder))
        except AleatorError:  # of a later version, or damaged: we cannot tell what belongs to it
            return
    for file in folder.iterdir():
        if file.name not in (NAME, named) and _OURS.fullmatch(file.name):
            with suppress(OSError):
                file.unlink()
