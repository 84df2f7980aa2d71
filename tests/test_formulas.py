"""The formulas of tools/formulas.py say what the code says, or does on data so small that all of it can be counted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import aleator as al
from aleator import device
from aleator.batches import Histories, pieces
from aleator.checkpoint.data import pack_data, unpack_data
from aleator.models.mf import ALS
from aleator.ranking.top import blocks
from aleator.training.stop import Stop
from aleator.uncertainty.spectral import singular_vectors

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import formulas  # noqa: E402

CPU = torch.device("cpu")
USERS, ITEMS, DIM = 40, 30, 8


@pytest.fixture
def data() -> al.Interactions:
    """A few pairs. Each user and item has one."""
    return al.simulate(n_users=USERS, n_items=ITEMS, per_user=60, seed=0).interactions


@pytest.fixture
def kept(data: al.Interactions, tmp_path: Path) -> al.Interactions:
    """The same pairs on disk."""
    pl.DataFrame({"user_id": data.user, "item_id": data.item}).write_parquet(tmp_path / "pairs.parquet")
    return al.read(tmp_path / "pairs.parquet", on_disk=tmp_path / "cache")


def products(job: Any) -> int:
    """The operations of all matrix products of a job."""
    with FlopCounterMode(display=False) as counted:
        job()
    found: int = counted.get_total_flops()
    return found


@pytest.mark.parametrize("items", [100, 5_000, 100_000, 10_000_000])
@pytest.mark.parametrize("dim", [128, 1024])
def test_memory_of_an_estimator_is_what_its_fit_asks_for(items: int, dim: int) -> None:
    for optimizer in ("adam", "lean"):
        for sampled in ("all", 1000, 2048):
            made = al.FactorEstimator(dim=dim, optimizer=optimizer, sampled_items=sampled)
            needed = made.bytes_needed(items, CPU, checked=True)
            some = made.sample_size(items, CPU) or items
            by_formula = formulas.adam(items, dim) if optimizer == "adam" else formulas.lean(items, dim, some)
            assert needed == by_formula


def test_memory_of_tables_is_what_fism_and_als_ask_for(monkeypatch: pytest.MonkeyPatch, data: al.Interactions) -> None:
    asked: list[int] = []
    monkeypatch.setattr(device, "require_memory", lambda needed, *_: asked.append(needed))
    al.FISM(dim=DIM, max_epochs=1, device="cpu").fit_pairs(data, epochs=1)
    model = al.MF(dim=DIM, l2=0.1, device="cpu")
    model.data = data
    ALS(model)
    assert asked == [formulas.fism(data.n_items, DIM), formulas.als(data.n_users, data.n_items, DIM)]


def test_items_are_sampled_where_the_estimator_samples_them() -> None:
    for items in (1000, 4096, 4097, 1_000_000):
        assert formulas.sampled(items, "cpu") == (al.FactorEstimator().sample_size(items, CPU) or items)
    assert formulas.sampled(10_000_000, "cuda") == 1 << 17


@pytest.mark.parametrize("users", [10, 943, 5000, 300_000])
def test_batches_are_those_of_the_loop(users: int) -> None:
    histories = Histories.of_lists([[0]] * users, 1, CPU)
    for steps in (12, 24):
        most = histories.batch_size(steps)
        assert formulas.batch(users, steps) == -(-users // -(-users // most))


@pytest.mark.parametrize(("items", "sampled"), [(100, 10), (3000, 10), (3000, 100), (3000, "all")])
@pytest.mark.parametrize("lean", [False, True])
def test_the_rows_in_use_are_those_that_the_estimator_counts(items: int, sampled: Any, lean: bool) -> None:
    users, each = 1000, 5
    histories = Histories.of_lists([list(range(each))] * users, items, CPU)
    made = al.FactorEstimator(dim=4, sampled_items=sampled, optimizer="lean" if lean else "adam", device="cpu")
    made._lean = lean
    made.z = made.q = torch.zeros(items, 4)
    plan = made.schedule(True, items, CPU)
    some = made.sample_size(items, CPU) or items
    size = made.users_at_a_time(histories, plan)
    by_formula = formulas.lean_batch(users, items, users * each, some, plan.steps)
    assert -(-users // -(-users // size)) == (by_formula if lean else formulas.batch(users, plan.steps))
    rows = formulas.rows_in_use(users, items, users * each, some, size, lean=lean)
    if not lean:
        assert (made._row_optimizer(histories, plan) is None) == (rows == items)
    assert rows == items or rows == some + size * each


def test_files_on_disk_have_the_bytes_of_the_formula(kept: al.Interactions) -> None:
    maps = kept.on_disk
    assert maps is not None

    def size(folder: Path) -> int:
        return sum((folder / name).stat().st_size for name in ("start", "user", "item") if (folder / name).exists())

    assert size(maps.folder) == formulas.on_disk(kept.n_users, len(kept))
    assert maps.by_item.n_columns == kept.n_users
    assert size(maps.folder / "by-item") == formulas.by_item_on_disk(kept.n_items, len(kept))


def test_a_fit_makes_as_many_copies_of_the_pairs_as_the_formula_counts(
    kept: al.Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU each of them takes memory of its own."""
    made: list[int] = []
    of_rows = Histories.of_rows.__func__  # type: ignore[attr-defined]

    def counted(cls: Any, rows: Any, device: Any) -> Histories:
        made.append(len(rows.column))
        return of_rows(cls, rows, device)  # type: ignore[no-any-return]

    monkeypatch.setattr(Histories, "of_rows", classmethod(counted))
    estimator = al.FactorEstimator(dim=2, max_epochs=1, init="spectral", device="cpu")
    one: dict[str, Any] = {"residuals": "in-sample", "unobserved": "constant", "refit": False, "device": "cpu"}
    aur = al.AUR(al.FISM(dim=2, max_epochs=1), estimator=estimator, **one).fit(kept)
    assert made.count(len(aur.fitted)) == formulas.COPIES_OF_PAIRS
    histories = Histories(kept.csr, CPU)  # as on a GPU: not mapped
    assert histories.item.nbytes + histories.weight.nbytes == formulas.pairs_on_gpu(len(kept), copies=1)


