"""Threads: how they wait for each other, and what a forked process does without them.

This is set before PyTorch loads OpenMP, so it needs no PyTorch itself.
"""

from __future__ import annotations

import os
import sys

SPINS = 1000  # some 50 microseconds: longer than most gaps between two parallel loops of a fit


def spin_briefly() -> None:
    """Let threads of GNU OpenMP sleep soon while they wait, unless the environment says how they wait.

    By default they spin for milliseconds. Two fits on the same cores then steal each other's time, and each takes many
    times as long. Sleeping at once would slow a single fit down. OpenMP reads the variable once, when it is loaded: the
    setting has no effect if `import torch` comes before `import aleator`.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))


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
