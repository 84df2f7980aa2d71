"""A messy export of a shop goes from file to list in three commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import aleator as al
from tests.cli.conftest import SMALL, Run

COLUMNS = ("--user", "Kunde", "--item", "Artikel", "--time", "Datum", "--weight", "Menge", "--rating", "Menge")
WRITTEN = ("--encoding", "latin-1", "--decimal", ",", "--missing", "drop", "--min-rating", "0.5")
DATES = ("--dates", "%d.%m.%Y", "--dates", "%m/%d/%Y %H:%M", "--dates", "%Y-%m-%d %H:%M:%S")
MESSY = (*COLUMNS, *WRITTEN, *DATES)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Semicolons, decimal commas, three forms of dates, Latin-1, missing customers, returns and repeated rows."""
    world = al.simulate(n_users=60, n_items=40, per_user=80, skew=0.7, seed=3).interactions
    rng = np.random.default_rng(0)
    forms = ("{d:02}.12.2010", "12/{d}/2010 8:26", "2010-12-{d:02} 10:00:00")
    rows = []
    for n, (user, item) in enumerate(zip(world.user, world.item, strict=True)):
        date = forms[n % 3].format(d=rng.integers(1, 31))
        rows.append(f"K{user};Café {item};{date};{rng.integers(1, 4)},5")
    rows += rows[:5] + [f";Café 1;{forms[0].format(d=1)};1"] * 4 + ["K1;Café 1;01.12.2010;-2"] * 3
    path = tmp_path_factory.mktemp("shop") / "verkäufe.csv"
    path.write_bytes("\n".join(["Kunde;Artikel;Datum;Menge", *rows, ""]).encode("latin-1"))
    return path


def test_from_file_to_list_in_three_commands(run: Run, shop: Path, tmp_path: Path) -> None:
    split = run("data", "split", shop, "--out", tmp_path / "parts", "--by", "user_time", *MESSY)
    assert split.code == 0, split.err
    rows = len(shop.read_bytes().splitlines()) - 1
    assert f"note: missing: 4 of {rows} rows dropped" in split.out
    assert f"note: min_rating 0.5: 3 of {rows - 4} rows dropped" in split.out
    assert f"note: duplicates: 5 of {rows - 7} rows repeat a pair and were dropped" in split.out
    fitted = run("fit", tmp_path / "parts", "--out", tmp_path / "m", *SMALL)
    assert fitted.code == 0, fitted.err
    assert "give min_rating" not in fitted.out + fitted.err
    found = run("recommend", tmp_path / "m", "--users", "K1,K2", "--k", 3, "--json")
    assert [row["user_id"] for row in json.loads(found.out)] == ["K1"] * 3 + ["K2"] * 3
    assert all(row["item_id"].startswith("Café ") for row in json.loads(found.out))


def test_the_file_can_be_fitted_at_once(run: Run, shop: Path, tmp_path: Path) -> None:
    titles = tmp_path / "titel.csv"
    titles.write_bytes("Artikel;name\nCafé 1;Crème\n".encode("latin-1"))
    done = run("fit", shop, "--out", tmp_path / "m", *MESSY, "--titles", titles, "--k-core", 2, "--json", *SMALL)
    assert done.code == 0, done.err
    notes = json.loads(done.out)["notes"]
    assert any(note.startswith("missing: 4 of") for note in notes)
    assert any(note.startswith("2-core:") for note in notes)
    data = al.load_model(tmp_path / "m").fitted
    assert data.titles is not None
    assert "Crème" in data.titles.tolist()


def test_describe_and_convert_take_the_same_options(run: Run, shop: Path, tmp_path: Path) -> None:
    about = json.loads(run("data", "describe", shop, *MESSY, "--json").out)
    assert any(note.startswith("missing: 4 of") for note in about["notes"])
    assert run("data", "convert", shop, tmp_path / "clean.parquet", *MESSY).code == 0
    assert len(al.read(tmp_path / "clean.parquet")) == about["train"]


@pytest.mark.parametrize(
    ("left_out", "told"),
    [("--user", "--user"), ("--encoding", "--encoding"), ("--missing", "--missing drop"), ("--decimal", "decimal=")],
)
def test_an_option_that_is_left_out_is_named(run: Run, shop: Path, tmp_path: Path, left_out: str, told: str) -> None:
    place = MESSY.index(left_out)
    ran = run("data", "split", shop, "--out", tmp_path / "x", *MESSY[:place], *MESSY[place + 2 :])
    assert ran.code == 2
    assert told in ran.err
    assert not (tmp_path / "x").exists()


def test_the_place_is_checked_before_the_file_is_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    for words in (
        ("split", "no.csv", "--out", tmp_path / "full"),
        ("split", "no.csv", "--out", "x", "--format", "xls"),
    ):
        assert "no.csv" not in run("data", *words).err
    assert "there is no folder" in run("data", "convert", "no.csv", tmp_path / "no" / "a.csv").err
