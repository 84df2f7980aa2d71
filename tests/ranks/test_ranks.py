"""The group of processes: how they find each other, what they send, and a job of torchrun that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from aleator import ranks
from aleator.batches import Histories
from aleator.errors import AleatorError
from aleator.ranks import ALONE, here
from aleator.training.draws import normal_rows, per_pair, per_user
from aleator.training.slices import WHOLE, Slice, apart, found_slice
from tests.ranks.together import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it forks")

CPU = torch.device("cpu")
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
SLURM = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x4)"}
MEETING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
JOB = """
import os, signal, sys
import aleator as al
from aleator.training import journal

def callback(epoch):
    late = epoch.stage == "uncertainty estimator" and epoch.epoch == 2
    if sys.argv[1] == "dies" and os.environ["RANK"] == "1" and late:
        os.kill(os.getpid(), signal.SIGKILL)

journal.EVERY = 0.0
data = al.simulate(n_users=50, n_items=40, per_user=30, seed=0).interactions
made = al.FactorEstimator(dim=4, init="spectral", max_epochs=3, shard="items")
aur = al.AUR(al.EASE(), estimator=made, lam=0.5, residuals="constant")
try:
    aur.fit(data, callback=callback, checkpoint="kept")
except al.AleatorError as error:
    sys.exit(f"error: {error}")
