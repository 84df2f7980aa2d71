"""How threads wait: set by `import aleator` before PyTorch loads OpenMP, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import aleator as al
from aleator.threads import SPINS

PROGRAM = """
import os, sys

class Watch:  # asked for every module before it is found
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("GOMP_SPINCOUNT"))
            sys.stdout.flush()
            os._exit(0)

sys.meta_path.insert(0, Watch())
import aleator
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, str(SPINS)), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")],
)
def test_threads_spin_briefly_unless_the_environment_says_how_they_wait(given: dict[str, str], expected: str) -> None:
    """The process ends where torch would be imported, so it also shows that torch comes after the setting."""
    ours = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment |= {"PYTHONPATH": str(Path(al.__file__).parents[1])} | given
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.strip() == expected, done.stderr
