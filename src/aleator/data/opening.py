"""Opening data by what a person types: a name of the catalogue, a folder of parts, or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aleator.data import catalog
from aleator.data.formats import read
from aleator.data.interactions import Interactions
from aleator.data.splits import Split
from aleator.errors import AleatorError, require
from aleator.paths import as_path

PARTS = ("train", "valid", "test")


def open_dataset(name: str, root: Path | None, **reading: Any) -> Split | Interactions:
    """Open a dataset of the catalogue, a folder of parts, or a file.

    Args:
        name: Name in the catalogue, folder with files named train, test and maybe valid, or file of interactions. With
            `on_disk`, a folder is one of parquet files that are read together.
        root: Folder with datasets of the catalogue.
        **reading: Options of `read`. They do not apply to datasets of the catalogue.

    Returns:
        A `Split` for the catalogue and for a folder, `Interactions` for a file.
    """
    if name in catalog.names():
        asked = any(value is not None for value in reading.values())
        require(not asked, f"'{name}' is a benchmark with a fixed split", "clean a file of your own instead")
        return catalog.load_dataset(name, root)
    path = as_path(name)
    if path.is_dir() and reading.get("on_disk") is None:
        return _open_folder(path, reading)
    if path.exists():
        return read(path, **reading)
    known = ", ".join(catalog.names())
    raise AleatorError(f"'{name}' is neither a name in the catalogue nor a file", f"known names: {known}")


def open_file(name: str, **reading: Any) -> Interactions:
    """Open a file of interactions that are not split yet. A dataset that is split is an error."""
    opened = open_dataset(name, None, **reading)
    if not isinstance(opened, Interactions):
        raise AleatorError(f"'{name}' is split already", "give a file of interactions")
    return opened


def open_split(name: str, root: Path | None, **reading: Any) -> Split:
    """Open a dataset that has a test part. A file without one is an error."""
    opened = open_dataset(name, root, **reading)
    if not isinstance(opened, Split):
        raise AleatorError(f"'{name}' has no test part", "make one with `aleator data split`")
    return opened


def _open_folder(folder: Path, reading: dict[str, Any]) -> Split:
    files = {file.stem: file for file in sorted(folder.iterdir()) if file.stem in PARTS}
    require(
        {"train", "test"} <= files.keys(),
        f"the folder '{folder}' has no train and test files",
        "make them with `aleator data split`",
    )
    require(reading.get("k_core") is None, f"'{folder}' is split already", "use k_core before splitting")
    parts = {part: read(file, **reading) for part, file in files.items()}
    return Split.of(parts["train"], parts["test"], parts.get("valid"), name=folder.name)
