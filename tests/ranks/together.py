"""Processes that a test forks and that fit together. They meet by a file, and listen on the loopback alone."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch.distributed as dist

from aleator.errors import AleatorError
from aleator.ranks import here, join

Job = Callable[[Path], Any]


def start(job: Job, size: int, folder: Path, timeout: float = 60) -> list[BaseProcess]:
    """Fork `size` processes that each do the job in a folder, and write what it returns, or how it failed, to a file."""
    folder.mkdir(exist_ok=True, parents=True)
    store = folder / "store"
    store.unlink(missing_ok=True)
    made = [get_context("fork").Process(target=_do, args=(job, r, size, folder, store, timeout)) for r in range(size)]
    for process in made:
        process.start()
    return list(made)


def ended(processes: list[BaseProcess], folder: Path) -> list[Any]:
    """What each process wrote: {"found": what it returned} or {"error": ...}. None if it was killed."""
    for process in processes:
        process.join(100)
        assert process.exitcode is not None, "it hangs"
    files = [folder / f"{rank}.json" for rank in range(len(processes))]
    return [json.loads(file.read_text()) if file.exists() else None for file in files]


def run(job: Job, size: int, folder: Path) -> list[Any]:
    """What the job returned in each of `size` processes."""
    told = ended(start(job, size, folder), folder)
    assert all(each is not None and "found" in each for each in told), told
    return [each["found"] for each in told]


def _do(job: Job, rank: int, size: int, folder: Path, store: Path, timeout: float) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    if size > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=timedelta(seconds=timeout)
        )
        assert join() is here()
    try:
        told = {"found": job(folder)}
    except AleatorError as error:
        told = {"error": str(error)}
    except BaseException:
        told = {"bug": traceback.format_exc()}
    (folder / f"{rank}.json").write_text(json.dumps(told))
    os._exit(0 if "found" in told else 2)  # what pytest would do at exit is the parent's
