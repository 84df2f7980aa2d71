"""Locks: one process holds a file alone, and a kill unlocks it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import aleator
from aleator.locks import locked

HOLD = """
import sys
from pathlib import Path
import importlib.util
spec = importlib.util.spec_from_file_location("locks", {file!r})
locks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(locks)
with locks.locked(Path(sys.argv[1])) as mine:
    print(mine, flush=True)
    sys.stdin.read()
"""


def test_one_holder_at_a_time_and_no_file_afterwards(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with locked(file) as first, locked(file) as second:
        assert (first, second) == (True, False)
    with locked(file) as again:
        assert again
    assert not file.exists()


def test_shared_holders_keep_one_alone_out(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with locked(file, shared=True) as one, locked(file, shared=True) as two, locked(file) as alone:
        assert (one, two, alone) == (True, True, False)


def test_a_kill_unlocks(tmp_path: Path) -> None:
    package = Path(aleator.__file__).parent
    program = HOLD.format(file=str(package / "locks.py"))
    command = [sys.executable, "-c", program, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        with locked(tmp_path / "lock") as mine:
            assert not mine
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with locked(tmp_path / "lock") as mine:
        assert mine
