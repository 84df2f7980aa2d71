"""What the README shows runs as written."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from aleator import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ARCHIVES = Path(os.environ.get("ALEATOR_DATA") or ROOT.parent / "shared" / "data")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not (ARCHIVES / "ml100k.npz").is_file():
        pytest.skip(f"needs ml100k.npz in '{ARCHIVES}' (or in ALEATOR_DATA)")
    monkeypatch.setenv("ALEATOR_DATA", str(ARCHIVES))
    monkeypatch.chdir(tmp_path)


def test_the_python_example(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    told = capsys.readouterr().out
    assert "someone new" in told
    assert "tail_absolute" in told
    assert "Holm" in told


def test_the_shell_examples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = re.findall(r"^\$ (aleator .*)$", README, re.MULTILINE)
    assert len(lines) >= 6
    for line in lines:
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert not left.value.code, f"{line}: {capsys.readouterr().err}"


def test_the_tables_are_those_of_the_results() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import update
    finally:
        sys.path.pop(0)
    table = update.main_table(["main/yelp2018.jsonl", "main/adressa.jsonl"])
    assert table in README
    assert table in (ROOT / "docs" / "results.md").read_text()
    assert update.worlds_table() in (ROOT / "docs" / "results.md").read_text()
