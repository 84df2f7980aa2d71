"""Fits on 1, 2 and 4 processes: the same figures and scores, the bytes that are sent, and the rows that each has."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import aleator as al
from aleator.aur.joint import learn_jointly
from aleator.data.simulate import simulate
from aleator.models.base import Model
from aleator.ranks import here
from aleator.training.stop import Stop
from aleator.uncertainty.objective import Objective
from tests.ranks.together import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it forks")

EPOCHS, BATCH, DIM = 2, 23, 8
SIZES = (1, 2, 4)
COMMON: dict[str, Any] = {"max_epochs": EPOCHS, "batch_size": BATCH}
BY_USERS: dict[str, Callable[[], Model]] = {
    "MultVAE": lambda: al.MultVAE(hidden=DIM, dim=4, dropout=0.3, kl=0.1, **COMMON),
    "LightGCN": lambda: al.LightGCN(dim=DIM, layers=2, **COMMON),
    "LightGCN, bpr": lambda: al.LightGCN(dim=DIM, layers=2, loss="bpr", **COMMON),
    "MF": lambda: al.MF(solver="adam", dim=DIM, l2=0.01, **COMMON),
    "MF, negatives of each user": lambda: al.MF(solver="adam", dim=DIM, l2=0.01, negatives="each", **COMMON),
    "PMF": lambda: al.PMF(dim=DIM, **COMMON),
    "ZeroSum": lambda: al.ZeroSum(dim=DIM, regulariser="pos2neg2", **COMMON),
    "FISM": lambda: al.FISM(dim=DIM, history_dropout=0.5, **COMMON),
}
BY_ITEMS: dict[str, Callable[[], Model]] = {
    "FISM by items": lambda: al.FISM(dim=DIM, history_dropout=0.5, shard="items", **COMMON),
    "FISM by items, with biases": lambda: al.FISM(dim=DIM, bias=True, shard="items", **COMMON),
}


def estimator(**options: Any) -> al.FactorEstimator:
    return al.FactorEstimator(**{"dim": DIM, "precision": "float32", "shard": "items", **COMMON} | options)


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "spectral": lambda: estimator(init="spectral"),
    "random": lambda: estimator(init=0.01, history_dropout=0.3),
    "with an activation": lambda: estimator(init=0.01, activation="tanh"),
    "on sampled items": lambda: estimator(init="spectral", sampled_items=20),
    "on sampled rows": lambda: estimator(init="spectral", sampled_items=3, batch_size=2),
    "by users": lambda: estimator(init="spectral", shard="none"),
    "lean": lambda: estimator(init="spectral", optimizer="lean"),
    "lean, whole": lambda: estimator(init="spectral", optimizer="lean", shard="none"),
    "MLP, by users": lambda: al.MLPEstimator(hidden=DIM, **COMMON),
}


def world() -> al.Split:
    data = simulate(n_users=90, n_items=62, per_user=60, skew=0.8, seed=1).interactions
    return data.split(valid=0.1, test=0.2, seed=0)


def told(model: Any, split: al.Split) -> dict[str, Any]:
    """Metrics and some scores."""
    report = al.evaluate(model, split, k=10)
    means = [report.mean(p, f"{m}@10") for p in ("overall", "tail_absolute") for m in ("recall", "ndcg")]
    return {"metrics": means, "scores": model.score(list(split.train.users.decode(torch.arange(20).numpy()))).tolist()}


def fit_all(folder: Path) -> dict[str, Any]:
    """Fit every model and estimator, for a fixed number of epochs."""
    split, found = world(), {}
    for name, make in (BY_USERS | BY_ITEMS).items():
        model, before = make(), here().sent
        model.fit_pairs(split.train, epochs=EPOCHS)
        sent = here().sent - before
        rows = {key: list(tensor.shape) for key, tensor in model.tensors().items()}
        found[name] = {"sent": sent, "rows": rows, **told(model, split)}
    vae, beside = al.MultVAE(hidden=DIM, dim=4, dropout=0.0, **COMMON), estimator(init=0.01, shard="none")
    vae.fit_pairs(split.train, epochs=EPOCHS)
    beside.learn(vae.histories, vae, Objective(floor=0.1), Stop(epochs=1))
    log = learn_jointly(al.Joint(), vae, beside, Objective(floor=0.1), vae.histories, Stop(epochs=EPOCHS), seed=0)
    found["joint training"] = {"loss": log.rows[-1]["loss"], **told(vae, split)}
    ease = al.EASE()
    ease.fit_pairs(split.train)
    for name, made in ESTIMATORS.items():
        each, before = made(), here().sent
        each.learn(ease.histories, ease, al.AUR(ease).objective, Stop(epochs=EPOCHS))
        sent = here().sent - before
        users = ease.histories.batch(torch.arange(20))
        found[name] = {
            "sent": sent,
            "rows": {key: list(tensor.shape) for key, tensor in each.tensors().items()},
            "scores": each.log_variance(users).tolist(),
            "some": each.log_variance(users, torch.tensor([3, 60, 5])).tolist(),
            "observed": each.observed(users).tolist(),
            "loss": each.log.rows[-1]["loss"],
        }
    return found


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Any]]:
    """What each process found, by the number of processes."""
    return {size: run(fit_all, size, tmp_path_factory.mktemp(f"ranks-{size}")) for size in SIZES}


def _close(found: Any, reference: Any, within: float) -> None:
    torch.testing.assert_close(torch.tensor(found), torch.tensor(reference), rtol=within, atol=within)


@pytest.mark.parametrize("name", [*BY_USERS, *BY_ITEMS, "joint training"])
@pytest.mark.parametrize("size", SIZES[1:])
def test_a_model_is_the_same_on_several_processes(fits: dict[int, list[Any]], name: str, size: int) -> None:
    alone = fits[1][0][name]
    for found in fits[size]:
        _close(found[name]["metrics"], alone["metrics"], 1e-4)
        _close(found[name]["scores"], alone["scores"], 1e-5)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("size", SIZES[1:])
def test_an_estimator_is_the_same_on_several_processes(fits: dict[int, list[Any]], name: str, size: int) -> None:
    alone = fits[1][0][name]
    within = 2e-2 if name == "lean" else 1e-4  # its second moments are factored over the rows of each process
    for found in fits[size]:
        for what in ("scores", "some", "observed", "loss"):
            _close(found[name][what], alone[what], within)


def test_each_process_has_its_rows_of_what_is_shared_out_by_items(fits: dict[int, list[Any]]) -> None:
    for name in (*BY_ITEMS, "spectral", "random", "on sampled rows"):
        (whole,) = fits[1]
        for size in SIZES:
            tables = [found[name]["rows"] for found in fits[size]]
            for key, (rows, *width) in whole[name]["rows"].items():
                assert all(table[key][1:] == width for table in tables)
                assert sum(table[key][0] for table in tables) == rows
                assert max(table[key][0] for table in tables) == -(-rows // size)


def test_bytes_are_those_of_the_formula(fits: dict[int, list[Any]]) -> None:
    """The formulas of docs/distributed.md, for the sums of whole fits."""
    train = world().train
    users = int((train.csr.getnnz(1) > 0).sum())
    steps = EPOCHS * -(-users // BATCH)

    def numbers(name: str) -> int:
        return sum(torch.Size(shape).numel() for shape in fits[1][0][name]["rows"].values())

    embeddings = (train.n_users + train.n_items) * DIM
    for size in SIZES:
        ring = 2 * (size - 1) / size
        for name, of in (("MultVAE", numbers("MultVAE")), ("LightGCN", embeddings), ("FISM", numbers("FISM"))):
            expected = ring * 4 * (steps * (of + 1) + of / 2)  # the gradients and the loss; at first the parameters
            assert [found[name]["sent"] for found in fits[size]] == pytest.approx([expected] * size)
        agreed = 2 * 4  # twice the ranks agree whether the optimiser of the estimator is lean
        for name, once in (("FISM by items", 0), ("random", agreed), ("with an activation", agreed)):
            # p and its gradient; the loss of an epoch
            expected = ring * (2 * 4 * DIM * EPOCHS * users + 8 * EPOCHS + once)
            assert [found[name]["sent"] for found in fits[size]] == pytest.approx([expected] * size)
        start = 4 * 4 * (train.n_users * DIM + DIM**2 + 1) + 4 * users * (DIM + train.n_items) + 8 * len(train)
        expected = ring * (2 * 4 * DIM * EPOCHS * users + 8 * EPOCHS + agreed + start + (8 * DIM**2 + 8 * DIM + 16) / 2)
        assert [found["spectral"]["sent"] for found in fits[size]] == pytest.approx([expected] * size)
