"""Models that earlier versions saved answer as they did then. `make.py` beside this file made them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aleator as al
from aleator import checkpoint
from tests.golden.make import USERS, answers, models

HERE = Path(__file__).parent
FOLDERS = sorted(path for path in HERE.glob("format_*/*") if path.is_dir())


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_saved_model_answers_as_it_did(folder: Path, tmp_path: Path) -> None:
    expected = json.loads(folder.with_suffix(".json").read_text())
    model = al.load_model(folder, device="cpu")
    assert_same(answers(model), expected)
    assert len(model.recommend(USERS, k=3)) == 6
    model.save(tmp_path / "again")
    again = al.load_model(tmp_path / "again", device="cpu")
    assert answers(again) == answers(model)
    assert again.notes == model.notes


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_folder_without_checksums_is_told(folder: Path) -> None:
    notes = al.load_model(folder, device="cpu").notes
    assert any("without checksums" in note for note in notes) == (checkpoint.read_manifest(folder)["format"] < 5)


def test_every_format_is_here() -> None:
    kept = {(path.parent.name, path.name) for path in FOLDERS}
    assert kept == {(f"format_{number + 1}", name) for number in range(checkpoint.FORMAT) for name in models()}
    for folder in FOLDERS:
        assert folder.parent.name == f"format_{checkpoint.read_manifest(folder)['format']}"
