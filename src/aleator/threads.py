"""How threads wait for each other. This must be set before PyTorch loads OpenMP, so it cannot import PyTorch."""

from __future__ import annotations

import os


def wait_passively() -> None:
    """Let threads of OpenMP sleep while they wait, unless the environment says otherwise.

    By default they spin. Two fits that share the cores of a machine then slow each other down many times. OpenMP reads
    the variable once, when it is loaded: `import aleator` must come before `import torch`.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
