"""Control groups of Linux: what a container or a service manager lets this process have of the machine.

Every group on the way from that of the process up to the first one holds. Version 2 and version 1 are read. A file that
is not there limits nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MACHINE = Path("/")  # tests have a folder with the same files


class Memory(NamedTuple):
    """What the groups leave, in bytes."""

    limit: int  # the lowest of the limits
    free: int  # what a process may still take. Cached files count as free: the kernel drops them first.


def processors(machine: Path = MACHINE) -> float | None:
    """How many processors' time this process may use. None if there is no quota."""
    quotas = []
    for group in _groups("cpu", machine):
        with suppress(OSError, ValueError, ZeroDivisionError):  # "max" is no number
            quota, period = (group / "cpu.max").read_text().split()
            quotas.append(int(quota) / int(period))
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            quotas.append(int(quota) / int(period))
    return min((quota for quota in quotas if quota > 0), default=None)  # -1 is no quota


def memory(machine: Path = MACHINE) -> Memory | None:
    """The memory that the groups leave to this process. None if no file says a limit."""
    found = []
    for group in _groups("memory", machine):
        for limit_file, used_file, total in (
            ("memory.max", "memory.current", ""),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),  # the plain counts leave out inner groups
        ):
            with suppress(OSError, ValueError):
                limit, used = (int((group / name).read_text()) for name in (limit_file, used_file))
                lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
                cached = (f"{total}active_file", f"{total}inactive_file")
                used -= sum(int(count) for name, count in lines if name in cached)
                found.append(Memory(limit, min(max(limit - used, 0), limit)))
    return Memory(*map(min, zip(*found, strict=True))) if found else None


def _groups(controller: str, machine: Path) -> Iterator[Path]:
    """The folders of the groups that this process is in, from its own one upwards.

    A container may see its own group at the top, under a path that is that of the host. So the top is always read.
    """
    with suppress(OSError, ValueError):
        for line in (machine / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            top = machine / "sys/fs/cgroup" / (controller if controllers else "")
            parts = [part for part in path.split("/") if part not in ("", "..")]
            yield from (top.joinpath(*parts[:n]) for n in range(len(parts), -1, -1))
