"""Libraries that need an environment of their own: the scripts of docs/graft.md, run there, and the files they write.

ALEATOR_RECBOLE_PYTHON and ALEATOR_RECTOOLS_PYTHON name the Python of such an environment.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse.linalg as sla

import aleator as al

PAGE = (Path(__file__).parents[3] / "docs" / "graft.md").read_text()
SCRIPTS = {found[1]: found[0] for found in re.findall(r"^```py\n(# (\w+)_to_files\.py\n.*?)^```", PAGE, re.M | re.S)}


@pytest.fixture(scope="module")
def split() -> al.Split:
    data = al.simulate(n_users=150, n_items=60, per_user=150, skew=0.7, seed=0).interactions
    return data.split(valid=0.1, test=0.2, seed=0)


def check_files(folder: Path, split: al.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the files that a script writes are grafted as the page says."""
    monkeypatch.chdir(folder)
    by_factors = al.graft(("user.npy", "item.npy"), users="users.txt", items="items.txt").fit(split)
    assert by_factors.reconciled["users"] == {"both": split.train.n_users, "only_data": 0, "only_model": 0}
    assert by_factors.reconciled["items"]["only_model"] == 0
    by_table = al.graft("scores.csv", calibrate="none").fit(split)
    listed = pl.read_csv("scores.csv").filter(pl.col("user_id") == 7)
    found = by_factors.score([7], listed["item_id"].to_list())[0].tolist()
    assert found == sorted(found, reverse=True), "the table has the order of the factors"
    assert by_table.score([7], listed["item_id"].to_list())[0].tolist() == pytest.approx(listed["score"].to_list())
    assert not set(listed["item_id"]) & set(split.train.item[split.train.user == 7].tolist())


@pytest.mark.parametrize("name", ["recbole", "rectools"])
def test_the_script_of_the_page_runs_in_the_environment_of_the_library(
    name: str, split: al.Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = os.environ.get(f"ALEATOR_{name.upper()}_PYTHON")
    if python is None:
        pytest.skip(f"ALEATOR_{name.upper()}_PYTHON names no Python that has {name}")
    (tmp_path / "shop").mkdir()
    al.write(split.train, tmp_path / "shop" / "shop.inter")
    (tmp_path / "script.py").write_text(SCRIPTS[name])
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run([python, "script.py"], cwd=tmp_path, env=clean, check=True, capture_output=True)
    check_files(tmp_path, split, monkeypatch)


def test_files_of_that_form_are_grafted(split: al.Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same files without the library: items without a training pair are unknown there, and ids are texts."""
    data = split.train
    known = np.flatnonzero(data.popularity)
    u, s, v = sla.svds(data.csr[:, known].astype(np.float64), k=8, v0=np.ones(len(known)))
    x, y = (u * s).astype(np.float32), v.T.astype(np.float32)
    for side, matrix, ids in (("user", x, range(data.n_users)), ("item", y, known)):
        np.save(tmp_path / f"{side}.npy", matrix)
        (tmp_path / f"{side}s.txt").write_text("\n".join(map(str, ids)))
    scores = x @ y.T
    scores[data.csr[:, known].toarray() > 0] = -np.inf
    lines = ["user_id,item_id,score"]
    for user, row in enumerate(scores):
        lines += [f"{user},{known[item]},{row[item]}" for item in np.argsort(-row)[:20]]
    (tmp_path / "scores.csv").write_text("\n".join(lines) + "\n")
    check_files(tmp_path, split, monkeypatch)
