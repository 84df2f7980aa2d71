"""load_model: the class that a folder holds is found by its manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import aleator as al
from tests.folders import manifest_of, put_manifest


@pytest.mark.parametrize("model", [al.EASE(), al.MF(dim=4, iterations=2), al.Popularity()], ids=repr)
def test_a_bare_model_comes_back_as_its_class(model: al.Model, split: al.Split, tmp_path: Path) -> None:
    model.fit(split).save(tmp_path / "m")
    assert type(al.load_model(tmp_path / "m", device="cpu")) is type(model)


def test_an_aur_comes_back_with_its_parts(fitted_aur: al.AUR, tmp_path: Path) -> None:
    fitted_aur.save(tmp_path / "m")
    loaded = al.load_model(tmp_path / "m")
    assert isinstance(loaded, al.AUR)
    assert isinstance(loaded.model, al.MF)
    assert isinstance(loaded.estimator, al.FactorEstimator)


def test_a_graft_comes_back_too(split: al.Split, tmp_path: Path) -> None:
    factors = al.MF(dim=4, iterations=2).fit(split.train).table
    al.graft((factors.users.numpy(), factors.items.numpy())).fit(split).save(tmp_path / "m")
    kind = json.loads((tmp_path / "m" / "manifest.json").read_text())["kind"]
    assert type(al.load_model(tmp_path / "m")).__name__ == kind


def test_a_class_that_is_not_known_is_refused_by_name(fitted_aur: al.AUR, tmp_path: Path) -> None:
    fitted_aur.model.save(tmp_path / "m")
    put_manifest(tmp_path / "m", manifest_of(tmp_path / "m") | {"kind": "MFF"})
    with pytest.raises(al.AleatorError, match=r"unknown model 'MFF'.*did you mean 'MF'"):
        al.load_model(tmp_path / "m")
