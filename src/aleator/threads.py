"""How threads wait for each other. This is set before PyTorch loads OpenMP, so it needs no PyTorch itself."""

from __future__ import annotations

import os

SPINS = 1000  # some 50 microseconds: longer than most gaps between two parallel loops of a fit


def spin_briefly() -> None:
    """Let threads of GNU OpenMP sleep soon while they wait, unless the environment says how they wait.

    By default they spin for milliseconds. Two fits on the same cores then steal each other's time, and each takes many
    times as long. Sleeping at once would slow a single fit down. OpenMP reads the variable once, when it is loaded: the
    setting has no effect if `import torch` comes before `import aleator`.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
