"""Folders of any files that appear whole: they are written beside their place, and then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aleator.checkpoint.manifest import Path_
from aleator.errors import require
from aleator.paths import as_path


def check_folder(folder: Path_, kind: str, is_older: Callable[[Path], bool]) -> None:
    """Refuse a place where no folder can be written, or where other files are than those of an older one."""
    target = as_path(folder)
    if target.exists():
        free = is_older(target) or (target.is_dir() and not any(target.iterdir()))
        require(free, f"'{target}' exists and is not {kind}", "save to another place")
    require_writable(target.absolute().parent)


def require_writable(place: Path) -> None:
    """Refuse a place below which nothing can be written."""
    above = next(folder for folder in (place, *place.parents) if folder.exists())
    writable = above.is_dir() and os.access(above, os.W_OK | os.X_OK)
    require(writable, f"nothing can be written below '{above}'", "save to another place")


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target` to write into. If nothing fails, it takes the place of `target`."""
    made = old = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        yield made
        made.chmod(0o755)
        old = made.with_name(made.name + ".old")
        if target.exists():
            target.rename(old)
        made.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        if old is not None and old.exists() and not target.exists():
            os.replace(old, target)  # it was stopped between the two renames
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
