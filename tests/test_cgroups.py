"""Control groups: quotas and limits from folders with the files of Linux."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from aleator import cgroups
from aleator.cgroups import Memory

GIB = 1 << 30


def put(machine: Path, own: str, **groups: Mapping[str, object]) -> Path:
    """The files of a machine: what /proc/self/cgroup says, and the files of each group by its folder, with _ for /."""
    (machine / "proc/self").mkdir(parents=True)
    (machine / "proc/self/cgroup").write_text(own)
    for place, files in groups.items():
        folder = machine / "sys/fs/cgroup" / place.replace("_", "/")
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_text(f"{content}\n")
    return machine


def stat(active: int, inactive: int, prefix: str = "") -> str:
    return f"anon 1\n{prefix}inactive_file {inactive}\n{prefix}active_file {active}\nshmem 5"


def test_a_machine_without_groups_limits_nothing(tmp_path: Path) -> None:
    assert cgroups.processors(tmp_path) is None
    assert cgroups.memory(tmp_path) is None


@pytest.mark.parametrize(("told", "quota"), [("max 100000", None), ("250000 100000", 2.5), ("50000 100000", 0.5)])
def test_the_quota_of_version_2(told: str, quota: float | None, tmp_path: Path) -> None:
    machine = put(tmp_path, "0::/\n", **{"": {"cpu__max": told}})
    assert cgroups.processors(machine) == quota


@pytest.mark.parametrize(("told", "quota"), [(-1, None), (300000, 3.0)])
def test_the_quota_of_version_1(told: int, quota: float | None, tmp_path: Path) -> None:
    own = "5:memory:/\n4:cpuacct,cpu:/docker/abc\n0::/\n"
    files = {"cpu__cfs_quota_us": told, "cpu__cfs_period_us": 100000}
    assert cgroups.processors(put(tmp_path, own, cpu_docker_abc=files)) == quota


def test_the_lowest_quota_on_the_way_up_holds(tmp_path: Path) -> None:
    groups = {
        "": {"cpu__max": "max 100000"},
        "pod": {"cpu__max": "150000 100000"},
        "pod_inner": {"cpu__max": "400000 100000"},
        "other": {"cpu__max": "10000 100000"},  # of others
    }
    assert cgroups.processors(put(tmp_path, "0::/pod/inner\n", **groups)) == 1.5


@pytest.mark.parametrize("own", ["0::/system.slice/docker-abc.scope\n", "0::/../../abc\n"])
def test_a_container_that_sees_its_own_group_at_the_top(own: str, tmp_path: Path) -> None:
    assert cgroups.processors(put(tmp_path, own, **{"": {"cpu__max": "200000 100000"}})) == 2


def test_the_memory_of_version_2_counts_cached_files_as_free(tmp_path: Path) -> None:
    files = {"memory__max": 4 * GIB, "memory__current": 3 * GIB, "memory__stat": stat(GIB // 2, GIB)}
    assert cgroups.memory(put(tmp_path, "0::/\n", **{"": files})) == Memory(4 * GIB, 4 * GIB - 3 * GIB // 2)


def test_the_memory_of_version_1_counts_those_of_inner_groups_too(tmp_path: Path) -> None:
    told = stat(0, 7) + "\n" + stat(GIB, GIB, "total_")
    files = {"memory__limit_in_bytes": 4 * GIB, "memory__usage_in_bytes": 3 * GIB, "memory__stat": told}
    own = "4:memory:/docker/abc\n1:cpu:/\n"
    assert cgroups.memory(put(tmp_path, own, memory_docker_abc=files)) == Memory(4 * GIB, 3 * GIB)


def test_a_limit_further_up_holds_and_so_does_what_others_take_there(tmp_path: Path) -> None:
    groups = {
        "pod": {"memory__max": 6 * GIB, "memory__current": 5 * GIB, "memory__stat": stat(0, 0)},
        "pod_inner": {"memory__max": 4 * GIB, "memory__current": GIB, "memory__stat": stat(0, 0)},
    }
    assert cgroups.memory(put(tmp_path, "0::/pod/inner\n", **groups)) == Memory(4 * GIB, GIB)


def test_more_in_use_than_the_limit_leaves_nothing(tmp_path: Path) -> None:
    files = {"memory__max": GIB, "memory__current": 2 * GIB, "memory__stat": stat(0, 0)}
    assert cgroups.memory(put(tmp_path, "0::/\n", **{"": files})) == Memory(GIB, 0)


def test_no_limit_and_files_that_cannot_be_read_limit_nothing(tmp_path: Path) -> None:
    files = {"memory__max": "max", "memory__current": 5, "memory__stat": "", "cpu__max": "of what"}
    machine = put(tmp_path, "0::/\nno line\n", **{"": files})
    assert cgroups.memory(machine) is None
    assert cgroups.processors(machine) is None
