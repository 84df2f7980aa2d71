"""A fit from pairs on disk is that from memory, to the bit, and no model takes them all into memory unasked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import aleator as al
from aleator import device
from aleator.batches import Histories, Users
from aleator.errors import AleatorError

Splits = tuple[al.Split, al.Split]  # in memory, and on disk


def estimator() -> al.FactorEstimator:
    return al.FactorEstimator(dim=6, init="spectral", max_epochs=2)


def fism() -> al.FISM:
    return al.FISM(dim=6, max_epochs=2)


FITS: dict[str, Callable[[], al.Model | al.AUR]] = {
    "MF": lambda: al.MF(dim=6, iterations=3),
    "MF by Adam": lambda: al.MF(dim=6, solver="adam", l2=0.01, max_epochs=2),
    "FISM": fism,
    "Popularity": al.Popularity,
    "FISM-AUR": lambda: al.AUR(fism(), prior=0.0, estimator=estimator()),
    "MLP": lambda: al.AUR(fism(), lam=0.5, estimator=al.MLPEstimator(max_epochs=1)),
}


@pytest.fixture
def splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Splits:
    """The same split in memory and on disk, where work on all pairs takes several batches."""
    few = {kind: replace(budget, listed_pairs=100) for kind, budget in device.BUDGETS.items()}
    monkeypatch.setattr(device, "BUDGETS", few)
    world = al.simulate(n_users=80, n_items=50, per_user=400, seed=0).interactions
    al.write(world, tmp_path / "pairs.parquet")
    there = al.read(tmp_path / "pairs.parquet", on_disk=tmp_path / "cache")
    here = al.read(tmp_path / "pairs.parquet")
    return here.split(valid=0.1, test=0.2, seed=0), there.split(valid=0.1, test=0.2, seed=0)


@pytest.mark.parametrize("kind", FITS)
def test_a_fit_from_disk_is_that_from_memory(kind: str, splits: Splits) -> None:
    here, there = (FITS[kind]().fit(split) for split in splits)
    assert there.histories.mapped
    everyone = torch.arange(there.histories.n_users)
    with torch.no_grad():
        scores = [model.score_block(model.histories.batch(everyone)) for model in (here, there)]
    assert torch.equal(*scores)
    assert str(al.evaluate(here, splits[0])) == str(al.evaluate(there, splits[1]))


def test_the_default_aur_takes_pairs_on_disk(splits: Splits, tmp_path: Path) -> None:
    aur = al.AUR(fism(), estimator=estimator()).fit(splits[1].train)  # its own validation part, the race and the prior
    assert 0 <= aur.lam_used <= 1
    aur.save(tmp_path / "model")
    again = al.load_model(tmp_path / "model")
    assert again.recommend([0, 1], k=3)["item_id"].to_list() == aur.recommend([0, 1], k=3)["item_id"].to_list()


def test_weights_on_disk_count_as_in_memory(tmp_path: Path) -> None:
    pairs = {"user": [1, 1, 2, 2, 3, 3], "item": [1, 2, 2, 3, 1, 3], "weight": [0.5, 2.0, 1.0, 3.0, 0.1, 1.0]}
    here = al.read(pairs)
    al.write(here, tmp_path / "pairs.parquet")
    there = al.read(tmp_path / "pairs.parquet", on_disk=tmp_path / "cache")
    factors = [al.MF(dim=2, l2=0.01).fit(data).table for data in (here, there)]
    assert torch.equal(factors[0].items, factors[1].items)


def test_batches_are_those_of_memory(splits: Splits) -> None:
    cpu = torch.device("cpu")
    here, there = (Histories.of(split.train, cpu) for split in splits)
    index = torch.tensor([5, 3, 70])
    for name in Users.__dataclass_fields__:
        a, b = (getattr(histories.batch(index), name) for histories in (here, there))
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        assert not isinstance(a, torch.Tensor) or a.dtype == b.dtype
    assert torch.equal(here.popularity, there.popularity)
    assert here.spans == there.spans
    assert len(there.spans) > 3


def test_some_histories_alone_are_as_before_and_the_others_empty(splits: Splits) -> None:
    histories = Histories.of(splits[1].train, torch.device("cpu"))
    some = torch.tensor([2, 7, 30])
    only = histories.only(some)
    assert torch.equal(only.batch(some).item, histories.batch(some).item)
    assert int(only.size.sum()) == int(histories.size[some].sum())


@pytest.mark.parametrize("model", [al.EASE, al.LightGCN, al.IPS])
def test_a_model_that_takes_all_pairs_into_memory_is_refused(model: type[al.Model], splits: Splits) -> None:
    with pytest.raises(AleatorError, match="takes all pairs into memory, and these are on disk; take FISM"):
        model().fit(splits[1])


def test_residuals_out_of_sample_are_refused(splits: Splits) -> None:
    with pytest.raises(AleatorError, match="residuals loo take all pairs into memory"):
        al.AUR(fism(), residuals="loo", estimator=estimator()).fit(splits[1])
