"""Engines are checked before anything begins, and this process runs one piece after the other."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import pytest

import aleator as al
from aleator.engines.engine import OneProcess, check_engine


def test_this_process_takes_a_piece_when_the_result_before_was_taken() -> None:
    told: list[str] = []

    def pieces() -> Any:
        for piece in (1, 2):
            told.append(f"piece {piece}")
            yield piece

    for piece, result in OneProcess().run(lambda piece, ask: ask(piece) + 1, pieces(), answer=lambda asked: asked * 10):
        told.append(f"{piece} gives {result}")
    assert told == ["piece 1", "1 gives 11", "piece 2", "2 gives 21"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"engine": "rey"}, "unknown engine 'rey'; did you mean 'ray'"),
        ({"workers": 2}, "workers are of engine ray"),
        ({"engine": "ray", "workers": 0}, "workers is 0; give a whole number of at least 1"),
        ({"engine": "ray", "workers": 2.0}, "workers is 2.0; give a whole number of at least 1"),
    ],
)
def test_bad_options_are_refused_before_anything_begins(
    fitted_aur: al.AUR, split: al.Split, tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(al.AleatorError, match=says):
        al.recommend_batch(fitted_aur, {"user_id": [0]}, tmp_path / "out", **options)
    with pytest.raises(al.AleatorError, match=says):
        al.evaluate(fitted_aur, split, **options)
    with pytest.raises(al.AleatorError, match=says):
        al.tune(split, trials=1, study=tmp_path / "study.db", **options)
    assert list(tmp_path.iterdir()) == []


def test_without_ray_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(al.AleatorError, match=r"engine ray needs the library ray; install aleator\[ray\]\."):
        check_engine("ray", None, "cpu")


def test_workers_compute_on_the_cpu() -> None:
    with pytest.raises(al.AleatorError, match="compute on the CPU; take device cpu"):
        check_engine("ray", None, "cuda:0")


def test_an_error_comes_whole_out_of_another_process() -> None:
    error = pickle.loads(pickle.dumps(al.AleatorError("k is 0", "give a k of at least 1")))
    assert (error.problem, error.remedy, str(error)) == (
        "k is 0",
        "give a k of at least 1",
        "k is 0; give a k of at least 1.",
    )
