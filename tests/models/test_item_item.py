"""What item-item models share: storage, calibration, memory of the last batch, saving."""

from __future__ import annotations

import gc
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.batches import Histories, Users
from aleator.data.interactions import Interactions
from aleator.device import BUDGETS
from aleator.models import item_item
from aleator.models.item_item import ItemItem, ItemTable, Room, gram_block, gram_rows, make_table
from aleator.models.similarities import Dense, Sparse

MODELS = [al.EASE(l2=20.0), al.GraphFilter(), al.ItemKNN(neighbours=12)]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)


@pytest.fixture(scope="module")
def data() -> Interactions:
    """90 users and 40 items of three tastes."""
    rng = np.random.default_rng(3)
    liked = rng.random((90, 40)) < np.where(np.subtract.outer(np.arange(90), np.arange(40)) % 3 == 0, 0.5, 0.08)
    liked[np.arange(90), np.arange(90) % 40] = True
    return Interactions.of(*np.nonzero(liked))


def store_of(model: al.Model) -> Dense | Sparse:
    assert isinstance(model, ItemItem)
    assert model.similarities is not None
    return model.similarities.store


def with_free(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(item_item, "free_memory", lambda device: n)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_gram_matrix_is_the_same_by_blocks_on_either_device(
    data: Interactions, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = data.csr.astype(np.float32)
    if weighted:
        x.data = np.linspace(0.5, 2, x.nnz, dtype=np.float32)
    expected = (x.T.astype(np.float64) @ x).toarray()
    monkeypatch.setitem(BUDGETS, "cpu", replace(BUDGETS["cpu"], gram_numbers=90 * 7))
    blocks = list(gram_rows(x, torch.device("cpu")))
    host = [block.toarray() for block in blocks if not isinstance(block, torch.Tensor)]
    assert len(host) == 6
    np.testing.assert_allclose(np.concatenate(host), expected, rtol=1e-5)
    rows = Histories(x.T.tocsr(), torch.device("cpu"))
    device = torch.cat([gram_block(rows, a, min(a + 9, 40)) for a in range(0, 40, 9)])
    np.testing.assert_allclose(device.numpy(), expected, rtol=1e-5)


@every_model
def test_an_observed_pair_owes_nothing_to_itself(model: ItemItem, data: Interactions) -> None:
    """Its score is that of the same history without it, with nothing fitted again."""
    model = model.with_defaults().fit(data)
    users = model.users([0, 5, 17])
    found = model.out_of_sample_pairs(users)
    assert found is not None
    torch.testing.assert_close(found, model.score_pairs(users))
    torch.testing.assert_close(found, model.score_block(users)[users.row, users.item], rtol=1e-5, atol=1e-6)
    history = data.item[data.user == 5].tolist()
    left = [model.score({"new": [i for i in history if i != item]}, [item]).item() for item in sorted(history)]
    torch.testing.assert_close(found[users.row == 1], torch.tensor(left), rtol=1e-4, atol=1e-5)


@every_model
def test_expectations_are_the_sums_fitted_to_the_label_by_least_squares(model: ItemItem, data: Interactions) -> None:
    everyone = list(range(90))
    raw = model.with_defaults(calibrate="none").fit(data).score(everyone).double()
    label = torch.from_numpy(data.csr.toarray()).double()
    w = torch.where(label > 0, 1.0, 0.1).sqrt().flatten()
    design = torch.stack([torch.ones_like(w), raw.flatten()], 1) * w[:, None]
    level, slope = torch.linalg.lstsq(design, (label.flatten() * w)[:, None]).solution.squeeze().tolist()
    scores = model.with_defaults().fit(data).score(everyone).double()
    torch.testing.assert_close(scores, level + slope * raw, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [al.GraphFilter, al.ItemKNN])
def test_dense_and_sparse_matrices_give_the_same_scores(
    kind: type[ItemItem], data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense = kind(neighbours=12).fit(data)
    monkeypatch.setitem(BUDGETS, "cpu", replace(BUDGETS["cpu"], dense_share=2.0))
    sparse = kind(neighbours=12).fit(data)
    assert (type(store_of(dense)), type(store_of(sparse))) == (Dense, Sparse)
    torch.testing.assert_close(sparse.score([0, 1, 2]), dense.score([0, 1, 2]), rtol=1e-4, atol=1e-5)


def test_where_all_similarities_do_not_fit_the_strongest_are_kept_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    n = 450  # too many for a dense matrix in the room below
    data = Interactions.of(*np.nonzero(np.random.default_rng(3).random((90, n)) < 0.3))
    whole = al.GraphFilter().fit(data)
    assert (whole.kept, caplog.records) == (None, [])
    with_free(monkeypatch, 2 * 24 * 70 * n)  # room for 70 entries an item
    with caplog.at_level(logging.WARNING):
        model = al.GraphFilter().fit(data)
    assert "only the 64 strongest neighbours of each item are kept" in caplog.text
    assert model.notes[0] in caplog.text
    assert model.kept == 64
    assert torch.equal(model.score([0, 1]), al.GraphFilter(neighbours=64).fit(data).score([0, 1]))
    model.save(tmp_path / "m")
    assert json.loads((tmp_path / "m" / "manifest.json").read_text())["learned"]["kept"] == 64
    with pytest.raises(al.AleatorError, match=r"80 neighbours of 450 items need .* GiB.*take 64 neighbours"):
        al.GraphFilter(neighbours=80).fit(data)
    with_free(monkeypatch, 24)
    with pytest.raises(al.AleatorError, match="take fewer neighbours"):
        al.GraphFilter().fit(data)


@every_model
def test_parts_of_one_batch_are_summed_once(
    model: ItemItem, data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model.with_defaults().fit(data)
    users = model.users([0, 1, 2, 3])
    calls: list[Users] = []
    whole = model.score_block(users)
    real = Dense.block

    def block(store: Dense, users: Users) -> torch.Tensor:
        calls.append(users)
        return real(store, users)

    monkeypatch.setattr(Dense, "block", block)
    for first in (0, 20):
        columns = torch.arange(first, first + 20)
        assert torch.equal(model.score_block(users, columns), whole[:, columns])
    assert len(calls) == 1
    model.score_block(users).fill_(7)
    assert torch.equal(model.score_block(users, torch.arange(40)), whole)


def test_the_last_batch_is_never_taken_for_another(data: Interactions) -> None:
    """Nor for the same one after fitting again."""
    model, every = al.GraphFilter().fit(data), torch.arange(40)
    users = model.users([0, 1, 2])
    before = model.score_block(users, every)
    heavier = replace(users, weight=2 * users.weight)
    assert not torch.allclose(model.score_block(heavier, every), before)
    torch.testing.assert_close(model.score_block(model.users([3, 4]), every), model.score([3, 4]))
    model.score_block(users, every)
    model.fit(data.take(np.arange(len(data)) % 2 == 0))
    assert not torch.allclose(model.score_block(users, every), before)


def test_the_last_batch_is_forgotten_with_its_users(data: Interactions) -> None:
    model = al.GraphFilter().fit(data)
    users = model.users([0, 1, 2])
    model.score_block(users, torch.arange(40))
    table = model.similarities
    assert table is not None
    assert table._last is not None
    del users
    gc.collect()
    assert table._last is None


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (al.EASE(l2=20.0), {"table"}),
        (al.GraphFilter(neighbours=8), {"table"}),  # an eighth of the entries or more
        (al.GraphFilter(neighbours=3), {"start", "column", "value"}),
    ],
    ids=["full", "a table", "sparse"],
)
def test_what_is_saved_is_compact_and_loads_as_it_was(
    model: ItemItem, names: set[str], data: Interactions, tmp_path: Path
) -> None:
    model = model.with_defaults().fit(data)
    _, tensors = model.pack()
    assert {name.removeprefix("model.") for name in tensors} == names
    model.save(tmp_path / "m")
    loaded = type(model).load(tmp_path / "m")
    assert type(store_of(loaded)) is type(store_of(model))
    assert torch.equal(loaded.score([0, 1, 2]), model.score([0, 1, 2]))


@pytest.mark.parametrize(("entries", "free", "kind"), [(13, 1 << 20, Dense), (13, 700, Sparse), (12, 1 << 20, Sparse)])
def test_entries_that_were_a_table_are_one_again_if_it_fits_and_is_not_much_larger_than_they_are(
    entries: int, free: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions wrote such folders, and a GPU does. A few entries must not claim a table of any size."""
    with_free(monkeypatch, free)
    table = torch.zeros(100)
    table[:entries] = 1.5
    saved = Dense(table.view(10, 10)).sparse().tensors()
    store = ItemTable.restore({"level": 0.0, "dense": True}, saved, 10, torch.device("cpu")).store
    assert type(store) is kind
    kept = store.dense() if isinstance(store, Sparse) else store
    assert torch.equal(kept.table.flatten(), table)


def test_a_table_with_few_entries_is_kept_as_a_sparse_matrix() -> None:
    """How many there are is known only once it is computed. What is saved then loads as it was."""
    for entries, kind in ((200, Dense), (199, Sparse)):
        block = torch.zeros(1600)
        block[:entries] = 1.0
        made = make_table(iter([block.view(40, 40)]), Room(True, None), 40, torch.device("cpu"), "test")
        assert type(made.store) is kind


@every_model
@pytest.mark.parametrize("options", [{}, {"sampled_items": 10}])
def test_uncertainty_is_trained_on_top(model: ItemItem, options: dict[str, Any], data: Interactions) -> None:
    estimator = al.FactorEstimator(dim=8, max_epochs=3, **options)
    aur = al.AUR(model, estimator=estimator).fit(data.split(seed=0))
    assert torch.isfinite(aur.score([0, 1])).all()
    torch.testing.assert_close(aur.expectation([0, 1]), model.with_defaults().fit(aur.fitted).score([0, 1]))
