"""Model folders in tests: their files, and edits of a manifest that keep its checksum right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from aleator import checkpoint


def files_of(folder: Path) -> dict[str, bytes]:
    """The content of each file of a folder, by its name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def tensors_of(folder: Path) -> Path:
    """The file of tensors of a folder."""
    (found,) = folder.glob("tensors*.safetensors")
    return found


def manifest_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def put_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write a manifest with the right checksum, as if `save` had written it."""
    (folder / "manifest.json").write_text(json.dumps(checkpoint.sealed(dict(manifest))))


def as_of_format(folder: Path, number: int, manifest: Mapping[str, Any]) -> None:
    """Write a manifest of an earlier format, before there were checksums. The tensors move to the file that it had."""
    older = {name: value for name, value in manifest.items() if name not in ("tensors", "checksum")}
    (folder / "manifest.json").write_text(json.dumps(older | {"format": number}))
    tensors = load_file(tensors_of(folder))
    tensors_of(folder).unlink()
    save_file({n: v for n, v in tensors.items() if not n.startswith("_fill.")}, folder / "tensors.safetensors")
