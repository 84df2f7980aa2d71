"""The manifest: strict JSON, whose own checksum shows every change of its content."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from aleator import checkpoint
from aleator.checkpoint.checks import Figure, typed
from aleator.checkpoint.manifest import without_nan
from aleator.errors import AleatorError
from tests.folders import manifest_of, put_manifest

MADE = {"kind": "Thing", "learned": {"lam": 0.25, "name": "ünïcode ☃", "rows": [1, 2]}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    checkpoint.write(tmp_path / "model", MADE, {"model.x": torch.zeros(3)})
    return tmp_path / "model"


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]",
        "null",
        "{}",
        '{"manifest_version": 3}',
        '{"format": 1, "format": 2, "kind": "MF"}',
        '{"format": 1, "kind": "MF", "lam": NaN}',
        '{"format": 1, "kind": "MF", "lam": -Infinity}',
        '{"format": 1, "kind": "MF", "lam": 1e999}',
        '{"format": 1, "kind": "MF", "lam": ' + "9" * 5000 + "}",
        '{"format": 1, "kind": "MF", "lam": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"format": ' + "9" * 400 + "}",
        '{"format": 1, "kind": "MF"}' + " " * (5 << 20),
        '{"format": 1, "kind": "MF", "x": [' + "{}," * 300_000 + "0]}",
    ],
)
def test_what_is_no_manifest_is_refused(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(AleatorError, match=r"damaged or foreign|has format") as caught:
        checkpoint.read_manifest(folder)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b'{"format": 5, "kind": "\xe9"}', b"\xef\xbb\xbf{}"])
def test_a_manifest_that_is_no_text_is_refused(folder: Path, content: bytes) -> None:
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(AleatorError, match="damaged or foreign"):
        checkpoint.read_manifest(folder)


def test_a_flipped_bit_is_seen_in_every_byte(folder: Path) -> None:
    """Spaces between the parts may become other spaces: the content is then the same."""
    path = folder / "manifest.json"
    whole = path.read_bytes()
    meant = checkpoint.read_manifest(folder)
    refused = 0
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            assert checkpoint.read_manifest(folder) == meant
        except AleatorError:
            refused += 1
    assert refused > 0.9 * len(whole)


def test_the_form_of_the_text_does_not_count(folder: Path) -> None:
    manifest = manifest_of(folder)
    shuffled = dict(reversed(manifest.items()))
    (folder / "manifest.json").write_text(json.dumps(shuffled, indent=7, ensure_ascii=False))
    assert checkpoint.read_manifest(folder) == manifest
    put_manifest(folder, manifest | {"kind": "Other"})
    assert checkpoint.read_manifest(folder)["kind"] == "Other"


def test_a_folder_of_a_later_version_says_so(folder: Path) -> None:
    put_manifest(folder, manifest_of(folder) | {"format": checkpoint.FORMAT + 1})
    with pytest.raises(AleatorError, match=f"has format {checkpoint.FORMAT + 1}.*reads formats 1 to"):
        checkpoint.read_manifest(folder)


def test_nan_is_written_as_null_and_read_as_nan() -> None:
    kept = without_nan({"a": [math.nan, 1.5], "b": (math.nan, "x", None)})
    assert json.dumps(kept, allow_nan=False) == '{"a": [null, 1.5], "b": [null, "x", null]}'
    read = typed(list[Figure], kept["a"], "a")
    assert math.isnan(read[0])
    assert read[1] == 1.5


def test_a_manifest_that_could_not_be_read_again_is_not_written(folder: Path) -> None:
    before = (folder / "manifest.json").read_bytes()
    with pytest.raises(AleatorError, match=r"the manifest of .* bytes, and 4,194,304 are read"):
        checkpoint.write(folder, {"kind": "Thing", "log": ["x" * 1000] * 5000}, {"model.x": torch.zeros(3)})
    assert (folder / "manifest.json").read_bytes() == before
