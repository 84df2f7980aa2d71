"""One JSON line for each result that was really obtained, with what is needed to obtain it again."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch

from aleator.device import resolve_device
from aleator.version import __version__


def machine(device: str = "auto") -> dict[str, Any]:
    """What the figures were obtained on."""
    used = resolve_device(device)
    device = torch.cuda.get_device_name(used) if used.type == "cuda" else "no GPU"
    return {"cores": os.cpu_count(), "device": device, "system": platform.system(), "processor": platform.machine()}


def versions() -> dict[str, str]:
    """Of Python and the libraries that compute."""
    return {
        "aleator": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def command() -> str:
    """The command line of this process, as a person would type it."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    start = f"python -m {module.name}" if module is not None and module.name else Path(sys.argv[0]).name
    return " ".join([start, *map(shlex.quote, sys.argv[1:])])


@dataclass
class Peak:
    """The most memory that was in use: of the GPU where there is one, of the process otherwise."""

    bytes: int | None = None


@contextmanager
def peak(device: str = "auto") -> Iterator[Peak]:
    """Measures the memory of what happens inside; None where the system does not tell."""
    found, where = Peak(), resolve_device(device)
    status = Path("/proc/self/status")
    if where.type == "cuda":
        torch.cuda.reset_peak_memory_stats(where)
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    yield found
    if where.type == "cuda":
        found.bytes = torch.cuda.max_memory_allocated(where)
    elif status.exists() and (line := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        found.bytes = int(line[1]) << 10


def read(path: Path) -> list[dict[str, Any]]:
    """All records of a file; none where there is no file. A line that was cut off in writing is left out."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        with suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def append(path: Path, record: dict[str, Any]) -> None:
    """One more line, whole even after one that was cut off, or while others write to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+", buffering=0) as file:  # what is appended by one call stays together
        if torn := file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            torn = file.read(1) != b"\n"
        file.write((b"\n" if torn else b"") + json.dumps(_plain(record), allow_nan=False, default=str).encode() + b"\n")


def _plain(value: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    if isinstance(value, dict):
        return {name: _plain(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
