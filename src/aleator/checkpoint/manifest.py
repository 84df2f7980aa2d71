"""The manifest of a folder: strict JSON, with a checksum of its own content and the checksums of all tensors."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from pathlib import Path
from typing import Any

from aleator.checkpoint.formats import FORMAT
from aleator.errors import AleatorError, require
from aleator.paths import as_path

NAME = "manifest.json"
EARLIER = "tensors.safetensors"  # the file of tensors before format 5
NAMED = re.compile(r"tensors-[0-9a-f]{16}\.safetensors")  # the same from format 5 on: it is named by its content
MOST = 4 << 20  # bytes that are read; a manifest has some thousands
_VALUES = 200_000  # values that are read: a thousand epochs have some thousands, and a value takes up to 72 bytes
_AGAIN = "give a folder that save or `aleator fit` wrote"
Path_ = str | os.PathLike[str]


def damaged(folder: Path_, error: Exception | str) -> AleatorError:
    """The error for a folder that cannot be understood."""
    reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    if len(reason) > 300:
        reason = f"{reason[:300]}..."
    return AleatorError(f"'{folder}' is damaged or foreign ({reason})", _AGAIN)


def sealed(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with the checksum of all its other content."""
    content = {name: value for name, value in manifest.items() if name != "checksum"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return {**content, "checksum": hashlib.sha256(text.encode()).hexdigest()}


def without_nan(value: Any) -> Any:
    """A value for JSON, with null in place of NaN, which JSON does not have. `checks.Figure` reads it back."""
    if isinstance(value, dict):
        return {name: without_nan(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def tensor_file(manifest: dict[str, Any]) -> str:
    """The name of the file of tensors that belongs to a manifest."""
    return str(manifest["tensors"]["file"]) if "tensors" in manifest else EARLIER


def read_manifest(folder: Path_) -> dict[str, Any]:
    """The manifest of a folder, in the format that it was written in."""
    try:
        raw = _read(as_path(folder) / NAME)
    except (FileNotFoundError, NotADirectoryError):
        raise AleatorError(f"'{folder}' is not a model folder", _AGAIN) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise damaged(folder, error) from None
    try:
        manifest = json.loads(
            raw.decode(), parse_constant=_refused, parse_float=_finite, object_pairs_hook=_without_repeats
        )
    except (ValueError, RecursionError) as error:
        raise damaged(folder, error) from None
    if not isinstance(manifest, dict) or type(manifest.get("format")) is not int:
        raise damaged(folder, "its manifest has no format")
    written = manifest["format"]
    known = 1 <= written <= FORMAT
    require(known, f"'{folder}' has format {written}", f"this version of aleator reads formats 1 to {FORMAT}")
    _check(folder, manifest)
    return manifest


def _check(folder: Path_, manifest: dict[str, Any]) -> None:
    """Refuse a manifest that was changed, or that has no kind or no tensors."""
    if not isinstance(manifest.get("kind"), str):
        raise damaged(folder, "its manifest has no kind")
    if "checksum" not in manifest and manifest["format"] < 5:
        return
    if manifest != sealed(manifest):
        raise damaged(folder, "its manifest was changed after it was written")
    tensors = manifest.get("tensors")
    if not (
        isinstance(tensors, dict)
        and isinstance(tensors.get("file"), str)
        and NAMED.fullmatch(tensors["file"])
        and isinstance(tensors.get("checksums"), dict)
    ):
        raise damaged(folder, "its manifest names no tensors")


def regular(path: Path) -> None:
    """Refuse what is not a plain file: to open a FIFO would wait forever, and a device may have no end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"'{path.name}' is not a file")


def _read(path: Path) -> bytes:
    regular(path)
    with path.open("rb") as file:
        raw = file.read(MOST + 1)
    if len(raw) > MOST:
        raise OSError(f"'{path.name}' has more than {MOST:,} bytes")
    if sum(raw.count(mark) for mark in (b",", b"[", b"{")) > _VALUES:
        raise OSError(f"'{path.name}' has more than {_VALUES:,} values")
    return raw


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found
