"""Batches, evaluations and searches on Ray give what this process gives, also where workers are killed on the way.

One Ray with two cores serves the whole module. The kills are real ones: a work ends its own process with SIGKILL.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import aleator as al
from aleator.batch.run import Part, Writer
from aleator.engines.engine import Ask, started
from aleator.engines.on_ray import AGAIN, library, on_ray, start
from aleator.tuning.attempts import Asked, Measurer, Outcome
from tests.batch.helpers import lists_in
from tests.tuning.pretending import results

if importlib.util.find_spec("ray") is None:  # it is not imported yet: some of its settings are made before
    pytest.skip("needs the extra ray", allow_module_level=True)


@pytest.fixture(scope="module", autouse=True)
def ray() -> Iterator[Any]:
    before = dict(os.environ)
    os.environ.pop("RAY_ADDRESS", None)
    module = library(None)
    start(module, None, cores=2)
    module.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not find the tests
    yield module
    module.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    module.shutdown()
    os.environ.clear()
    os.environ.update(before)


def die_once(marker: str) -> None:
    """End this process, unless one has done so before."""
    if not os.path.exists(marker):
        with open(marker, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)


def mapped_file(address: int) -> str:
    """The file that a place in the memory of this process is mapped to. Empty if there is none."""
    with open("/proc/self/maps") as lines:
        for line in lines:
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            if first <= address < last:
                return line.split(maxsplit=5)[-1]
    return ""


# The engine


def test_each_piece_comes_once_with_its_result_and_few_run_at_a_time(ray: Any) -> None:
    ahead: list[int] = []
    results: dict[int, int] = {}

    def pieces() -> Iterator[int]:
        for piece in range(7):
            ahead.append(piece - len(results))
            yield piece

    with started("ray", 2) as engine:
        for piece, result in engine.run(lambda piece, ask: piece**2, pieces()):
            assert piece not in results
            results[piece] = result
    assert results == {piece: piece**2 for piece in range(7)}
    assert max(ahead) == 1  # besides the piece that is taken, one was running


def test_a_search_can_wait_for_a_result_before_its_next_piece(ray: Any) -> None:
    done: list[int] = []

    def pieces() -> Iterator[int | None]:
        yield 0
        while not done:
            yield None
        yield 1

    with started("ray", 2) as engine:
        done.extend(piece for piece, _ in engine.run(lambda piece, ask: None, pieces()))
    assert done == [0, 1]


def test_a_work_asks_who_takes_the_results(ray: Any) -> None:
    with started("ray", 2) as engine:
        asking = engine.run(lambda piece, ask: [ask((piece, n)) for n in range(3)], range(3), answer=lambda q: sum(q))
        assert dict(asking) == {0: [0, 1, 2], 1: [1, 2, 3], 2: [2, 3, 4]}


def test_errors_of_a_work_come_out_as_they_were_raised(ray: Any) -> None:
    def fail(piece: Exception, ask: Ask) -> None:
        raise piece

    with started("ray", None) as engine:
        with pytest.raises(al.AleatorError, match=r"^the loss is nan; try a smaller one\.$") as told:
            list(engine.run(fail, [al.AleatorError("the loss is nan", "try a smaller one")]))
        assert told.value.remedy == "try a smaller one"
        with pytest.raises(KeyError, match="figure"):
            list(engine.run(fail, [KeyError("figure")]))


def test_a_piece_that_ends_every_worker_is_told(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aleator.engines.on_ray.AGAIN", 0)
    assert AGAIN > 1

    def die(piece: int, ask: Ask) -> str:
        if piece == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return "whole"

    with started("ray", 2) as engine:
        with pytest.raises(al.AleatorError, match=r"a worker was lost 1 times at the same piece.*; take fewer workers"):
            list(engine.run(die, [1]))
        found = dict(engine.run(die, range(3), lost=lambda error: "lost"))
        assert found == {0: "whole", 1: "lost", 2: "whole"}


def test_workers_share_tensors_and_have_a_thread_for_each_core(ray: Any) -> None:
    shared = torch.arange(100_000.0)
    others = {"bfloat16": torch.ones(3, dtype=torch.bfloat16), "sparse": torch.eye(3).to_sparse_csr()}

    def look(piece: int, ask: Ask) -> tuple[Any, ...]:
        whole = torch.equal(shared, torch.arange(100_000.0)) and float(others["bfloat16"].sum()) == 3
        same = torch.equal(others["sparse"].to_dense(), torch.eye(3))
        return whole, same, mapped_file(shared.data_ptr()).startswith("/dev/shm/"), torch.get_num_threads()

    for workers, threads in ((1, 2), (2, 1)):
        with started("ray", workers) as engine:
            assert dict(engine.run(look, [0])) == {0: (True, True, sys.platform == "linux", threads)}


def test_more_workers_than_cores_are_refused(ray: Any) -> None:
    with pytest.raises(al.AleatorError, match="3 workers are wanted, and Ray has 2 cores; give at most 2"), on_ray(3):
        pass


def test_a_model_that_cannot_be_handed_over_is_refused(ray: Any) -> None:
    lock = __import__("threading").Lock()
    with started("ray", 1) as engine, pytest.raises(al.AleatorError, match=r"cannot be handed to .*; take engine proc"):
        list(engine.run(lambda piece, ask: lock.locked(), [0]))


@pytest.mark.parametrize(
    ("address", "says"),
    [("127.0.0.1:9", r"no Ray answers at '127.0.0.1:9' .*unset it"), ("ray://one:1", "address of a client of Ray")],
)
def test_a_cluster_that_does_not_answer_is_told(address: str, says: str) -> None:
    with pytest.raises(al.AleatorError, match=says):
        start(None, address)


# Batches


@dataclass(frozen=True)
class KilledWriter(Writer):
    """Its process is killed once, when a part is written and was not taken yet."""

    def __call__(self, part: Part, ask: Ask) -> Any:
        made = super().__call__(part, ask)
        if part.name.startswith("part-00003"):
            die_once(f"{self.folder}.killed")
        return made


def same_batches(folder: Path, model: Any, users: Any, **options: Any) -> dict[str, Any]:
    """Make a batch with each engine, compare the files, and return what Ray's was told."""
    one = al.recommend_batch(model, users, folder / "one", k=5, per_part=11, **options)
    ray = al.recommend_batch(model, users, folder / "ray", k=5, per_part=11, engine="ray", **options)
    assert {path.name for path in (folder / "one").iterdir()} == {path.name for path in (folder / "ray").iterdir()}
    for part in (folder / "one").glob("part-*"):
        assert part.read_bytes() == (folder / "ray" / part.name).read_bytes(), part.name
    assert one | {"out": "", "seconds": 0} == ray | {"out": "", "seconds": 0}
    assert json.loads((folder / "one" / "_SUCCESS").read_text()) == json.loads(
        (folder / "ray" / "_SUCCESS").read_text()
    )
    return ray


