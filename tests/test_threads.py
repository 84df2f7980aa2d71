"""How threads wait: set by `import aleator` before PyTorch loads OpenMP, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import aleator as al

PROGRAM = """
import os, sys

class Watch:  # asked for every module before it is found
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("OMP_WAIT_POLICY"))
            sys.stdout.flush()
            os._exit(0)

sys.meta_path.insert(0, Watch())
import aleator
"""


@pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_wait_passively_when_torch_is_imported_unless_told_otherwise(given: str | None, expected: str) -> None:
    """The process ends where torch would be imported, so it also shows that torch comes after the setting."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {"PYTHONPATH": str(Path(al.__file__).parents[1])}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.strip() == expected, done.stderr
