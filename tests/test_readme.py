"""What the README shows runs as written, and the documents hold the figures of results/."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import aleator as al
from aleator import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ARCHIVES = Path(os.environ.get("ALEATOR_DATA") or ROOT.parent / "shared" / "data")


@pytest.fixture
def _in_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not (ARCHIVES / "ml100k.npz").is_file():
        pytest.skip(f"needs ml100k.npz in '{ARCHIVES}' (or in ALEATOR_DATA)")
    monkeypatch.setenv("ALEATOR_DATA", str(ARCHIVES))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def update(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script that writes the tables."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("update")


@pytest.mark.usefixtures("_in_a_folder_of_its_own")
def test_the_python_example(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    told = capsys.readouterr().out
    assert "someone new" in told
    assert "tail_absolute" in told
    assert "Holm" in told


@pytest.mark.usefixtures("_in_a_folder_of_its_own")
def test_the_shell_examples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = re.findall(r"^\$ (aleator .*)$", README, re.MULTILINE)
    assert len(lines) >= 6
    for line in lines:
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert not left.value.code, f"{line}: {capsys.readouterr().err}"


def test_the_tables_are_those_of_the_results(update: Any) -> None:
    assert update.main_table() in README
    page = (ROOT / "docs" / "results.md").read_text()
    for place, text in update.places(draw=False).items():
        assert f"<!-- {place} -->\n{text}\n<!-- /{place} -->" in page, f"run tools/update.py: {place} is not up to date"


def test_the_tables_of_performance_are_those_of_the_results(update: Any) -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    places = update.performance()  # refuses a record that has no place
    assert places.keys() >= {"epochs h200", "time_to_quality h200", "quality h200", "fit cpu", "growth cpu"}
    for place, text in places.items():
        assert f"<!-- {place} -->\n{text}\n<!-- /{place} -->" in page, f"run tools/update.py: {place} is not up to date"


def test_pictures_and_pages_that_are_linked_exist() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^):]+)\)", page.read_text()):
            assert (page.parent / target).is_file(), f"{page.name} links to {target}"


def test_a_record_of_a_benchmark_becomes_a_table_under_its_command(update: Any) -> None:
    rows = [
        {
            "job": "top 50",
            "unit": "s",
            "ours": 2.0,
            "reference": 8.0,
            "ratio": 0.25,
            "against": "brute force",
            "more": {},
        },
        {"job": "peak", "unit": "MB", "ours": 1234.5, "more": {"users/s": 15834.2}},
        {"job": "overall recall@20", "unit": "test", "ours": 0.06701},
    ]
    record = {
        "benchmark": "top_k",
        "rows": rows,
        "data": {"users": 31668, "test_pairs": 10},
        "chosen": {"ours": {"lam": 0.3}},
        "machine": {"cores": 2, "device": "no GPU", "threads": 1},
        "versions": {"torch": "2.6", "numpy": "2.0", "implicit": "0.7.3"},
        "command": "top_k.py --model /somewhere/model --k 50 --json /somewhere/x.jsonl --data-root=/somewhere",
    }
    head, _, *table = update.benchmark_table(record).splitlines()
    assert head == (
        "`aleator bench top_k --model model --k 50` (2 cores, no GPU, torch 2.6, threads: 1, implicit 0.7.3); "
        "data: users 31,668, test pairs 10; chosen: ours (lam 0.3)"
    )
    assert table == [
        "| job | ours | reference | ratio | against | users/s |",
        "|---|---|---|---|---|---|",
        "| top 50 | 2 s | 8 s | 0.25 | brute force |  |",
        "| peak | 1,234 MB |  |  |  | 15,834 |",
        "| overall recall@20 | 0.0670 |  |  |  |  |",
    ]


def test_curves_of_two_records_have_panels_of_their_own(update: Any) -> None:
    def record(*runs: tuple[str, str]) -> dict[str, Any]:
        return {"data": {"name": "yelp2018"}, "curves": [{"job": job, "settings": name} for job, name in runs]}

    mf = record(("MF", "our defaults"), ("MF", "ALS"))
    estimator = record(("MF", "ALS"), ("estimator", "our defaults"))
    assert [(run.job, run.settings) for run in update.curves([mf, estimator, estimator])] == [
        ("MF, yelp2018", "our defaults"),
        ("MF, yelp2018", "ALS"),
        ("estimator, yelp2018", "our defaults"),
        ("estimator, yelp2018 (2)", "our defaults"),
    ]


def test_the_table_of_options_has_the_defaults_and_those_of_the_paper() -> None:
    page = (ROOT / "docs" / "method.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)`[^|]* \| `([^`]+)` \|$", page, re.MULTILINE)
    assert len(rows) >= 8
    for name, default, paper in rows:
        assert eval(default) == al.FactorEstimator().options()[name], name
        assert eval(paper) == al.FactorEstimator.paper[name], name