def test_a_loaded_model_holds_its_pairs_in_memory(data: al.Interactions) -> None:
    about, tensors = pack_data(data)
    assert tensors["data.indptr"].nbytes + tensors["data.item"].nbytes == formulas.saved(data.n_users, len(data))
    loaded = unpack_data(about, tensors)
    histories = Histories.of(loaded, CPU)
    held = (loaded.user, loaded.csr.data, histories.item, histories.weight)  # items are those of the file
    assert sum(part.nbytes for part in held) == formulas.loaded(len(data))


@pytest.mark.parametrize("sampled", ["all", 10])
def test_operations_of_an_epoch_are_those_of_its_products(data: al.Interactions, sampled: Any) -> None:
    estimator = al.FactorEstimator(dim=DIM, sampled_items=sampled, init=0.01, precision="float32", device="cpu")
    model = al.Popularity(device="cpu")
    model.fit_pairs(data)
    aur = al.AUR(model)
    drawn: list[int] = []
    whole = estimator.sample

    def sample(n_items: int, draw: torch.Generator) -> torch.Tensor | None:
        found = whole(n_items, draw)
        drawn.append(n_items if found is None else len(found))
        return found

    estimator.sample = sample  # type: ignore[method-assign]
    found = products(lambda: estimator.learn(model.histories, model, aur.objective, Stop(epochs=1)))
    users = int((model.histories.size > 0).sum())
    steps = len(drawn)
    assert steps == -(-users // formulas.batch(users, 16))
    each = [formulas.epoch(1, items, 0, DIM, of_model=1) for items in drawn]  # for one user of each step; r is 1 number
    sizes = [len(part) for part in pieces(torch.arange(users), formulas.batch(users, 16))]
    assert found == sum(np.multiply(each, sizes))


@pytest.mark.parametrize("dim", [4, 64])  # with two Gram matrices, and with three products
def test_operations_of_fism_are_those_of_its_products(data: al.Interactions, dim: int) -> None:
    model = al.FISM(dim=dim, batch_size=USERS, device="cpu")
    found = products(lambda: model.fit_pairs(data, epochs=1))
    users = int((model.histories.size > 0).sum())
    assert found == formulas.epoch_of_fism(users, data.n_items, 0, dim, steps=1)


def test_operations_of_als_are_those_of_its_products(data: al.Interactions) -> None:
    model = al.MF(dim=DIM, l2=0.1, device="cpu")
    model.data = data
    als = ALS(model)
    assert products(lambda: als.iterate(1)) == formulas.als_iteration(data.n_users, data.n_items, 0, DIM)


def test_operations_of_the_spectral_start_are_those_of_its_products(data: al.Interactions) -> None:
    histories = Histories.of(data, CPU)
    found = products(lambda: singular_vectors(histories, DIM, torch.Generator().manual_seed(0)))
    solved = 4 * data.n_items * DIM**2  # triangular solutions are not counted here
    assert found + solved == formulas.start(data.n_users, data.n_items, 0, DIM)


@pytest.mark.parametrize("items", [1000, 10_000_000])
def test_blocks_of_scores_have_as_many_users_as_the_ranking_takes(items: int) -> None:
    assert formulas.scores_at_a_time(items, "cpu") == blocks(1 << 40, items, CPU)[0]


def test_an_evaluation_copies_the_pairs_that_a_model_was_trained_on(kept: al.Interactions) -> None:
    copied = kept.csr.astype(bool)
    assert not np.shares_memory(copied.indices, kept.csr.indices)
    assert copied.indices.nbytes + copied.data.nbytes == formulas.checked_by_evaluate(len(kept))


def test_the_pairs_cost_the_estimator_five_passes(data: al.Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass multiplies and adds a row of `dim` numbers for each pair."""
    from aleator.kernels import ragged
    from aleator.uncertainty import step

    passes: list[int] = []

    def counting(name: str) -> Any:
        whole = getattr(ragged, name)

        def counted(*args: Any) -> Any:
            passes.append(len(next(arg for arg in args if hasattr(arg, "row")).item))
            return whole(*args)

        return counted

    for name in ("history_sum", "add_by_item", "pair_products"):
        monkeypatch.setattr(step, name, counting(name))
    estimator = al.FactorEstimator(dim=DIM, sampled_items=10, init=0.01, device="cpu")
    model = al.Popularity(device="cpu")
    model.fit_pairs(data)
    estimator.learn(model.histories, model, al.AUR(model).objective, Stop(epochs=1))
    assert 2 * DIM * sum(passes) == formulas.epoch(0, 0, len(data), DIM)


def test_what_several_processes_send_is_the_ring_of_two_sums() -> None:
    """tests/ranks counts the bytes of real processes; here stands how the functions compare."""
    assert formulas.step_by_items(100, 16, 1) == 0
    assert formulas.step_by_items(100, 16, 2) == 2 * 4 * 100 * 16
    assert formulas.step_by_users(999, 4) == 1.5 * 4 * 1000
    few, many = (formulas.spectral(users, 100, 10 * users, 8, 2) for users in (1000, 2000))
    assert many - few == 4 * 4 * 1000 * 8  # the sample is of the same size
    assert formulas.gathered(10, 100, 4, 4) == 1.5 * 4 * 10 * 4 + 0.75 * 4 * 10 * 100
