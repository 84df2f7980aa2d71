"""What the benchmark of Ray finds out about processes and folders. The benchmark itself runs for minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import batch_on_ray  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it finds workers in /proc")


def test_workers_are_found_among_the_descendants_by_their_title() -> None:
    worker = ["bash", "-c", "exec -a ray::_run sleep 60"]
    idle = ["bash", "-c", "exec -a ray::IDLE sleep 60"]
    script = (
        f"import subprocess\nfor words in ({worker}, {idle}):\n    subprocess.Popen(words)\nprint(flush=True)\ninput()"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    parent.stdout.readline()
    children = set(batch_on_ray.descendants(parent.pid))
    try:
        assert len(children) == 2
        while not batch_on_ray.at_work(parent.pid):  # until bash has become sleep
            pass
        (found,) = batch_on_ray.at_work(parent.pid)
        assert found in children
        assert parent.pid in batch_on_ray.descendants(os.getpid())
    finally:
        for child in children:
            os.kill(child, 9)
        parent.communicate(b"\n")


def test_what_a_process_has_alone_is_a_part_of_what_it_has() -> None:
    whole, own = batch_on_ray.memory_of(os.getpid())
    assert 10 < own <= whole
    assert batch_on_ray.memory_of(1 << 30) == (0.0, 0.0)


def test_the_pace_is_that_from_the_first_part_to_the_last(tmp_path: Path) -> None:
    for n, moment in enumerate((100, 101, 105)):
        (tmp_path / f"part-0000{n}.parquet").touch()
        os.utime(tmp_path / f"part-0000{n}.parquet", (moment, moment))
    assert batch_on_ray.between(tmp_path) == 2 / 5
