"""Datasets by name or path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aleator.data import catalog
from aleator.data.formats import read
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.errors import AleatorError, require


def open_dataset(name: str, root: Path | None, **reading: Any) -> Split | Interactions:
    """A catalogue dataset, a folder of parts, or a file."""
    path = Path(name)
    if name in catalog.names():
        require(
            not any(v is not None for v in reading.values()),
            f"'{name}' is a benchmark that is ready as it is",
            "clean files of your own instead",
        )
        return catalog.load_dataset(name, root)
    if path.is_dir():
        parts = {p.stem: p for p in sorted(path.iterdir()) if p.stem in ("train", "valid", "test")}
        require(
            {"train", "test"} <= parts.keys(),
            f"the folder '{name}' has no train and test files",
            "make them with `aleator data split`",
        )
        require(reading.get("k_core") is None, f"'{name}' is split already", "clean before splitting")
        loaded = {part: read(file, **reading) for part, file in parts.items()}
        return Split.of(loaded["train"], loaded["test"], loaded.get("valid"), name=path.name)
    if path.exists():
        return read(path, **reading)
    known = ", ".join(catalog.names())
    raise AleatorError(f"'{name}' is neither a catalogue name nor a file", f"known names: {known}")


def open_file(name: str, **reading: Any) -> Interactions:
    """The interactions of a file, not split yet."""
    opened = open_dataset(name, None, **reading)
    if not isinstance(opened, Interactions):
        raise AleatorError(f"'{name}' is split already", "give a file of interactions")
    return opened


def open_split(name: str, root: Path | None, **reading: Any) -> Split:
    """A dataset with a test part."""
    opened = open_dataset(name, root, **reading)
    if not isinstance(opened, Split):
        raise AleatorError(f"'{name}' has no test part", "make one with `aleator data split`")
    return opened
