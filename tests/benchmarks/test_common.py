"""The helpers that the benchmarks share."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import aleator as al

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import common  # noqa: E402


def hold(megabytes: int) -> int:
    """Fill this much memory."""
    return len(np.ones(megabytes << 20, np.uint8))


def test_a_table_has_a_line_for_each_row_and_its_further_columns() -> None:
    rows = [common.Row("fit", 2.0, 4.0, "theirs"), common.Row("load", 1234.5, unit="MB", more={"recall": 0.5})]
    header, fit, load = common.table(rows).splitlines()
    assert header.split() == ["job", "unit", "ours", "reference", "ratio", "against", "recall"]
    assert fit.split() == ["fit", "s", "2", "4", "0.5", "theirs"]
    assert load.split() == ["load", "MB", "1,234", "0.5"]


def test_a_peak_counts_what_the_process_held_and_not_what_its_parent_holds() -> None:
    mine = np.ones(600 << 20, np.uint8)  # more than any of the processes holds
    command = [sys.executable, "-c", "x = b'1' * (SIZE << 20); print('done')"]
    small, large = (common.peak_memory([word.replace("SIZE", size) for word in command]) for size in ("10", "210"))
    assert small.megabytes < 100
    assert 190 < large.megabytes - small.megabytes < 210
    assert large.result == "done\n"
    del mine


def test_a_function_runs_in_a_fresh_process_with_its_options() -> None:
    assert common.peak_memory(hold, megabytes=3).result == 3 << 20


def test_a_process_that_fails_stops_the_benchmark() -> None:
    with pytest.raises(SystemExit, match="ended with 3"):
        common.peak_memory([sys.executable, "-c", "raise SystemExit(3)"])


def test_the_fastest_run_counts_and_the_last_result_is_kept() -> None:
    results = iter([1, 2, 3])
    spent, result = common.timed(lambda: next(results), 3)
    assert result == 3
    assert 0 < spent < float("inf")


def test_a_missing_peer_is_none_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert common.peer("no_such_library") is None
    assert "no_such_library is not installed: skipped (pip install 'aleator[bench]')" in capsys.readouterr().out
    assert common.peer("numpy") is np


def test_brute_force_is_what_top_for_all_finds(fitted_aur: al.AUR) -> None:
    model = fitted_aur.model
    assert isinstance(model, al.MF)
    data, x, y = model.fitted, model.table.users, model.table.items
    values, items = common.top_for_all(model, 10)
    expected, listed = common.brute_force(lambda index: x[index] @ y.T, data.csr, torch.arange(data.n_users), 10, 7)
    assert torch.allclose(values, expected, atol=1e-6)
    assert torch.equal(items, listed)
