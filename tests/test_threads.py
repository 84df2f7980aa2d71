"""How threads wait, and how many there are: set by `import aleator` before PyTorch loads OpenMP."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import aleator as al
from aleator import threads
from aleator.threads import SPINS, VARIABLE, cores, limit_threads, reason
from tests.test_cgroups import put

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
aleator.AUR
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


def machine(folder: Path, quota: str) -> Path:
    """Eight processors, two on each core, and a quota."""
    made = put(folder, "0::/\n", **{"": {"cpu__max": quota}})
    for number in range(8):
        topology = made / f"sys/devices/system/cpu/cpu{number}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{number % 4},{number % 4 + 4}\n")
    return made


@pytest.fixture
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may run on eight processors, and whose environment says no number of threads."""
    monkeypatch.setattr(threads, "_allowed", lambda: range(8))
    monkeypatch.setattr(threads, "_limited", False)
    monkeypatch.setenv(VARIABLE, "")  # so that what the test sets is undone
    monkeypatch.delenv(VARIABLE)


@pytest.mark.usefixtures("eight")
@pytest.mark.parametrize(
    ("quota", "expected", "busy"),
    [("250000 100000", "3", 3), ("50000 100000", "1", 1), ("600000 100000", "4", 6), ("9900000 100000", "4", 8)],
    ids=["rounded up", "less than one", "more than the cores", "more than the processors"],
)
def test_a_quota_limits_the_threads(quota: str, expected: str, busy: int, tmp_path: Path) -> None:
    limit_threads(machine(tmp_path, quota))
    assert os.environ[VARIABLE] == expected
    assert reason().startswith("the CPU quota")
    assert cores(tmp_path) == busy


@pytest.mark.usefixtures("eight")
def test_without_a_quota_pytorch_decides(tmp_path: Path) -> None:
    limit_threads(machine(tmp_path, "max 100000"))
    assert VARIABLE not in os.environ
    assert reason() == "the cores"
    assert cores(tmp_path) == 8


@pytest.mark.usefixtures("eight")
def test_the_environment_has_the_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "7")
    limit_threads(machine(tmp_path, "200000 100000"))
    assert os.environ[VARIABLE] == "7"
    assert reason() == f"{VARIABLE} in the environment"


@pytest.mark.usefixtures("eight")
def test_pytorch_that_was_imported_before_is_limited_too_and_never_raised(tmp_path: Path) -> None:
    place = machine(tmp_path, "200000 100000")
    try:
        for before, after in ((3, 2), (1, 1)):
            torch.set_num_threads(before)
            os.environ.pop(VARIABLE, None)
            limit_threads(place)
            assert torch.get_num_threads() == after
    finally:
        torch.set_num_threads(1)
