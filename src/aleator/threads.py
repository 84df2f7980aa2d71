"""How threads wait for each other. This is set before PyTorch loads OpenMP, so it needs no PyTorch itself."""

from __future__ import annotations

import os


def wait_passively() -> None:
    """Let threads of OpenMP sleep while they wait, unless the environment says otherwise.

    By default they spin. Two fits that share the cores of a machine then steal each other's time, and each takes many
    times as long. OpenMP reads the variable once, when it is loaded: `import aleator` must come before `import torch`.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