aur.save("model")
"""


def test_the_place_of_a_process_comes_from_torchrun_or_slurm() -> None:
    assert ranks._place({**TORCHRUN, **MEETING}) == (1, 4, 1, 2)
    assert ranks._place({**SLURM, **MEETING}) == (3, 8, 1, 2)
    assert ranks._place(SLURM) is None  # tasks of srun that know nothing of each other
    assert ranks._place({**TORCHRUN, **MEETING, "WORLD_SIZE": "1"}) is None
    assert ranks._place({}) is None
    with pytest.raises(AleatorError, match="in the environment is not a number"):
        ranks._place({**TORCHRUN, **MEETING, "RANK": "first"})


def test_processes_that_do_not_find_each_other_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**TORCHRUN, **MEETING, "MASTER_PORT": "1", ranks.TIMEOUT: "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(AleatorError, match="the 4 processes did not find each other"):
        ranks.join()
    assert here() is ALONE


def test_a_process_alone_sends_nothing() -> None:
    value = torch.ones(3)
    ALONE.sum(value)
    ALONE.broadcast(value)
    assert ALONE.gather(value, [3]) == [value]
    assert ALONE.any(True)
    assert not ALONE.any(False)
    assert ALONE.sent == 0
    assert value.tolist() == [1, 1, 1]
    assert Slice.of(10) is WHOLE


def exchange(folder: Path) -> dict[str, Any]:
    """Each collective once, with what it found and the bytes that it counted."""
    group, found = here(), dict[str, Any]()
    one, other = torch.full((2, 3), group.rank + 1.0), torch.full((3, 2), 10.0).T  # the second is not contiguous
    group.sum(one, other)
    found["sum"] = [one.tolist(), other.tolist(), group.sent]
    first = torch.tensor([group.rank])
    group.broadcast(first)
    found["broadcast"] = first.tolist()
    found["gather"] = [part.tolist() for part in group.gather(torch.full((group.rank + 1,), group.rank), [1, 2, 3])]
    found["any"] = [group.any(group.rank == 2), group.any(False)]
    own = Slice.of(8)
    found["rows"] = own.rows
    whole = torch.arange(16.0).view(8, 2)
    into = torch.zeros_like(whole) if group.rank == 0 else None
    ranks._NUMBERS = 2  # one row at a time
    own.ranks.collect(whole[own.first : own.last], into, own.rows)
    found["collected"] = into is None or torch.equal(into, whole)
    p = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    mine = whole[own.first : own.last]
    some = torch.tensor([7, 0, 3])
    found["products"] = torch.equal(own.products(p, mine), p @ whole.T)
    found["some products"] = torch.equal(own.products(p, mine, some), p @ whole[some].T)
    before = group.sent
    with apart():
        found["apart"] = torch.equal(own.products(p, mine, torch.tensor([own.first])), p @ mine[:1].T)
    found["sent apart"] = group.sent - before
    users = Histories.of_lists([[0, 3, 7], [2, 5]], 8, CPU).batch(torch.arange(2))
    found["pairs"] = own.pair_products(p, mine, users).tolist() == [2.0, 20.0, 44.0, 32.0, 74.0]
    part = mine.clone().requires_grad_()
    own.sum(part.sum() * p).sum().backward()  # type: ignore[no-untyped-call]
    assert part.grad is not None
    found["grad"] = sorted(set(part.grad.flatten().tolist()))
    draw = torch.Generator().manual_seed(0)
    table = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    found["normal"] = torch.equal(normal_rows((8, 2), draw, own, CPU), table[own.first : own.last])
    return found


def test_collectives_give_what_they_say_and_count_their_bytes(tmp_path: Path) -> None:
    for found in run(exchange, 3, tmp_path):
        assert found["sum"] == [[[6.0] * 3] * 2, [[30.0] * 3] * 2, 2 * 2 / 3 * 12 * 4]
        assert found["broadcast"] == [0]
        assert found["gather"] == [[0], [1, 1], [2, 2, 2]]
        assert found["any"] == [True, False]
        assert found["rows"] == [2, 3, 3]
        assert found["sent apart"] == 0
        assert found["grad"] == [3 * 10.0]  # each process adds to the sum, and each has a loss of it
        for name in ("collected", "products", "some products", "apart", "pairs", "normal"):
            assert found[name], name


@pytest.mark.parametrize("shape", [(7, 3), (1024, 5), (2047, 1), (5000, 6)])
def test_the_rows_of_slices_are_those_of_one_table(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    parts = [
        normal_rows(shape, torch.Generator().manual_seed(3), Slice(shape[0], ranks.Ranks(rank, 3)), CPU)
        for rank in range(3)
    ]
    assert torch.equal(torch.cat(parts), table)


def test_draws_for_a_part_of_a_batch_are_those_of_the_batch() -> None:
    users = Histories.of_lists([[0, 3], [2, 4, 5], [1]], 8, CPU).batch(torch.arange(3))
    parts = [users.part(0, 1), users.part(1, 3)]

    def draw() -> torch.Generator:
        return torch.Generator().manual_seed(5)

    whole = per_user(torch.randn, users, 4, generator=draw())
    assert torch.equal(torch.cat([per_user(torch.randn, part, 4, generator=draw()) for part in parts]), whole)
    pairs = per_pair(torch.rand, users, generator=draw())
    assert torch.equal(torch.cat([per_pair(torch.rand, part, generator=draw()) for part in parts]), pairs)


def test_a_table_is_a_whole_one_or_the_slice_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found_slice(10, 10, "items") is WHOLE
    monkeypatch.setattr(ranks, "_joined", ranks.Ranks(1, 4))
    assert found_slice(10, 10, "items") is WHOLE
    own = found_slice(10, 3, "items")
    assert (own.first, own.last) == (2, 5)
    for rows, shard in ((4, "items"), (3, "none")):
        with pytest.raises(ValueError, match=f"a table has {rows} rows of 10"):
            found_slice(10, rows, shard)  # type: ignore[arg-type]


def test_a_killed_job_of_torchrun_ends_with_a_sentence_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    source = str(Path(ranks.__file__).parents[1])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": source, "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "job.py"]

    def start(how: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, how], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
        )

    killed = start("dies")
    assert killed.returncode != 0
    assert killed.stderr.count("Traceback") == 1  # that of torchrun itself
    # torchrun may have ended the other process by SIGTERM before it found out that the first one was gone
    assert "error: another of the 2 processes ended" in killed.stderr or "the fit so far is kept" in killed.stderr
    again = start("goes on")
    assert again.returncode == 0, again.stderr
    assert "the fit goes on from 'kept/rank-0'" in again.stderr
    assert (tmp_path / "model" / "manifest.json").exists()
    assert not (tmp_path / "kept").exists()
