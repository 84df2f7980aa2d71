"""The manifest of an export: which model it was made from, and what a client has to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from aleator.errors import AleatorError, require
from aleator.version import __version__

if TYPE_CHECKING:
    from aleator.checkpoint import Path_
    from aleator.recommender import Recommender

FORMAT = 1
_FILE = "manifest.json"


class Index(NamedTuple):
    """What was written for a target."""

    kind: str  # of the index, and whether its lists are exact
    client: tuple[str, ...]  # what a client has to do
    version: str | None = None  # of the library that wrote it


def write_manifest(folder: Path, index: Index, about: dict[str, Any], client: list[str]) -> dict[str, Any]:
    """Write the manifest, as the last file of an export. Returns it."""
    library = {} if index.version is None else {about["to"]: index.version}
    manifest = {
        "export": FORMAT,
        **about,
        "metric": "inner product",
        "index": index.kind,
        "client": [*index.client, *client],
        "files": sorted([file.name for file in folder.iterdir()] + [_FILE]),
        "versions": {"aleator": __version__, **library},
    }
    (folder / _FILE).write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def is_export(folder: Path) -> bool:
    """Whether a folder holds an export and nothing else. Replacing it then loses no other files."""
    try:
        kept = json.loads((folder / _FILE).read_text())
        return "export" in kept and {file.name for file in folder.iterdir()} <= set(kept["files"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return False


def check_export(folder: Path_, model: Recommender) -> dict[str, Any]:
    """Check that an export was made from this model. It is an error if the model was fitted again since.

    Args:
        folder: A folder that `export` wrote.
        model: The fitted recommender that makes the users' vectors.

    Returns:
        The manifest of the export.
    """
    try:
        manifest: dict[str, Any] = json.loads((Path(folder) / _FILE).read_text())
        written, made_from = manifest["export"], manifest["fingerprint"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise AleatorError(f"'{folder}' is not an export", "give a folder that aleator export wrote") from None
    require(
        written == FORMAT, f"'{folder}' has format {written!s:.60}", f"this version of aleator reads format {FORMAT}"
    )
    own = model.fingerprint
    told = (
        f"'{folder}' was made from another model: its fingerprint is {made_from!s:.60}, and that of this one is {own}"
    )
    require(made_from == own, told, "export this model again, or load the model that it was made from")
    return manifest
