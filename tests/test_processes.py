"""Several processes answer from one model: forked after their parent used it, or with a folder that they share."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from tests.forks import LONGEST, in_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")
USERS = list(range(60))
served: dict[str, al.AUR] = {}  # what the children of a pool inherit


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An AUR whose products are large enough to be shared out among threads."""
    data = al.simulate(n_users=200, n_items=1500, per_user=40, seed=0).interactions
    aur = al.AUR(
        al.MF(dim=64, l2=0.01, iterations=2),
        estimator=al.FactorEstimator(dim=256, max_epochs=1),
        lam=0.5,
        residuals="in-sample",
        unobserved="constant",
    )
    place = tmp_path_factory.mktemp("served") / "model"
    aur.fit(data).save(place)
    return place


@pytest.fixture
def parent(folder: Path, two_threads: None) -> al.AUR:
    """A model that its process loaded and used, with all its threads."""
    model = al.load_model(folder, device="cpu")
    assert isinstance(model, al.AUR)
    torch.ones(1 << 20).sin().sum()
    model.recommend(USERS, k=10)
    assert len(os.listdir("/proc/self/task")) > 1  # there are threads that a child will not have
    return model


def answers(model: al.AUR) -> tuple[list[Any], list[Any]]:
    """What each part of the interface says: lists, and numbers."""
    some = model.recommend(USERS, k=10)
    listed = [
        some,
        model.recommend({"new": model.fitted.popularity.argsort()[-5:].tolist()}, k=5, lam=0.2),
        model.rerank(some.to_pandas()[["user_id", "item_id"]], k=3),
    ]
    parts = model.score(USERS), model.uncertainty(USERS[:3]), torch.from_numpy(model.vectors().user_vectors)
    return listed, [part.numpy() for part in parts]


def test_a_forked_process_answers_from_the_model_that_its_parent_loaded_and_used(parent: al.AUR) -> None:
    """As the workers of a pre-forking server do. A child of a child does too."""
    lists, numbers = answers(parent)
    for job in (partial(answers, parent), lambda: in_child(partial(answers, parent)).result):
        child = in_child(job)
        assert child.signal == 0, "it hung"
        assert all(found.equals(expected) for found, expected in zip(child.result[0], lists, strict=True))
        for found, expected in zip(child.result[1], numbers, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    again = answers(parent)
    assert all(np.array_equal(found, expected) for found, expected in zip(again[1], numbers, strict=True))


def test_a_forked_process_has_one_thread_and_its_parent_keeps_its_own(parent: al.AUR) -> None:
    assert in_child(torch.get_num_threads).result == 1
    assert torch.get_num_threads() == 2


def test_a_forked_process_can_load_a_model_and_fit_one(parent: al.AUR, folder: Path) -> None:
    expected = parent.score(USERS[:3])
    found = in_child(lambda: al.load_model(folder, device="cpu", verify=False).score(USERS[:3]).tolist())
    torch.testing.assert_close(torch.tensor(found.result), expected)
    assert in_child(lambda: al.EASE(device="cpu").fit(parent.fitted).score([0]).shape).result == (1, 1500)


@pytest.fixture
def pool(parent: al.AUR) -> Iterator[Any]:
    """Processes that multiprocessing forks, which is its default on Linux up to Python 3.13."""
    served["model"] = parent
    with multiprocessing.get_context("fork").Pool(2) as made:
        yield made


def recommended(user: int) -> list[int]:
    listed: list[int] = served["model"].recommend([user], k=5)["item_id"].to_list()
    return listed


def framed(user: int) -> Any:
    return served["model"].recommend([user], k=5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_pool_of_multiprocessing_answers(pool: Any, parent: al.AUR) -> None:
    expected = [parent.recommend([user], k=5) for user in USERS[:8]]
    assert pool.map_async(recommended, USERS[:8]).get(LONGEST) == [frame["item_id"].to_list() for frame in expected]
    frames = pool.map_async(framed, USERS[:8]).get(LONGEST)
    assert all(found.equals(frame) for found, frame in zip(frames, expected, strict=True))


def test_processes_that_load_a_folder_share_its_memory(folder: Path, parent: al.AUR) -> None:
    """The tensors of the file are mapped, and nobody writes into them."""

    def mapped() -> tuple[int, int]:
        model = al.load_model(folder, device="cpu")
        model.recommend(USERS, k=5)
        return written_of(folder)

    assert mapped() == in_child(mapped).result
    size, written = mapped()
    assert size > 1 << 20
    assert written == 0


def written_of(folder: Path) -> tuple[int, int]:
    """Bytes of the folder's tensors that this process maps, and bytes of them that it has a copy of its own of."""
    mapped = own = 0
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *rest = line.split()
        if "-" in name and not name.endswith(":"):
            inside = str(folder) in line
        elif inside and name == "Size:":
            mapped += int(rest[0]) << 10
        elif inside and name == "Anonymous:":
            own += int(rest[0]) << 10
    return mapped, own
