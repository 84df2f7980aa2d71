"""The released program's loops against a literal loop over pairs, and the benchmarks that use them at a tiny size."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import published  # noqa: E402

CPU = torch.device("cpu")
N_USERS, N_ITEMS = 5, 12


@pytest.fixture
def csr() -> sp.csr_matrix:
    rng = np.random.default_rng(3)
    return sp.csr_matrix((rng.random((N_USERS, N_ITEMS)) < 0.4).astype(np.float32))


@pytest.fixture
def factors() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    x, y = (torch.randn(n, 4, generator=draw, dtype=torch.float64) for n in (N_USERS, N_ITEMS))
    return x, y


def grown(loop: published.Loop) -> published.Loop:
    """The loop with parameters so large that every term of the loss matters."""
    with torch.no_grad():
        for parameter in loop.parameters:
            parameter.mul_(60)
    return loop


def test_the_loss_of_mf_is_that_of_a_loop_over_pairs(csr: sp.csr_matrix) -> None:
    loop = grown(published.MFLoop(csr, CPU, dim=4, mu=0.3, dtype=torch.float64))
    who, y = np.array([4, 0, 2]), csr.toarray()
    negatives = set(np.random.default_rng(0).choice(N_ITEMS, math.floor(0.3 * N_ITEMS), replace=False).tolist())
    assert len(negatives) == 3
    assert any(y[u, i] for u in who for i in negatives)  # one of them is a positive and keeps its label
    x, items = (p.detach().numpy() for p in loop.parameters)
    expected = 0.0
    for u in who:
        for i in range(N_ITEMS):
            if y[u, i] or i in negatives:
                expected += (x[u] @ items[i] - y[u, i]) ** 2
    assert loop.loss(who, loop.dense(who)).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alpha", [1.0, 3.0])
def test_the_loss_of_the_estimator_is_that_of_a_loop_over_pairs(
    csr: sp.csr_matrix, factors: tuple[Tensor, Tensor], alpha: float
) -> None:
    weights: dict[str, Any] = {"alpha": alpha, "beta": 0.02, "gamma": 0.003}
    loop = grown(published.EstimatorLoop(csr, *factors, CPU, dim=3, dtype=torch.float64, **weights))
    who, y = np.array([1, 3]), csr.toarray()
    (z, q), (x, items) = (p.detach().numpy() for p in loop.parameters), (f.numpy() for f in factors)
    expected = 0.0
    for u in who:
        history = [i for i in range(N_ITEMS) if y[u, i]]
        p = sum(z[i] for i in history) / math.sqrt(len(history))
        for i in range(N_ITEMS):
            s, residual = p @ q[i], x[u] @ items[i] - y[u, i]
            pair = residual**2 / (math.exp(s) + 1e-3) + 0.02 * s + 0.003 * s**2
            expected += alpha * pair if y[u, i] else pair
    assert loop.loss(who, loop.dense(who)).item() == pytest.approx(expected, rel=1e-12)


def test_a_step_is_one_of_adam_on_every_parameter(csr: sp.csr_matrix) -> None:
    loop = published.MFLoop(csr, CPU, dim=4, mu=0.5, dtype=torch.float64)
    before = [p.detach().clone() for p in loop.parameters]
    loop.step(np.array([1, 2]))
    users, items = (now.detach() - was for now, was in zip(loop.parameters, before, strict=True))
    assert users[[0, 3, 4]].abs().max() == 0  # no gradient and no momentum yet
    assert users[[1, 2]].abs().numpy() == pytest.approx(
        published.LR, rel=1e-3
    )  # the first step of Adam has the size of the learning rate
    assert items.abs().max().item() == pytest.approx(published.LR, rel=1e-3)


def test_the_loops_learn_and_an_epoch_of_some_steps_is_stretched(
    csr: sp.csr_matrix, factors: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = sp.vstack([csr] * 20).tocsr()  # 100 users: 4 batches of at most 32
    x, y = factors
    for loop in (published.MFLoop(many, CPU, dim=4), published.EstimatorLoop(many, x.repeat(20, 1), y, CPU, dim=8)):
        first = loop.epoch()[1]
        last = [loop.epoch()[1] for _ in range(30)][-1]
        assert last < first
    steps = []

    def step(who: published.Ints) -> Tensor:
        steps.append(len(who))
        return torch.zeros(())

    monkeypatch.setattr(loop, "step", step)
    seconds, loss = loop.epoch(2)
    assert steps == [32, 32]
    assert seconds > 0
    assert loss == 0


def test_a_loop_stops_when_the_checks_find_nothing_better(csr: sp.csr_matrix) -> None:
    loop = published.MFLoop(csr, CPU, dim=2)
    values = iter([0.1, 0.3, 0.2, 0.2, 0.3])
    loop.train(lambda: next(values), check_every=1, patience=3)
    assert next(values, None) is None


def run(script: str, options: str, cwd: Path) -> dict[str, Any]:
    """Run a benchmark. Returns the line that it wrote."""
    python_path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "benchmarks")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": python_path}
    command = [sys.executable, str(ROOT / "benchmarks" / script), "--device", "cpu", "--json", "out.jsonl"]
    done = subprocess.run(
        [*command, *options.split()], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (line,) = (cwd / "out.jsonl").read_text().splitlines()
    told: dict[str, Any] = json.loads(line)
    return told


def test_epochs_are_timed_beside_the_released_loops(tmp_path: Path) -> None:
    told = run("epochs.py", "--users 70 --items 40 --pairs 600 --epochs 3 --steps 2", tmp_path)
    assert told["data"] == {"users": 70, "items": 40, "pairs": 600}
    rows = {row["job"]: row for row in told["rows"]}
    assert list(rows) == ["MF by Adam", "estimator", "ALS iteration"]
    assert all(row["ours"] > 0 for row in rows.values())
    assert rows["estimator"]["ratio"] == rows["estimator"]["ours"] / rows["estimator"]["reference"]


def test_curves_tell_when_a_quality_was_reached(tmp_path: Path) -> None:
    told = run("time_to_quality.py", "--users 60 --items 40 --dim 4 --budget 0.2", tmp_path)
    assert [(row["job"], row["against"]) for row in told["rows"]] == [
        ("MF", "the paper's options"),
        ("MF", "the released program's loop"),
        ("estimator", "plain settings"),
        ("estimator", "the released program's loop"),
    ]
    for row in told["rows"]:
        assert row["more"]["goal"] == pytest.approx(0.99 * min(row["more"]["our best"], row["more"]["its best"]))
    for each in told["curves"]:
        seconds = [point["seconds"] for point in each["curve"]]
        assert seconds == sorted(seconds)
        assert all(spent <= 0.2 for spent in seconds[:-1])
        assert all(0 <= point["recall"] <= 1 for point in each["curve"])
