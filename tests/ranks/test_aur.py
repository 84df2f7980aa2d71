"""An AUR on several processes: choices, lists, saving, and what happens when a process is killed or hangs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import aleator as al
from aleator.errors import AleatorError
from aleator.ranks import here
from aleator.training import journal
from aleator.training.watch import Epoch
from tests.ranks.test_fits import estimator, told, world
from tests.ranks.together import ended, run, start

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it forks")

DIES = 3  # the epoch of the estimator that the second process is killed in


def aur() -> al.AUR:
    fism = al.FISM(dim=6, max_epochs=3, check_every=1, shard="items")
    made = estimator(max_epochs=2)
    return al.AUR(contenders=[fism, al.EASE()], estimator=made, discount=0.0, residuals="in-sample", unobserved="model")


def fit_and_save(folder: Path) -> dict[str, Any]:
    """Fit with all choices open, save, and ask for lists."""
    split = world()
    model = aur().fit(split)
    model.save(folder / "model")
    lists = model.recommend([1, 2], k=5)
    return {
        "lam": model.lam_used,
        "race": [str(result) for result in model.race],
        "items": lists["item_id"].to_list(),
        "shapes": [list(tensor.shape) for tensor in model.estimator.tensors().values()],
        **told(model, split),
    }


def test_processes_choose_save_and_list_as_one_does(tmp_path: Path) -> None:
    (alone,) = run(fit_and_save, 1, tmp_path / "1")
    for found in (both := run(fit_and_save, 2, tmp_path / "2")):
        assert found["shapes"] == [[31, 8], [31, 8]]
        assert found["items"] == alone["items"]
        assert found["race"] == alone["race"]
        assert found["lam"] == alone["lam"]
        torch.testing.assert_close(torch.tensor(found["metrics"]), torch.tensor(alone["metrics"]), rtol=0, atol=1e-4)
    assert both[0]["scores"] == both[1]["scores"]
    loaded = al.AUR.load(tmp_path / "2" / "model")
    again = told(loaded, world())
    torch.testing.assert_close(torch.tensor(again["scores"]), torch.tensor(both[0]["scores"]), rtol=1e-5, atol=1e-5)
    assert [list(tensor.shape) for tensor in loaded.estimator.tensors().values()] == [[62, 8], [62, 8]]
    assert loaded.recommend([1, 2], k=5)["item_id"].to_list() == alone["items"]
    assert loaded.vectors().item_vectors.shape[0] == 62
    assert [path.name for path in (tmp_path / "2").iterdir() if path.name.startswith(".")] == []


def checkpointed(dies: bool) -> Callable[[Path], Any]:
    """A fit that is kept in a checkpoint, of which the second process is killed midway."""

    def fit(folder: Path) -> Any:
        journal.EVERY, journal.SHARE = 0.0, 1e9  # every step is saved
        seen = []

        def callback(epoch: Epoch) -> None:
            seen.append(epoch.epoch)
            if dies and here().rank == 1 and epoch.stage == "uncertainty estimator" and epoch.epoch == DIES:
                os.kill(os.getpid(), signal.SIGKILL)

        fism = al.FISM(dim=6, max_epochs=3, check_every=1, shard="items")
        made = estimator(max_epochs=4, init="spectral")
        model = al.AUR(fism, estimator=made, lam=0.5, residuals="in-sample", unobserved="model")
        model.fit(world(), callback=callback, checkpoint=folder / "checkpoint")
        return {"scores": model.score([1, 2, 3]).tolist(), "epochs": len(seen)}

    return fit


def test_the_others_of_a_killed_process_end_with_a_sentence_and_the_fit_goes_on(tmp_path: Path) -> None:
    whole = run(checkpointed(dies=False), 2, tmp_path / "whole")
    folder = tmp_path / "killed"
    processes = start(checkpointed(dies=True), 2, folder)
    other, killed = ended(processes, folder)
    assert killed is None
    assert processes[1].exitcode == -signal.SIGKILL
    assert other == {"error": "another of the 2 processes ended or did not answer; see what it said, and start the same "
                              "command again, which goes on from the checkpoint if there is one."}  # fmt: skip
    assert sorted(path.name for path in (folder / "checkpoint").iterdir()) == ["rank-0", "rank-1"]
    newest = sorted((folder / "checkpoint" / "rank-1").glob("*-state-*"))[-1]
    newest.unlink()  # as if it had been killed before it was written: the processes go on from the state before
    again = run(checkpointed(dies=False), 2, folder)
    assert [found["scores"] for found in again] == [found["scores"] for found in whole]
    assert all(found["epochs"] < whole[0]["epochs"] for found in again)
    assert not (folder / "checkpoint").exists()


def hang(folder: Path) -> None:
    if here().rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    here().wait()


def test_a_process_that_does_not_answer_ends_the_others(tmp_path: Path) -> None:
    processes = start(hang, 2, tmp_path, timeout=2)
    processes[0].join(60)
    assert processes[1].pid is not None
    os.kill(processes[1].pid, signal.SIGKILL)
    told, _ = ended(processes, tmp_path)
    assert "ended or did not answer" in told["error"]


def refusals(folder: Path) -> list[str]:
    """What is refused of a model that is shared out."""
    split = world()
    fism = al.FISM(dim=6, max_epochs=1, shard="items").fit(split)
    made = al.AUR(al.EASE(), estimator=estimator(max_epochs=1), residuals="constant", lam=0.5).fit(split)
    one_item = al.read(sp.csr_matrix(np.ones((3, 1), np.float32)))
    asked: list[Callable[[], Any]] = [
        lambda: fism.update(split.valid),
        lambda: made.vectors(),
        lambda: fism.user_vector([1, 2]),
        lambda: made.explain([1], [2]),
        lambda: fism.similar_items([1]),
        lambda: made.fingerprint,
        lambda: al.tune(split.train, trials=1),
        lambda: al.FISM(shard="items").fit_pairs(one_item, epochs=1),
    ]
    said = []
    for each in asked:
        with pytest.raises(AleatorError) as refused:
            each()
        said.append(str(refused.value))
    return said


def test_what_needs_all_rows_is_refused_in_one_sentence(tmp_path: Path) -> None:
    said, others = run(refusals, 2, tmp_path)
    assert said == others
    assert all(told.endswith("shared out over 2 processes; save it, and load it in one process.") for told in said[:6])
    assert said[6] == "tuning runs in one process, and 2 were started together; start one process."
    assert said[7] == "1 items cannot be shared out over 2 processes; start fewer processes."


def test_options_that_do_not_go_with_shared_items_are_refused() -> None:
    with pytest.raises(AleatorError, match="negatives is shared and the items are shared out"):
        al.FISM(shard="items", negatives="shared")
    with pytest.raises(AleatorError, match="joint training takes the rows of all items"):
        al.AUR(al.MultVAE(dropout=0.0), estimator=estimator(), joint=al.Joint())


def test_shared_items_mean_nothing_to_a_process_alone() -> None:
    split = world()
    alone, shared = (al.FISM(dim=6, max_epochs=1, shard=shard).fit(split) for shard in ("none", "items"))
    assert torch.equal(alone.z, shared.z)
    assert shared.vectors().item_vectors.shape[0] == 62
