"""A short part of tools/fuzz.py, and what it has found: no reader lets anything but an `AleatorError` out."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import aleator as al

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")
TOOLS = Path(__file__).parents[1] / "tools"
CORPUS = sorted(file for file in (Path(__file__).parent / "fuzz_corpus").glob("*/*") if file.is_file())
SLOW = 3  # cases of a reader whose cases take long
CASES = 24  # of the others
_tools: dict[str, Any] = {}
_ways: dict[str, Any] = {}


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> Any:
    return tool("fuzz")


def tool(name: str) -> Any:
    """A module of tools/, imported once."""
    if name not in _tools:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(TOOLS)
            _tools[name] = importlib.import_module(name)
    return _tools[name]


def ways_of(reader: str) -> Any:
    if reader not in _ways:
        _ways[reader] = tool("fuzz_targets").readers()[reader]()
    return _ways[reader]


def read(way: Any, content: bytes, folder: Path) -> None:
    """Read a case. It loads, or it is refused with a message that can be printed."""
    way.made(folder)
    (folder / way.file).parent.mkdir(parents=True, exist_ok=True)
    (folder / way.file).write_bytes(content)
    message = ""
    try:
        way.read(folder)
    except al.AleatorError as error:
        message = str(error)
    assert len(message.encode()) < 4000


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: f"{file.parent.name}: {file.name}")
def test_past_findings(file: Path, tmp_path: Path) -> None:
    read(ways_of(file.parent.name)[file.name.partition("--")[0]], file.read_bytes(), tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reader", sorted(tool("fuzz_targets").readers()) if sys.platform == "linux" else [])
def test_damaged_and_odd_files(reader: str, fuzz: Any, tmp_path: Path) -> None:
    ways = ways_of(reader)
    names, seeds = list(ways), [list(way.seeds()) for way in ways.values()]
    plan = SimpleNamespace(ways=ways, names=names, seeds=seeds)
    for number in range(SLOW if reader in tool("fuzz_targets").SLOW else CASES):
        way, content = fuzz.made_case(plan, reader, number, 7)
        folder = tmp_path / str(number)
        folder.mkdir()
        read(ways[names[way]], content, folder)


def escapes(way: Callable[[Path], object], fuzz: Any, monkeypatch: pytest.MonkeyPatch, keep: Path | None) -> list[str]:
    """What the tool says of a reader that loads its own file and does something else with every other."""

    def reader(folder: Path) -> None:
        if (folder / "case.bin").read_bytes() != b"a file":
            way(folder)

    made = {"way": tool("fuzz_targets").Way("case.bin", reader, lambda: [b"a file"])}
    monkeypatch.setattr(tool("fuzz_targets"), "readers", lambda: {"fake": lambda: made})
    found = fuzz.attack("fake", 3, 5, keep)
    assert found.cases == 3
    return sorted(found.escapes)


def test_the_tool_sees_what_escapes(fuzz: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(folder: Path) -> None:
        raise al.AleatorError("it is wrong", "correct it")

    def fail(folder: Path) -> None:
        raise ZeroDivisionError

    def run(folder: Path) -> None:
        exec("pass")

    def unpickle(folder: Path) -> None:
        __import__("pickle").loads(b"cos\ngetcwd\n)R.")

    def elsewhere(folder: Path) -> None:
        open("/nowhere/never", "a").close()  # it is heard before it fails

    def hang(folder: Path) -> None:
        while True:
            pass

    def die(folder: Path) -> None:
        __import__("os")._exit(9)

    def fill(folder: Path) -> None:
        bytearray(b"x") * (700 << 20)

    assert escapes(refuse, fuzz, monkeypatch, None) == []
    told = {
        way.__name__: escapes(way, fuzz, monkeypatch, tmp_path) for way in (fail, run, unpickle, elsewhere, die, fill)
    }
    monkeypatch.setattr(fuzz, "LONGEST", 0.2)
    told["hang"] = escapes(hang, fuzz, monkeypatch, None)
    starts = {
        "fail": "ZeroDivisionError",
        "run": "RAN exec",
        "unpickle": "RAN pickle.find_class",
        "elsewhere": "RAN wrote",
        "die": "DIED (9)",
        "fill": "MEMORY",
        "hang": "HUNG",
    }
    seen = {name: any(each.startswith(starts[name]) for each in found) for name, found in told.items()}
    assert seen == dict.fromkeys(starts, True), told
    assert any("ZeroDivisionError" in file.read_text() for file in (tmp_path / "fake").glob("way-*.txt"))
