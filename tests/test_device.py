"""Devices: the one that is used, how much work it gets at a time, and what does not fit."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

import aleator as al
from aleator import device as devices
from aleator.device import (
    BUDGETS,
    budget,
    fast_bfloat16,
    free_memory,
    in_smaller_blocks,
    require_memory,
    resolve_device,
)
from aleator.kernels import least_squares
from aleator.uncertainty import step

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", ["warp-drive", "cuda:99", "cpu:-3", "meta"])
def test_a_device_that_is_not_there_or_computes_nothing_is_refused(name: str) -> None:
    with pytest.raises(al.AleatorError, match=f"no device '{name}'.*use device auto or cpu"):
        resolve_device(name)


def test_inside_one_thread_there_is_one_and_the_others_come_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with devices.one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_auto_is_the_gpu_where_there_is_one() -> None:
    device = resolve_device("auto")
    assert device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert torch.zeros(1, device=device).item() == 0


def test_a_name_is_that_device() -> None:
    assert resolve_device("cpu") == CPU


def test_every_kind_of_device_has_a_whole_budget() -> None:
    assert budget(CPU) is BUDGETS["cpu"]
    assert budget(torch.device("cuda", 3)) is BUDGETS["cuda"]
    for kind, has in BUDGETS.items():
        for name, value in asdict(has).items():
            assert value > 0, (kind, name)
        assert has.dense_share < 1


def test_a_gpu_gets_more_at_a_time() -> None:
    cpu, cuda = asdict(BUDGETS["cpu"]), asdict(BUDGETS["cuda"])
    assert all(cuda[name] >= value for name, value in cpu.items() if name != "dense_share")


def test_free_memory_is_at_most_what_the_machine_has() -> None:
    assert free_memory(CPU) > 0
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        total = next(int(line.split()[1]) << 10 for line in meminfo.open() if line.startswith("MemTotal"))
        assert free_memory(CPU) <= total


def test_without_the_file_of_the_system_all_memory_counts_as_free(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> Any:
        raise OSError

    before = free_memory(CPU)
    monkeypatch.setattr("builtins.open", nothing)
    after = free_memory(CPU)
    monkeypatch.undo()
    assert after >= before


def test_what_does_not_fit_is_refused_with_both_sizes() -> None:
    require_memory(1, CPU, "a number")
    with pytest.raises(al.AleatorError, match=r"a matrix needs 1048576.0 GiB and .* GiB are free on cpu"):
        require_memory(1 << 50, CPU, "a matrix")


def test_whether_bfloat16_is_fast_is_asked_once() -> None:
    assert fast_bfloat16() is fast_bfloat16()
    assert isinstance(fast_bfloat16(), bool)


def test_a_forked_process_is_told_that_it_cannot_use_the_gpu_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in ("auto", "cuda", "cuda:0"):
        with pytest.raises(al.AleatorError, match=r"its parent has used; start it anew \(spawn\)"):
            resolve_device(name)
    assert resolve_device("cpu") == CPU


def test_where_the_memory_of_a_gpu_runs_out_it_goes_on_in_smaller_blocks(
    split: al.Split, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A GPU is played by a limit on the size of blocks. All else, the results too, stays as it was."""
    options: dict[str, Any] = {"dim": 4, "max_epochs": 2, "init": 0.01, "sampled_items": 10_000}

    def fitted() -> al.AUR:
        setting: dict[str, Any] = {"residuals": "loo", "unobserved": "model", "lam": 0.5}
        return al.AUR(al.MF(dim=4, l2=0.1), estimator=al.FactorEstimator(**options), **setting).fit(split)

    plenty = fitted()
    expected = al.evaluate(plenty, split).to_dict()
    monkeypatch.setattr(devices, "_halved", 0)
    refused = list[str]()

    def short(module: Any, name: str, size: str, most: int) -> None:
        compute = getattr(module, name)

        def limited(*args: Any, **more: Any) -> Any:
            if getattr(budget(CPU), size) > most:
                refused.append(name)
                raise torch.OutOfMemoryError
            return compute(*args, **more)

        monkeypatch.setattr(module, name, limited)

    whole = BUDGETS["cpu"]
    short(least_squares, "_Problem", "least_squares_numbers", whole.least_squares_numbers >> 1)
    short(step, "_chunks", "loss_pairs", whole.loss_pairs >> 2)
    again = fitted()
    assert refused == ["_Problem", "_chunks"]
    assert torch.allclose(torch.as_tensor(again.score([0, 1, 2])), torch.as_tensor(plenty.score([0, 1, 2])), atol=1e-5)
    assert capsys.readouterr().err.count("the memory of the GPU ran out") == 2
    assert budget(CPU).score_bytes == whole.score_bytes // 4
    assert budget(CPU).sampled_items == whole.sampled_items
    found = al.evaluate(plenty, split).to_dict()
    assert found["overall"] == pytest.approx(expected["overall"], abs=1e-12)


def test_a_gpu_that_is_too_small_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_halved", 0)

    @in_smaller_blocks
    def never() -> None:
        raise torch.OutOfMemoryError

    with pytest.raises(al.AleatorError, match="memory of the GPU is too small; take a smaller dim"):
        never()
