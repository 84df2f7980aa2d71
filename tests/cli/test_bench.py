"""aleator bench lists the benchmarks, or runs one with its arguments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aleator.cli import bench
from aleator.errors import AleatorError
from tests.cli.conftest import Run


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that bench wanted to run. Each gets the exit code 7."""
    made: list[list[str]] = []

    def call(command: list[str], **_: Any) -> int:
        made.append(command)
        return 7

    monkeypatch.setattr(subprocess, "call", call)
    return made


def test_without_a_name_each_is_listed_with_its_first_line(run: Run) -> None:
    ran = run("bench")
    assert ran.code == 0
    listed = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    assert {"evaluation", "fit", "growth", "memory", "recommend"} <= listed.keys()
    assert not {"common", "published"} & listed.keys()
    assert listed["memory"] == "Peak memory and seconds of the main jobs, each in a fresh process."
    assert json.loads(run("bench", "--json").out) == listed


def test_arguments_and_exit_code_are_those_of_the_script(run: Run, calls: list[list[str]]) -> None:
    assert run("bench", "fit", "--users", 50, "--json", "x.jsonl", "--help").code == 7
    script = Path(bench.folder()) / "fit.py"
    assert calls == [[sys.executable, str(script), "--users", "50", "--json", "x.jsonl", "--help"]]


def test_an_unknown_name_is_refused_with_the_nearest(run: Run, calls: list[list[str]]) -> None:
    ran = run("bench", "evaluaton")
    assert ran.code == 2
    assert ran.err.startswith("error: unknown benchmark 'evaluaton'; did you mean 'evaluation'?")
    assert "common" not in ran.err
    assert not calls


def test_an_installed_package_has_them_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "aleator"
    (package / "benchmarks").mkdir(parents=True)
    (package / "benchmarks" / "common.py").touch()
    monkeypatch.setattr(bench, "package_folder", lambda: package)
    assert bench.folder() == package / "benchmarks"


def test_an_installation_without_them_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "package_folder", lambda: tmp_path / "lib" / "aleator")
    with pytest.raises(AleatorError, match="not part of this installation"):
        bench.folder()
