"""What docs/scale.md makes of records: points, rates and tables."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import formulas  # noqa: E402
import scale  # noqa: E402
import scale_figures  # noqa: E402
import scale_points  # noqa: E402
from scale_points import EPOCH, LISTS, Timed  # noqa: E402

ON_GPU = {"device": "NVIDIA H200", "cores": 16, "threads": 16}


def huge(items: int, optimizer: str, seconds: float) -> dict[str, Any]:
    """A record of a fit with large tables on a GPU."""
    more = {"needed": 20_000.0, "anonymous": 3_000.0, "s an epoch": seconds}
    return {
        "benchmark": "huge",
        "world": {"users": 100_000, "items": items, "pairs": 5_000_000, "dim": 1024},
        "rows": [{"job": optimizer, "ours": 25_000.0, "more": more}, {"job": "adam, refused", "ours": 1.0, "more": {}}],
        "machine": ON_GPU,
        "command": f"huge.py --items {items} --device cuda",
    }


@pytest.fixture
def records() -> dict[str, list[dict[str, Any]]]:
    """Fits of two sizes on a GPU."""
    return {"huge h200": [huge(1_000_000, "lean", 4.0), huge(2_000_000, "lean", 5.0)]}


def test_the_rates_are_those_that_made_the_times() -> None:
    sizes = [(1e9, 1e6), (1e11, 1e7), (1e12, 1e9), (1e10, 1e9)]
    made = [Timed(EPOCH, "here", work / 1e10 + moved / 1e8, work, moved) for work, moved in sizes]
    rate = scale_points.rates(made)[EPOCH, "here"]
    assert 1 / rate.of_operation == pytest.approx(1e10, rel=1e-3)
    assert 1 / rate.of_moved == pytest.approx(1e8, rel=1e-3)


def test_one_time_tells_one_rate() -> None:
    rate = scale_points.rates([Timed(LISTS, "here", 2.0, 1e9, 1e3)])[LISTS, "here"]
    assert rate.of_operation == pytest.approx(2e-9)
    assert rate.of_moved == 0


def test_a_record_of_a_gpu_is_a_point_of_its_own_memory(records: Any) -> None:
    first, second = scale_points.memory(records)
    assert (first.where, first.measured, first.formula) == ("H200", 25_000 * scale_points.MB, 20_000 * scale_points.MB)
    assert second.what == "2,000,000 items x 1,024"


def test_a_record_of_sampled_items_has_their_operations(records: Any) -> None:
    first, _ = scale_points.times(records)
    assert first.operations == formulas.epoch(100_000, 1 << 17, 5_000_000, 1024)
    assert first.moved > 0


def test_the_plan_takes_rates_from_records_and_leaves_out_what_has_none(records: Any) -> None:
    plan = scale.tables(records | {"ranks cpu": [ranks()]})["plan time"]
    assert "| epoch of the estimator, dim 256, 131,072 sampled items | H200 |" in plan
    assert "not measured" not in plan
    assert "lists" not in plan


def ranks() -> dict[str, Any]:
    """A record of FISM on one and on two processes."""
    more = {"grown": 100.0, "bytes": 9e4, "sockets": None}
    return {
        "benchmark": "ranks",
        "dataset": {"users": 160, "items": 1000, "pairs": 5000},
        "rows": [{"job": f"fism, {n}", "ours": 1.0, "more": more} for n in (1, 2)],
        "machine": {"device": "no GPU", "cores": 2},
        "command": "ranks.py --epochs 2 --estimator-dim 128",
    }


def test_a_record_of_processes_is_a_point_of_the_network() -> None:
    ((point, processes, size),) = scale_points.network({"ranks cpu": [ranks()]})
    assert (processes, size, point.measured) == (2, 16 * 128, 9e4)  # 10 steps of 16 users, the fewest of a batch
    assert point.formula == formulas.step_by_items(16, 128, 2)


def test_pictures_are_drawn_from_records(records: Any) -> None:
    for draw in scale_figures.FIGURES.values():
        assert draw(records | {"ranks cpu": [ranks()]}).axes


def test_the_plan_fits_into_gpus_without_its_pairs_and_not_with_them() -> None:
    """What the page says in words."""
    for dim in scale.DIMS:
        for optimizer in ("adam", "lean"):
            parts = scale.on_one_gpu(dim, optimizer, 8)
            assert max(parts["FISM in training"], parts["FISM's tables"] + parts["estimator in training"]) < scale.H200
            assert min(parts["pairs"], parts["spectral start"]) > scale.H200
    assert formulas.als(scale.USERS, scale.ITEMS, 64) < scale.H200 < formulas.als(scale.USERS, scale.ITEMS, 65)
    most = scale.H200 / (formulas.pairs_on_gpu(1, copies=3) + formulas.upload(1))
    assert 2.7e9 < most < 2.75e9


@pytest.mark.parametrize("module", [scale, scale_figures])
def test_the_examples_of_docstrings_hold(module: Any) -> None:
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed
