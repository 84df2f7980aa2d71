"""Each benchmark at a tiny size runs to its end, prints its table and writes its line. No speed is checked."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import aleator as al

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import default  # noqa: E402
import growth  # noqa: E402
import memory  # noqa: E402
import recommend  # noqa: E402
from epochs import draw  # noqa: E402

KEYS = {"benchmark", "rows", "machine", "versions", "command"}
EXACT = {"faiss flat", "usearch exact", "LanceDB scanned", "Qdrant local"}
WORLD = ("--users", "80", "--items", "60", "--dim", "4", "--repeats", "1")


def run(script: str, *options: object, folder: Path, device: bool = True) -> dict[str, Any]:
    """Run a benchmark and check what it printed. Returns the line that it wrote."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "src"),
        "NUMBA_DISABLE_JIT": "1",  # on so few data, ranx takes a second interpreted and most of a minute compiled
    }
    words = [*(("--device", "cpu") if device else ()), "--json", "out.jsonl", *map(str, options)]
    ran = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    (line,) = (folder / "out.jsonl").read_text().splitlines()
    told: dict[str, Any] = json.loads(line)
    assert told.keys() >= KEYS
    assert told["benchmark"] == script
    assert told["command"] == f"{script}.py {' '.join(words)}"
    table = ran.stdout[ran.stdout.index("\njob ") :].strip().splitlines()
    assert table[-1].startswith("ratio = ours / reference")
    assert len(table) == len(told["rows"]) + 2
    for row in told["rows"]:
        assert row["ours"] > 0
        assert row["ratio"] == (row["ours"] / row["reference"] if row["reference"] else None)
    return told


def test_evaluation_gives_the_figures_of_every_other_library(tmp_path: Path) -> None:
    told = run("evaluation", *WORLD, folder=tmp_path)
    assert {(row["job"], row["against"]) for row in told["rows"]} >= {
        ("lists", "numpy loop"), ("lists", "ranx"), ("whole", "torch loop")
    }  # fmt: skip
    recalls = [row["more"]["recall@20"] for row in told["rows"]]
    assert min(recalls) > 0
    assert recalls == pytest.approx([recalls[0]] * len(recalls), abs=1e-4)


def test_recommend_stands_beside_implicit_and_itself(tmp_path: Path) -> None:
    options = (*WORLD, "--estimator-dim", 4, "--k", 10, "--calls", 3, "--folder", "models", "--models", "MF", "MF-AUR")
    told = run("recommend", *options, "--sample", 5, folder=tmp_path)
    jobs = {row["job"] for row in told["rows"]}
    assert jobs >= {"all users, MF", "all users, MF-AUR", "one user, MF-AUR, newcomer", "one user, MF-AUR, busy"}
    assert {path.name for path in (tmp_path / "models").iterdir()} == {"MF", "MF-AUR"}


def test_recommend_refuses_lists_that_are_not_those_of_all_scores(fitted_aur: Any) -> None:
    who = fitted_aur.fitted.users.ids.tolist()
    frame = fitted_aur.recommend(who, k=5)
    recommend.check(fitted_aur, frame, 5)
    worse = fitted_aur.recommend(who, k=6).filter(pl.col("rank") != 5)
    with pytest.raises(SystemExit, match="is not that of all scores"):
        recommend.check(fitted_aur, worse, 5)


def test_indexes_stand_beside_the_exact_lists(tmp_path: Path) -> None:
    for library in ("faiss", "usearch", "lancedb", "qdrant_client"):
        pytest.importorskip(library, reason="needs the extra index")
    told = run("index", *WORLD, "--estimator-dim", 4, "--k", 10, "--asked", 8, folder=tmp_path)
    exact = [row["more"] for row in told["rows"] if row["job"].split(",")[0] in EXACT]
    assert len(exact) == len(EXACT)
    assert {row["same lists"] for row in exact} == {1.0}
    assert all(row["more"]["recall at 0.5"] > 0 for row in told["rows"])


def test_fit_stands_beside_implicit(tmp_path: Path) -> None:
    (row,) = run("fit", *WORLD, "--iterations", 2, folder=tmp_path)["rows"]
    assert row["against"] == "implicit's ALS"
    assert row["more"]["recall@20"] == pytest.approx(row["more"]["theirs"], abs=0.1)


def test_fits_at_once_are_set_beside_one_alone(tmp_path: Path) -> None:
    told = run("side_by_side", *WORLD, "--max-epochs", 1, "--at-once", 2, folder=tmp_path)
    assert [row["job"] for row in told["rows"]] == ["mf-AUR alone", "2 at once"]


def test_memory_is_that_of_fresh_processes(tmp_path: Path) -> None:
    told = run("memory", *WORLD, "--jobs", "fit-mf", folder=tmp_path)
    assert [row["job"] for row in told["rows"]] == ["load", "fit-mf"]
    assert all(row["ours"] > 50 for row in told["rows"])  # megabytes; torch alone takes more


@pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")
def test_processes_that_fit_together_stand_beside_one(tmp_path: Path) -> None:
    small = ("--estimator-dim", 4, "--processes", 1, 2, "--jobs", "estimator", "--epochs", 2)
    alone, two = run("ranks", *WORLD, *small, folder=tmp_path, device=False)["rows"]
    assert (alone["job"], two["job"]) == ("estimator, 1", "estimator, 2")
    assert two["more"]["bytes"] == pytest.approx(two["more"]["formula"], rel=1e-2)  # and the loss of an epoch
    assert float(two["more"]["off"]) <= 1e-4
    assert 2 * two["more"]["tables"] == alone["more"]["tables"]


def test_a_batch_is_killed_and_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    sizes = ("--few", 40, "--estimator-dim", 4, "--per-part", 10, "--kills", 1, "--k", 5)
    told = run("batch", *WORLD, "--per-user", 60, *sizes, folder=tmp_path)
    assert told["checked"] == {"equal parts": 8, "users with one list": 80}
    assert {row["unit"] for row in told["rows"]} == {"s", "MB"}


def test_every_job_whose_memory_is_measured(tmp_path: Path) -> None:
    options = {"dataset": "simulated", "users": 80, "items": 60, "per_user": 200, "device": "cpu"}
    options |= {"dim": 4, "estimator_dim": 4, "epochs": 2, "k": 10}
    for job in memory.JOBS:
        assert memory.work(job, str(tmp_path), options)["seconds"] > 0


def test_growth_fits_exponents_and_draws_them(tmp_path: Path) -> None:
    sizes = ("--users", 64, "--items", 64, "--pairs", 256, "--doublings", 1, "--axes", "pairs", "--jobs", "epoch")
    small = ("--dim", 4, "--sampled-items", 16, "--epochs", 2, "--repeats", 1)
    told = run("growth", *sizes, *small, "--plot", "growth.png", folder=tmp_path)
    (row,) = told["rows"]
    assert row["job"] == "epoch, pairs"
    assert row["more"]["exponent"] == pytest.approx(math.log2(row["ratio"]))
    assert [point["size"] for point in told["points"]] == [256, 512]
    assert (tmp_path / "growth.png").stat().st_size > 1000


def test_every_job_whose_growth_is_measured(tmp_path: Path) -> None:
    al.MF(dim=4, device="cpu").fit(al.read(draw(40, 30, 200))).save(tmp_path / "mf")
    for job in growth.JOBS:
        assert growth.work(job, str(tmp_path), dim=4, sampled_items=16, epochs=2, repeats=1, device="cpu") > 0


def test_a_test_part_of_one_unseen_item_each() -> None:
    split = growth.one_each(al.read(draw(40, 30, 200)))
    assert split.test.user.tolist() == list(range(40))
    assert split.train.csr.multiply(split.test.csr).nnz == 0


def test_loading_reads_a_file_that_it_wrote(tmp_path: Path) -> None:
    told = run("loading", "--rows", 3000, "--users", 100, "--items", 50, folder=tmp_path, device=False)
    assert [row["unit"] for row in told["rows"]] == ["s", "MB", "MB"]
    assert told["data"]["rows"] == 3000
    assert 0 < told["data"]["pairs"] < 3000  # some pairs repeat


