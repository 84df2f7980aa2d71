"""The attacks of tools/attack_folders.py, in a short form: nothing comes through."""

from __future__ import annotations

import importlib
import random
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import aleator as al
from aleator import checkpoint
from tests.folders import tensors_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")


@pytest.fixture
def attack(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "tools")
    return importlib.import_module("attack_folders")


def test_killed_writers_beside_a_reader(attack: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert attack.attack_by_kills(8, seed=1) == 0
    told = capsys.readouterr().out
    assert "8 kills" in told
    assert "LEFT OVER                      0" in told


def test_damaged_folders(attack: Any, fitted_aur: al.AUR, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fitted_aur.save(tmp_path / "m")
    plan = list(islice(attack.planned(tmp_path / "m", random.Random(3)), 150))
    verdicts = Counter(verdict for verdict, _ in attack.run(tmp_path / "m", plan))
    assert {verdict for verdict in verdicts if verdict.isupper()} == set(), capfd.readouterr().err
    assert verdicts["refused"] > 100
    assert verdicts["as it was"] > 0


def test_the_attack_sees_what_comes_through(
    attack: Any, fitted_aur: al.AUR, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without checksums, a flipped bit is another model. An error that is not ours is an escape."""
    fitted_aur.save(tmp_path / "m")
    name = tensors_of(tmp_path / "m").name
    whole = (tmp_path / "m" / name).read_bytes()
    _, tensors = checkpoint.read(tmp_path / "m")
    at = whole.index(tensors["estimator.q"].numpy().tobytes()) + 2
    plan = [attack.Case("a bit", lambda folder: attack.flip(name, at, 64, folder))]
    assert [verdict for verdict, _ in attack.run(tmp_path / "m", plan)] == ["refused"]
    monkeypatch.setattr(attack.al, "load_model", lambda folder, device: al.AUR.load(folder, device, verify=False))
    assert [verdict for verdict, _ in attack.run(tmp_path / "m", plan)] == ["SILENTLY WRONG"]

    def broken(folder: Path, device: str) -> al.AUR:
        if folder != tmp_path / "m":
            raise ZeroDivisionError
        return fitted_aur

    monkeypatch.setattr(attack.al, "load_model", broken)
    assert [verdict for verdict, _ in attack.run(tmp_path / "m", plan)] == ["OTHER EXCEPTION"]
