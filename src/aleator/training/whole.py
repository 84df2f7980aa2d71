"""Files of tensors that are whole or not there. The name of a file holds the checksum of its content."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from shutil import rmtree
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

ENDING = ".safetensors"
UNFINISHED = "unfinished"  # the folder of files that are being written; safetensors has temporary ones of its own
Content = tuple[dict[str, Any], dict[str, Tensor]]  # facts for JSON, and tensors by name


def write(folder: Path, name: str, facts: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    """Write a file and give it its name once it is on the disk. Raises `OSError`, and then leaves nothing behind."""
    made = folder / UNFINISHED / name
    own = {key: value.detach().cpu() for key, value in tensors.items()}
    strides = {key: value.stride() for key, value in own.items() if not value.is_contiguous()}
    told = json.dumps({"facts": facts, "strides": strides})
    try:
        made.parent.mkdir(exist_ok=True)
        try:
            save_file({key: value.contiguous() for key, value in own.items()}, made, {"told": told})
        except SafetensorError as error:  # it wraps those of the system
            raise OSError(str(error)) from None
        with made.open("rb+") as file:
            os.fsync(file.fileno())
        target = folder / f"{name}-{_checksum(made)}{ENDING}"
        made.replace(target)
    finally:
        clean(folder)
    return target


def clean(folder: Path) -> None:
    """Delete what writes that were killed have left."""
    rmtree(folder / UNFINISHED, ignore_errors=True)


def read(path: Path) -> Content | None:
    """What `write` was given, or None if the file is damaged. Tensors have the strides that they had, in fresh memory."""
    try:
        if _checksum(path) != path.name.removesuffix(ENDING).rpartition("-")[2]:
            return None
        with safe_open(path, "pt") as file:
            told = json.loads((file.metadata() or {})["told"])
            if not (isinstance(told["facts"], dict) and isinstance(told["strides"], dict)):
                raise ValueError
            found = {key: _fresh(file.get_tensor(key), told["strides"].get(key)) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, RuntimeError, RecursionError):
        return None
    return told["facts"], found


def _fresh(value: Tensor, stride: list[int] | None) -> Tensor:
    """A copy. Memory that a file is mapped to may be unaligned, and products then differ in the last bit."""
    made = torch.empty_strided(value.shape, stride, dtype=value.dtype) if stride else torch.empty_like(value)
    if made.untyped_storage().nbytes() > value.untyped_storage().nbytes():  # strides only order the same numbers
        raise ValueError
    return made.copy_(value)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]
