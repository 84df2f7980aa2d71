"""aleator reproduce and report, as typed in a shell."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from aleator.studies.reproduce import BEYOND, NAMES
from tests.cli.conftest import Run


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """A folder of a train and a test file."""
    folder, rng = tmp_path / "small", np.random.default_rng(0)
    folder.mkdir()
    pairs = sorted(
        {(int(u), int(i)) for u, i in zip(rng.integers(40, size=600), rng.integers(30, size=600), strict=True)}
    )
    for name, own in (("train", [p for n, p in enumerate(pairs) if n % 5]), ("test", pairs[::5])):
        (folder / f"{name}.csv").write_text("user_id,item_id\n" + "\n".join(f"{u},{i}" for u, i in own))
    return folder


def test_without_a_name_each_study_is_listed(run: Run) -> None:
    assert json.loads(run("reproduce", "--json").out).keys() == {*NAMES, *BEYOND}
    assert "Variants of AUR" in run("reproduce").out


def test_a_study_ends_with_its_report_and_goes_on_where_it_stopped(run: Run, parts: Path, tmp_path: Path) -> None:
    words = ("reproduce", "alpha", "--dataset", parts, "--quick", "--out", tmp_path / "r", "--device", "cpu", "--json")
    first = run(*words)
    told = json.loads(first.out)
    assert (first.code, told["failed"]) == (0, [])
    assert "alpha=3.0" in first.err
    assert Path(told["report"]).read_text().startswith("<!doctype html>")
    lines = (tmp_path / "r" / "alpha" / "small.jsonl").read_text().splitlines()
    assert "reproduce alpha --dataset" in json.loads(lines[0])["command"]
    assert "alpha=3.0" not in run(*words).err
    assert (tmp_path / "r" / "alpha" / "small.jsonl").read_text().splitlines() == lines
    again = run("report", tmp_path / "r", "--out", tmp_path / "page")
    assert (again.code, again.out.strip()) == (0, str(tmp_path / "page" / "report.html"))


def test_mistakes_are_told_with_what_to_do(run: Run, tmp_path: Path) -> None:
    wrong = run("reproduce", "mian", "--dataset", "ml-100k")
    assert wrong.code == 2
    assert "did you mean 'main'" in wrong.err
    assert run("reproduce", "main", "--dataset", "nowhere").code == 2
    assert run("reproduce", "main", "--dataset", "ml-100k", "--seeds", "0").code == 2
    assert "did you mean 'main'" in run("reproduce", "all", "mian").err
    (tmp_path / "file").touch()
    taken = run("reproduce", "main", "--dataset", "world-mild", "--out", tmp_path / "file")
    assert taken.code == 2
    assert "cannot be written" in taken.err
    nothing = run("report", tmp_path)
    assert nothing.code == 2
    assert "aleator reproduce" in nothing.err