def test_folders_are_saved_loaded_and_shared(tmp_path: Path) -> None:
    told = run("folders", "--megabytes", 1, "--workers", 2, "--repeats", 1, folder=tmp_path, device=False)
    assert [row["job"] for row in told["rows"]][:3] == ["save", "load", "verify"]
    assert [row["job"] for row in told["rows"]][-2:] == ["memory, 1 at once", "memory, 2 at once"]
    assert told["model"]["megabytes"] >= 1


@pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")
def test_the_service_is_loaded_and_replaced(tmp_path: Path) -> None:
    options = ("--megabytes", 1, "--connections", 2, "--seconds", 1, "--workers", 1)
    told = run("serve", *options, folder=tmp_path, device=False)
    assert [row["job"] for row in told["rows"]][:2] == ["lists per second", "p50"]
    assert {row["more"]["errors"] for row in told["rows"] if row["more"]} == {0}


def test_the_default_fits_and_saves_in_a_fresh_process(
    tmp_path: Path, split: al.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name, part in (("train", split.train), ("valid", split.valid), ("test", split.test)):
        al.write(part, tmp_path / f"{name}.npz")
    args = argparse.Namespace(dataset=str(tmp_path), data_root=None, device="cpu")
    wall, imports, job = default.from_archive("MF-AUR", args, tmp_path / "model")
    assert 0 < imports < wall
    assert 0 < job < wall
    saved = al.load_model(tmp_path / "model")
    assert isinstance(saved, al.AUR)
    assert isinstance(saved.model, al.MF)


def test_a_race_stands_beside_the_setting_that_won(split: al.Split) -> None:
    row = default.race("MF-AUR", split, "cpu", 1)
    assert row.reference
    assert row.more["compared"] == 5
    assert row.more["won"].startswith("MF, residuals ")


@pytest.mark.parametrize("power", [0, 1, 1.5])
def test_the_exponent_of_a_power_is_that_power(power: float) -> None:
    sizes = [1024, 2048, 4096, 8192]
    slope, spread = growth.exponent(sizes, [0.3 * size**power for size in sizes])
    assert slope == pytest.approx(power, abs=1e-9)
    assert spread == pytest.approx(0, abs=1e-6)
    off = [0.3 * size**power * factor for size, factor in zip(sizes, (1.1, 0.9, 0.9, 1.1), strict=True)]
    slope, spread = growth.exponent(sizes, off)
    assert slope == pytest.approx(power, abs=1e-9)
    assert 0.1 < spread < 1


def test_fits_from_disk_are_measured_and_have_the_bits_of_memory(tmp_path: Path) -> None:
    sizes = ("--users", 100, "--items", 200, "--pairs", 4000, "--small-pairs", 3000, "--dim", 4, "--epochs", 1)
    told = run("on_disk", *sizes, "--iterations", 1, folder=tmp_path, device=False)
    assert [row["job"] for row in told["rows"]] == ["world", "read", "mf", "fism-aur", "memory"]
    assert told["world"]["same bits as in memory"] == '{"mf": true, "fism-aur": true}'


def test_huge_tables_are_measured_by_both_optimizers(tmp_path: Path) -> None:
    sizes = ("--users", 100, "--items", 200, "--pairs", 4000, "--dim", 4, "--sampled-items", 10, "--valid", 0.1)
    told = run("huge", *sizes, folder=tmp_path)
    assert [row["job"] for row in told["rows"]] == ["adam", "lean"]
    needed = [row["more"]["needed"] for row in told["rows"]]
    assert needed[1] < needed[0] / 2


def test_the_start_stands_beside_that_of_pytorch(tmp_path: Path) -> None:
    told = run("start", "--repeats", 1, folder=tmp_path, device=False)
    assert [row["job"] for row in told["rows"]] == [
        "import aleator", "first use", "aleator --help", "aleator fit --help"
    ]  # fmt: skip
    assert {row["against"] for row in told["rows"]} == {"import torch"}


def test_lean_stands_beside_adam(tmp_path: Path) -> None:
    small = ("--per-user", 100, "--estimator-dim", 4, "--max-epochs", 1, "--lrs", 1)
    told = run("lean", *WORLD, *small, folder=tmp_path)
    assert [row["against"] for row in told["rows"]] == ["adam"] * 6
