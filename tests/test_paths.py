"""Paths that can be none are refused wherever a path is given, with one sentence and before any work."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aleator as al
from aleator.data.formats import read_titles
from aleator.data.opening import open_dataset
from aleator.paths import as_path

NONE = ["nul\0", "surrogate\ud800", "x" * 300, None, 3]


@pytest.fixture(scope="module")
def model() -> al.MF:
    data = al.simulate(n_users=20, n_items=10, per_user=20, seed=0).interactions
    return al.MF(dim=2, l2=0.1, iterations=1).fit(data)


PLACES: dict[str, Callable[[al.MF, Any], object]] = {
    "save": lambda model, path: model.save(path),
    "load": lambda model, path: al.load_model(path),
    "checkpoint": lambda model, path: model.kept_in(path, model.fitted).__enter__(),
    "export": lambda model, path: al.export(model, path, to="npy"),
    "batch": lambda model, path: al.recommend_batch(model, {"user_id": [0]}, path, k=1),
    "write": lambda model, path: al.write(model.fitted, path),
    "open": lambda model, path: open_dataset(path, None),
}
READ: dict[str, Callable[[al.MF, Any], object]] = {
    "read": lambda model, path: al.read(path),
    "titles": lambda model, path: read_titles(path),
    "users": lambda model, path: al.recommend_batch(model, path, "nowhere", k=1),
}


@pytest.mark.parametrize("path", NONE, ids=ascii)
@pytest.mark.parametrize("place", PLACES)
def test_what_can_be_no_path_is_refused(place: str, path: Any, model: al.MF) -> None:
    with pytest.raises(al.AleatorError, match=r"is no path|cannot be looked up|is a (NoneType|int)"):
        PLACES[place](model, path)


@pytest.mark.parametrize("path", [path for path in NONE if isinstance(path, str)], ids=ascii)
@pytest.mark.parametrize("place", READ)
def test_what_can_be_no_path_is_not_read(place: str, path: str, model: al.MF) -> None:
    with pytest.raises(al.AleatorError):
        READ[place](model, f"{path}.csv")
    assert not Path("nowhere").exists()


@pytest.mark.parametrize("place", [*PLACES, *READ])
def test_a_folder_that_may_not_be_read(place: str, model: al.MF, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(path: Any, **_: Any) -> Any:
        if "secret" in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, **_)

    real = os.stat
    monkeypatch.setattr(os, "stat", forbidden)
    with pytest.raises(al.AleatorError, match=r"'/secret/it.csv' cannot be looked up \(Permission denied\)"):
        {**PLACES, **READ}[place](model, "/secret/it.csv")


def test_a_path_need_not_be_there(tmp_path: Path) -> None:
    assert as_path(str(tmp_path / "no" / "file")) == tmp_path / "no" / "file"
    (tmp_path / "file").write_text("")
    assert as_path(tmp_path / "file" / "below") == tmp_path / "file" / "below"
