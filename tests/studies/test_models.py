"""The studies that compare methods: what they fit, what they record, and where their options come from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aleator as al
from aleator.models import MODELS
from aleator.studies import main, models

SMALL: dict[str, Any] = {"model": {"dim": 8, "iterations": 3}, "estimator": {"dim": 16, "max_epochs": 3, "lr": 0.01}}


@pytest.fixture
def tiny(split: al.Split) -> al.Split:
    return replace(split, name="tiny")


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_model_is_compared_with_itself_under_aur(tiny: al.Split, tmp_path: Path) -> None:
    methods = main.systems("mf", SMALL, recipe="ours", seed=0)
    reports = main.compare(tiny, methods, out=tmp_path)
    rows = rows_of(tmp_path / "main" / "tiny.jsonl")
    assert [row["method"] for row in rows] == list(reports) == ["MF", "MF-AUR"]
    wanted = {"study", "dataset", "recipe", "tail", "empty", "seed", "metrics", "config", "machine", "command"}
    assert wanted <= set(rows[0])
    assert rows[1]["metrics"]["overall"]["recall@20"] == reports["MF-AUR"].mean("overall", "recall@20")
    assert {row["protocol"] for row in rows[1]["against_MF"]} == {"overall", "tail_absolute", "tail_relative"}
    assert "against_MF" not in rows[0]
    assert rows[1]["chosen"]["lam"] == methods["MF-AUR"].lam_used  # type: ignore[attr-defined]
    assert {row["chosen_on"] for row in rows} == {"validation"}


def test_variants_go_by_the_names_of_the_paper() -> None:
    (name,) = main.systems("lightgcn", {"joint": True}, recipe="paper", seed=0, bare=False)
    assert name == "LGCN-AUR-J"
    (name,) = main.systems("multvae", {}, recipe="ours", seed=0, bare=False, estimator="mlp")
    assert name == "VAE-AUR-M"
    assert set(main.PAPER_NAMES) == set(MODELS.classes)


def test_figures_under_the_conventions_of_the_paper_say_on_what_they_were_chosen(
    tiny: al.Split, tmp_path: Path
) -> None:
    methods = main.systems("mf", SMALL, recipe="ours", seed=0, uncertain=False)
    main.compare(tiny, methods, conventions="paper", out=tmp_path)
    (row,) = rows_of(tmp_path / "main" / "tiny.jsonl")
    assert (row["recipe"], row["empty"], row["chosen_on"]) == ("paper", "zero", "validation")


@pytest.mark.parametrize("name", models.GRAFTS)
def test_models_of_implicit_are_grafted(name: str, tiny: al.Split, tmp_path: Path) -> None:
    methods = models.grafted(name, tiny, {"estimator": SMALL["estimator"]}, "ours", 0)
    reports = main.compare(tiny, methods, out=tmp_path, study="models")
    assert list(reports) == [name, f"{name}-AUR"]
    assert all(np.isfinite(r.mean("overall", "recall@20")) for r in reports.values())


def test_every_file_of_tuned_options_builds_what_it_is_for() -> None:
    """Misspelt or superseded options are an error."""
    files = sorted(models.CONFIGS.glob("*/*.toml"))
    assert files
    for file in files:
        settings = models.tuned(file.parent.name, file.stem)
        if file.stem not in models.GRAFTS:
            for recipe in ("ours", "paper"):
                main.systems(file.stem, settings, recipe=recipe, seed=0, uncertain=set(settings) != {"model"})
    assert models.tuned("nowhere", "mf") == {}
