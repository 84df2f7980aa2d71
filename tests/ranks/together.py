"""Processes that fit together in a test, and what they do. They meet by a file, and listen on the loopback alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """The environment of such a process."""
    own = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR")}
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    return own | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": "lo"} | more


def start(job: str, size: int, folder: Path, **options: Any) -> list[subprocess.Popen[str]]:
    """Start `size` processes that each do a job of jobs.py."""
    told = json.dumps(options | {"folder": str(folder)})
    script = str(Path(__file__).with_name("jobs.py"))
    return [
        subprocess.Popen(
            [sys.executable, script, job, str(rank), str(size), told],
            env=environment(),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def run(job: str, size: int, folder: Path, **options: Any) -> list[Any]:
    """What each of `size` processes found."""
    folder.mkdir(exist_ok=True)
    found = []
    for process in start(job, size, folder, **options):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        found.append(json.loads(out.splitlines()[-1]))
    return found
