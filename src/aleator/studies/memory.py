"""Peak: the most memory that a piece of work used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from aleator.device import resolve_device


@dataclass
class Peak:
    """The most memory in use: of the GPU where there is one, of the process otherwise."""

    bytes: int | None = None


@contextmanager
def peak(device: str = "auto") -> Iterator[Peak]:
    """Measures the memory of the work inside. It stays None where the system does not tell."""
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