@pytest.fixture(scope="module")
def model(small_aur: Any, split: al.Split) -> al.AUR:
    """Ids and titles are texts; items have an attribute."""
    seen = split.everything
    data = al.read({"user": [f"u{u}" for u in seen.user], "item": [f"i{i}" for i in seen.item]})
    items = data.items.ids.tolist()
    data = data.with_attributes({"item": items, "half": ["low" if int(i[1:]) < 25 else "high" for i in items]})
    fitted: al.AUR = small_aur().fit(data.with_titles({item: f"thing {item}" for item in items}))
    return fitted


@pytest.fixture(scope="module")
def users(model: al.AUR) -> pl.DataFrame:
    ids = model.fitted.users.ids.tolist()[::-1]
    return pl.DataFrame({"user_id": [*ids, "new"], "segment": range(len(ids) + 1), "past": [""] * len(ids) + ["i4 i9"]})


@pytest.mark.parametrize(
    "options",
    [
        {"lam": 0.2, "explain": 2},
        {"where": {"half": "high"}, "deny": {"u3": ["i30", "i41"]}, "filter_seen": False},
        {"allow": ["i4", "i5", "i9", "i14", "i40"], "untrained": True, "format": "csv"},
    ],
)
def test_a_batch_on_ray_is_that_of_one_process(
    ray: Any, model: al.AUR, users: pl.DataFrame, tmp_path: Path, options: dict[str, Any]
) -> None:
    told = same_batches(tmp_path, model, users, history="past", **options)
    assert (told["users"], told["by_history"]) == (len(users), 1)


