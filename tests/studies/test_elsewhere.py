"""Hand-over: a model from a file scores as one that was fitted here, and no file stands in for another model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

import aleator as al
from aleator.data.opening import open_split
from aleator.studies.beyond import grafts
from aleator.studies.elsewhere import LIBRARIES, Wanted
from aleator.studies.elsewhere.__main__ import hand_over
from aleator.studies.methods import FLOORS
from aleator.studies.reproduce import open_bench

NAME, OPTIONS = "implicit-als", {"factors": 8, "iterations": 3}


@pytest.fixture
def fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of files that a study looks in."""
    folder = tmp_path / "fitted"
    folder.mkdir()
    monkeypatch.setenv("ALEATOR_FITTED", str(folder))
    return folder


@pytest.fixture
def wanted(split: al.Split) -> Wanted:
    return Wanted(NAME, "tiny", split.train, 0, OPTIONS)


@pytest.mark.parametrize("name", ["implicit-als", "implicit-bpr"])
def test_a_model_from_a_file_scores_as_one_fitted_here(
    name: str, wanted: Wanted, split: al.Split, fitted: Path
) -> None:
    own = replace(wanted, name=name, options=OPTIONS | {"num_threads": 1})  # several would race for the factors of BPR
    here = own.graft(check=False).fit(split)
    path = own.hand_over(fitted)
    assert path == fitted / "tiny" / f"{name}-0.safetensors"
    there = own.graft(check=False).fit(split)
    assert torch.equal(there.score(range(80)), here.score(range(80)))
    with safe_open(path, "np") as file:
        assert file.metadata()["library"].startswith("implicit 0.")
        assert {file.get_tensor(side).dtype.name for side in ("users", "items")} == {"float32"}


def test_rows_are_known_by_their_ids(split: al.Split, fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library may sort texts in its own way, and leave out items without a pair."""
    names = {"user": [f"u{n}" for n in split.train.user], "item": [f"i{n}" for n in split.train.item]}
    data = al.read(names).split(valid=0.1, test=0.2, seed=0)
    users, items = data.train.users.ids[::-1], data.train.items.ids[3:][::-1]
    x, y = torch.randn(len(users), 4), torch.randn(len(items), 4)
    library = replace(LIBRARIES[NAME], fit=lambda *_, **__: al.graft((x, y), users=users, items=items))
    monkeypatch.setitem(LIBRARIES, NAME, library)
    own = Wanted(NAME, "tiny", data.train, 0, {})
    own.hand_over(fitted)
    about: dict[str, Any] = {"calibrate": "none", "check": False}
    here, there = (made.fit(data) for made in (al.graft((x, y), users=users, items=items, **about), own.graft(**about)))
    assert torch.equal(there.score(list(users)), here.score(list(users)))


def test_a_file_of_another_model_is_refused(wanted: Wanted, split: al.Split, fitted: Path) -> None:
    path = wanted.hand_over(fitted)
    others = {
        "pairs": replace(wanted, pairs=split.everything),
        "options": replace(wanted, options=OPTIONS | {"factors": 9}),
        "seed": replace(wanted, seed=1),
        "model": replace(wanted, name="implicit-bpr"),
    }
    for what, other in others.items():
        path.with_name(f"{other.name}-{other.seed}.safetensors").write_bytes(path.read_bytes())
        with pytest.raises(al.AleatorError, match=rf"has {what} .*, and the study has .*; write the file again with"):
            other.graft()
    path.write_bytes(b"none")
    with pytest.raises(al.AleatorError, match="cannot be read as a model that was handed over"):
        wanted.graft()


def test_a_folder_that_is_not_there_is_refused(wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALEATOR_FITTED", "/nowhere")
    with pytest.raises(al.AleatorError, match="no folder '/nowhere'; check ALEATOR_FITTED"):
        wanted.graft()


def test_the_study_needs_no_library_where_there_is_a_file(
    split: al.Split, tmp_path: Path, fitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "shop"
    data.mkdir()
    for part in ("train", "test"):
        al.write(getattr(split, part), data / f"{part}.csv")
    hand_over(NAME, str(data), 0, fitted, quick=True)
    opened = open_split(str(data), None)
    bench = open_bench(str(data), opened, recipe="ours", seed=0, device="cpu", quick=True)
    monkeypatch.setattr("aleator.errors.importlib.util.find_spec", lambda name: None)  # nothing is installed
    _, _, method = grafts.cells(bench)
    assert [method.name for method in grafts.cells(bench)] == [*FLOORS, f"{NAME}-AUR"]
    row = grafts.measure(bench, method)
    assert row["library"].startswith("implicit 0.")
    assert grafts.cells(replace(bench, seed=1)) == grafts.cells(bench)[:2], "the file is of another seed"
