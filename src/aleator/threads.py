"""Threads: how many there are, how they wait for each other, and what a forked process does without them.

This is set before PyTorch loads OpenMP, so it needs no PyTorch itself.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection
from pathlib import Path

from aleator import cgroups

SPINS = 1000  # some 50 microseconds: longer than most gaps between two parallel loops of a fit
VARIABLE = "OMP_NUM_THREADS"
_limited = False  # whether `limit_threads` set the variable


def spin_briefly() -> None:
    """Let threads of GNU OpenMP sleep soon while they wait, unless the environment says how they wait.

    By default they spin for milliseconds. Two fits on the same cores then steal each other's time, and each takes many
    times as long. Sleeping at once would slow a single fit down. OpenMP reads the variable once, when it is loaded: the
    setting has no effect if `import torch` comes before `import aleator`.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))


def limit_threads(machine: Path = cgroups.MACHINE) -> None:
    """Let OpenMP take no more threads than the CPU quota of a container allows, unless the environment says how many.

    OpenMP and PyTorch see the cores that a process may run on, and no quota. With more threads than the quota allows, the
    kernel stops all of them for a part of the time, and they wait for each other. Without a quota, nothing is set.
    """
    global _limited
    if VARIABLE in os.environ or cgroups.processors(machine) is None:
        return
    threads = min(cores(machine), _physical(machine))
    os.environ[VARIABLE], _limited = str(threads), True
    torch = sys.modules.get("torch")
    if torch is not None:  # then OpenMP is loaded, and has read the variable
        torch.set_num_threads(min(torch.get_num_threads(), threads))


def cores(machine: Path = cgroups.MACHINE) -> int:
    """How many cores this process can keep busy: those that it may run on, but no more than its CPU quota, rounded up."""
    quota, allowed = cgroups.processors(machine), len(_allowed())
    return allowed if quota is None else min(allowed, math.ceil(quota))


def _allowed() -> Collection[int]:
    """The numbers of the cores that this process may run on."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _physical(machine: Path) -> int:
    """The same cores, where a core that runs two threads at a time counts once. More threads make PyTorch no faster."""
    place = machine / "sys/devices/system/cpu"
    return len({_siblings(place / f"cpu{number}/topology/thread_siblings_list", number) for number in _allowed()})


def _siblings(file: Path, number: int) -> str:
    try:
        return file.read_text()
    except OSError:
        return str(number)


def reason() -> str:
    """Where the number of threads comes from."""
    if _limited:
        return f"the CPU quota of the container; {VARIABLE} sets another number"
    return f"{VARIABLE} in the environment" if VARIABLE in os.environ else "the cores"


def one_thread_after_fork() -> None:
    """Let PyTorch compute with one thread in every process that is forked from this one.

    The threads of OpenMP do not come along into a forked process, but GNU OpenMP waits for them there as soon as a
    computation is shared out: for ever, if the parent has used them. With one thread nothing is shared out. That is also
    what a server wants that starts a process for each core.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_one_thread)


def _one_thread() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