def test_a_killed_worker_costs_its_part_alone(
    ray: Any, model: al.AUR, users: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    al.recommend_batch(model, users[:-1], tmp_path / "one", k=5, per_part=11)
    monkeypatch.setattr("aleator.batch.run.Writer", KilledWriter)
    told = al.recommend_batch(model, users[:-1], tmp_path / "ray", k=5, per_part=11, engine="ray")
    assert Path(f"{tmp_path / 'ray'}.killed").exists()
    assert told["parts"] == 8
    names = {path.name for path in (tmp_path / "ray").iterdir()}  # nothing is left of the part that was not taken
    assert names == {*(f"part-{n:05}.parquet" for n in range(8)), "_journal.jsonl", "_SUCCESS"}
    found = lists_in(tmp_path / "ray")
    assert found["user_id"].to_list() == [user for user in users["user_id"][:-1] for _ in range(5)]
    assert found.equals(lists_in(tmp_path / "one"))


def test_one_engine_goes_on_where_the_other_stopped(
    ray: Any, model: al.AUR, users: pl.DataFrame, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"k": 5, "per_part": 11}
    al.recommend_batch(model, users[:-1], tmp_path / "a", **options)
    whole = lists_in(tmp_path / "a")
    for engine in ("ray", "process"):
        for n in (1, 2, 6):
            (tmp_path / "a" / f"part-0000{n}.parquet").unlink()
        assert al.recommend_batch(model, users[:-1], tmp_path / "a", engine=engine, **options)["resumed"] == 5
        assert lists_in(tmp_path / "a").equals(whole)
    with pytest.raises(al.AleatorError, match="is of other users than"):
        al.recommend_batch(model, users[:-1].with_columns(segment=0), tmp_path / "a", engine="ray", **options)


def test_a_folder_that_cannot_be_written_by_a_worker_is_told(
    ray: Any, model: al.AUR, users: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aleator.batch.run.Writer", lambda job, folder, form: Writer(job, folder / "gone", form))
    with pytest.raises(al.AleatorError, match=r"cannot be written.*run it again to go on"):
        al.recommend_batch(model, users[:-1], tmp_path / "out", k=5, engine="ray")


@pytest.mark.parametrize(
    "model", [al.EASE(), al.MultVAE(dim=4, max_epochs=1), al.ItemKNN()], ids=lambda m: type(m).__name__
)
def test_other_models_give_the_same_parts(ray: Any, model: Any, split: al.Split, tmp_path: Path) -> None:
    same_batches(tmp_path, model.fit(split), pl.DataFrame({"user_id": split.everything.users.ids.tolist()}))


# Evaluations


def test_an_evaluation_on_ray_is_that_of_one_process(ray: Any, fitted_aur: al.AUR, split: al.Split) -> None:
    options: dict[str, Any] = {"k": (5, 20), "memory": 1 << 14}  # several blocks
    one, other = (al.evaluate(fitted_aur, split, engine=name, **options) for name in ("process", "ray"))
    assert (one.users == other.users).all()
    assert (one.lists, one.about) == (other.lists, other.about)
    for protocol, metrics in one.per_user.items():
        for name, values in metrics.items():
            np.testing.assert_array_equal(other.per_user[protocol][name], values, f"{protocol} {name}")


# Searches


@dataclass(frozen=True)
class KilledMeasurer(Measurer):
    """Its process is killed once, in the middle of a training."""

    marker: str = ""

    def __call__(self, asked: Asked, ask: Ask) -> Outcome:
        def asking(check: Any) -> Any:
            answer = ask(check)
            if check.number == 2:
                die_once(self.marker)
            return answer

        return super().__call__(asked, asking)


SEARCH: dict[str, Any] = {
    "model": "multvae",
    "uncertainty": False,
    "trials": 5,
    "max_epochs": 4,
    "settings": {"model": {"dim": 4}},
}


def test_no_trial_of_a_killed_worker_is_lost_or_comes_twice(
    ray: Any, split: al.Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = al.tune(split, **SEARCH)
    marker, study = str(tmp_path / "killed"), tmp_path / "study.db"
    monkeypatch.setattr("aleator.tuning.attempts.Measurer", lambda search: KilledMeasurer(search, marker))
    tuned = al.tune(split, **SEARCH, study=study, engine="ray", workers=1)
    assert os.path.exists(marker)
    assert results(tuned) == results(through)  # with one worker, the same trials
    assert [row["trial"] for row in sorted(tuned.trials, key=lambda row: row["trial"])] == list(range(5))
    assert len(al.tune(split, **SEARCH, study=study).trials) == 5  # the study is as any other


def test_workers_search_side_by_side(ray: Any, split: al.Split) -> None:
    """The trials of an AUR take what won in the trial of the defaults, which they wait for."""
    options: dict[str, Any] = {"only": "uncertainty", "max_epochs": 1, "settings": {"model": {"dim": 4, "l2": 0.01}}}
    tuned = al.tune(split, trials=4, engine="ray", workers=2, **options)
    rows = sorted(tuned.trials, key=lambda row: row["trial"])
    assert [(row["trial"], row["default"], row["state"]) for row in rows] == [(n, n == 0, "complete") for n in range(4)]
    assert rows[0]["setting"] == rows[3]["setting"]


# Its own Ray


QUIET = """
import signal, sys, os
import aleator as al
from aleator.cli import main
from aleator.batch import run

class Killed(run.Writer):
    def __call__(self, part, ask):
        marker = f"{self.folder}.killed"
        if not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(part, ask)

run.Writer = Killed
main()
"""


def test_a_command_prints_nothing_of_ray(model: al.AUR, users: pl.DataFrame, tmp_path: Path) -> None:
    """Not even of a killed worker. It listens to nobody, and its end leaves no process."""
    model.save(tmp_path / "model")
    users[:-1].write_parquet(tmp_path / "users.parquet")
    words = ["recommend", "model", "--users", "users.parquet", "--out", "out", "--k", "3", "--json", "--engine", "ray"]
    environment = {**os.environ, "PYTHONPATH": str(Path(al.__file__).parents[1])}
    for name in ("RAY_ADDRESS", "RAY_DEDUP_LOGS_SKIP_REGEX"):
        environment.pop(name, None)
    command = [sys.executable, "-c", QUIET, *words, "--quiet"]
    ran = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "out.killed").exists()
    assert json.loads(ran.stdout)["users"] == len(users) - 1
    assert ran.stderr == ""
