"""The commands fit, evaluate, recommend and data do what the Python calls do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import aleator as al
from aleator import cgroups, threads
from aleator.cli.doctor import advice_on
from aleator.device import machine_memory
from tests.cli.conftest import SMALL, Run


def test_fit_evaluate_recommend_from_files(run: Run, parts: Path, tmp_path: Path) -> None:
    fitted = run("fit", parts, "--out", tmp_path / "m", *SMALL, "--json")
    assert fitted.code == 0, fitted.err
    assert json.loads(fitted.out)["out"] == str(tmp_path / "m")
    found = json.loads(run("evaluate", tmp_path / "m", parts, "--json").out)
    assert set(found) >= {"overall", "tail_absolute", "tail_relative"}
    assert 0 < found["overall"]["recall@20"] <= 1
    read = {name: al.read(parts / f"{name}.parquet") for name in ("train", "valid", "test")}
    split = al.Split.of(read["train"], read["test"], read["valid"])
    want = al.evaluate(al.AUR.load(tmp_path / "m"), split).to_dict()
    for protocol in ("overall", "tail_absolute", "tail_relative"):
        assert found[protocol] == pytest.approx(want[protocol])


def test_fit_tells_what_was_compared_and_why_lam_was_chosen(run: Run, parts: Path, tmp_path: Path) -> None:
    words = ("--set", "estimator.dim=16", "--max-epochs", 2)
    shown = run("fit", parts, "--out", tmp_path / "m", *words)
    assert shown.code == 0, shown.err
    made = al.AUR.load(tmp_path / "m")
    assert {result.model for result in made.race} == {type(model).__name__ for model in al.AUR().contenders}
    assert all(str(result) in shown.out for result in made.race)
    assert str(made.choice) in shown.out
    assert f"AUR on {type(made.model).__name__} fitted on" in shown.out.splitlines()[-1]
    told = json.loads(run("fit", parts, "--out", tmp_path / "m", *words, "--json").out)
    assert told["model"] == type(made.model).__name__
    assert told["choice"]["chosen"]["lam"] == told["lam"] == made.lam_used
    assert told["choice"]["chosen"]["discount"] == told["discount"] == made.discount_used
    assert told["prior"] == made.prior_used
    assert [result["model"] for result in told["race"]] == [result.model for result in made.race]
    assert told["setting"]["residuals"] == made.setting.residuals
    quiet = run("fit", parts, "--out", tmp_path / "m", *words, "--quiet")
    assert quiet.out.splitlines()[-1].startswith("AUR on ")
    assert "compared on" not in quiet.out
    fixed = run("fit", parts, "--out", tmp_path / "m", "--model", "mf", "--set", "lam=0.5", *words)
    assert "lam 0.5 was given, and is used instead" in fixed.out


def test_recommend_prints_what_python_returns(run: Run, model: Path) -> None:
    rows = json.loads(run("recommend", model, "--users", "u1,u2", "--k", "4", "--lam", "0.3", "--json").out)
    want = al.AUR.load(model).recommend(["u1", "u2"], k=4, lam=0.3)
    assert [(r["user_id"], r["item_id"]) for r in rows] == list(zip(want["user_id"], want["item_id"], strict=True))
    assert set(rows[0]) == {
        *("user_id", "item_id", "rank", "score", "confidence", "expectation", "uncertainty", "popularity", "tail"),
    }


def test_a_confidence_that_there_is_not_is_a_dash(run: Run, model: Path) -> None:
    other = 0.3 if al.AUR.load(model).lam_used != 0.3 else 0.4
    words = ("recommend", model, "--users", "u1", "--k", "1", "--lam", other)
    header, row = run(*words).out.splitlines()
    assert dict(zip(header.split(), row.split(), strict=True))["confidence"] == "-"
    assert json.loads(run(*words, "--json").out)[0]["confidence"] is None


def test_quotation_marks_hold_an_id_with_commas_together(run: Run, tmp_path: Path) -> None:
    pairs = {
        "user": ["Rossi, A."] * 3 + ["Meier"] * 3,
        "item": ["Table, big", "Lamp", "Cup", "Cup", "Table, big", "Jar"],
    }
    al.Popularity().fit(al.read(pairs)).save(tmp_path / "shop")
    found = json.loads(run("recommend", tmp_path / "shop", "--users", '"Rossi, A.", Meier', "--k", 1, "--json").out)
    assert [(row["user_id"], row["item_id"]) for row in found] == [("Rossi, A.", "Jar"), ("Meier", "Lamp")]
    new = run("recommend", tmp_path / "shop", "--history", 'Cup,"Table, big"', "--k", 2, "--json")
    assert {row["item_id"] for row in json.loads(new.out)} == {"Lamp", "Jar"}


def test_recommend_names_the_history_items_that_lists_come_from(run: Run, model: Path) -> None:
    words = ("recommend", model, "--users", "u1", "--k", 3, "--explain", 2)
    rows = json.loads(run(*words, "--json").out)
    want = al.AUR.load(model).recommend(["u1"], k=3, explain=2)
    for name in ("expectation_from", "uncertainty_from"):
        assert [row[name] for row in rows] == want[name].to_list()
    head, *lines = run(*words).out.splitlines()
    assert head.endswith("expectation_from  uncertainty_from")
    assert all(line.endswith(", ".join(row["uncertainty_from"])) for line, row in zip(lines, rows, strict=True))
    assert "whole number of at least 1" in run("recommend", model, "--users", "u1", "--explain", 0).err


def test_similar_prints_what_python_returns(run: Run, model: Path) -> None:
    rows = json.loads(run("similar", model, "--items", "i1,i2", "--k", 3, "--lam", 0.3, "--json").out)
    assert rows == al.AUR.load(model).similar_items(["i1", "i2"], k=3, lam=0.3).to_dicts()
    assert run("similar", model, "--items", "i1").out.startswith("item_id  rank  similar_item  similarity")
    wrong = run("similar", model, "--items", "nothing")
    assert (wrong.code, "unknown item 'nothing'" in wrong.err) == (2, True)


def test_recommend_to_a_history(run: Run, model: Path) -> None:
    told = run("recommend", model, "--history", "i1,i2", "--k", "3")
    assert told.code == 0
    assert len(told.out.splitlines()) == 4
    assert not {"i1", "i2"} & {line.split()[1] for line in told.out.splitlines()[1:]}


def test_a_bare_model(run: Run, parts: Path, tmp_path: Path) -> None:
    assert run("fit", parts, "--out", tmp_path / "b", "--no-uncertainty", "--set", "model.dim=8").code == 0
    assert isinstance(al.load_model(tmp_path / "b"), al.MF)
    assert run("evaluate", tmp_path / "b", parts).code == 0
    refused = run("recommend", tmp_path / "b", "--users", "u1", "--lam", "0.5")
    assert (refused.code, "no uncertainty" in refused.err) == (2, True)


def test_options_come_from_a_file_and_settings_win(run: Run, parts: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("alpha = 3\n[model]\ndim = 4\n[estimator]\ndim = 8\nmax_epochs = 2\n")
    words = ("--model", "mf", "--config", tmp_path / "run.toml", "--set", "model.dim=5", "--seed", 7)
    done = run("fit", parts, "--out", tmp_path / "m", *words)
    assert done.code == 0, done.err
    model = al.AUR.load(tmp_path / "m")
    assert (model.alpha, model.model.options()["dim"], model.estimator.options()["dim"], model.model.seed) == (
        3,
        5,
        8,
        7,
    )


def test_recipe_paper_is_labelled(run: Run, parts: Path, tmp_path: Path) -> None:
    words = ("--set", "model.solver=als", "--set", "estimator.lr=0.01", *SMALL)
    told = run("fit", parts, "--out", tmp_path / "p", "--recipe", "paper", *words)
    assert "recipe paper" in told.out
    report = run("evaluate", tmp_path / "p", parts, "--recipe", "paper")
    assert "recipe paper" in report.out
    assert "counted as 0" in report.out


def test_data_split_then_describe(run: Run, ratings: Path, tmp_path: Path) -> None:
    made = run("data", "split", ratings, "--out", tmp_path / "x", "--by", "last", "--format", "csv", "--json")
    counts = json.loads(made.out)
    about = json.loads(run("data", "describe", tmp_path / "x", "--json").out)
    assert [about[part] for part in ("train", "valid", "test")] == [counts[part] for part in ("train", "valid", "test")]
    several = int((al.read(ratings).csr.getnnz(axis=1) > 1).sum())
    assert about["test"] == several  # a user with only one pair keeps it
    assert {"users", "items", "train", "valid", "test", "tail"} <= set(about)


def test_data_convert(run: Run, ratings: Path, tmp_path: Path) -> None:
    assert run("data", "convert", ratings, tmp_path / "y.inter", "--min-rating", "4").code == 0
    assert len(al.read(tmp_path / "y.inter")) == len(al.read(ratings, min_rating=4))


def test_doctor(run: Run) -> None:
    about = json.loads(run("doctor", "--json").out)
    assert about["packages"]["torch"] is not None
    assert about["threads"] == torch.get_num_threads()
    assert about["free_memory"] <= (about["memory_limit"] or machine_memory())
    told = run("doctor").out
    assert f"threads: {about['threads']}, from {about['threads_from']}" in told
    assert "GiB are free" in told


def test_doctor_tells_the_limits_of_a_container(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "memory", lambda: cgroups.Memory(limit=3 << 29, free=1 << 29))
    monkeypatch.setattr(threads, "_limited", True)
    about, told = json.loads(run("doctor", "--json").out), run("doctor").out
    assert (about["memory_limit"], about["free_memory"]) == (3 << 29, 1 << 29)
    assert "memory: 0.5 GiB are free; the limit of the container is 1.5 GiB" in told
    assert "from the CPU quota of the container; OMP_NUM_THREADS sets another number" in told


def test_doctor_names_what_is_too_old_or_missing() -> None:
    needed = (
        "numpy>=2.0",
        "torch>=2.6",
        "polars>=1.11",
        "pandas>=2.2.2; extra == 'frames'",
        "optuna>=4; extra == 'tune'",
    )
    packages = {"numpy": "1.26.4", "torch": "2.13.0+cpu", "polars": None, "pandas": "2.2.0", "optuna": None}
    numpy, polars, pandas = advice_on(packages, needed)
    assert numpy == "numpy 1.26.4 is not among the versions that work: pip install 'numpy>=2.0'"
    assert polars == "polars is not installed: pip install 'polars>=1.11'"
    assert pandas.startswith("pandas 2.2.0 is not")


def test_update_takes_new_pairs_into_a_model_folder(run: Run, model: Path, tmp_path: Path) -> None:
    known = al.load_model(model)
    seen = str(known.fitted.items.ids[known.fitted.item[0]])
    rows = [f"{known.fitted.users.ids[known.fitted.user[0]]},{seen}", f"new,{seen}", "new,brand-new"]
    (tmp_path / "new.csv").write_text("\n".join(["buyer,sku", *rows]) + "\n")
    words = ("update", model, tmp_path / "new.csv", "--user", "buyer", "--item", "sku", "--quiet")
    ran = run(*words, "--out", tmp_path / "m2", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert {name: told[name] for name in ("pairs", "users", "items", "known")} == {
        "pairs": 2,
        "users": 1,
        "items": 1,
        "known": 1,
    }
    assert al.load_model(model).updated == {}
    new = al.load_model(tmp_path / "m2")
    assert new.updated == told["since_the_fit"] == {"pairs": 2, "users": 1, "items": 1}
    listed = run("recommend", tmp_path / "m2", "--users", "new", "--k", "3")
    assert listed.code == 0
    again = run(*words, "--out", tmp_path / "m2", "--epochs", "0")
    assert again.code == 0
    assert "2 new pairs, 1 new users, 1 new items taken in, 1 pairs were known" in again.out
    assert "note: updated since the fit: 2 new pairs" in again.out


def test_update_checks_its_place_first(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    ran = run("update", model, "nothing.csv", "--out", tmp_path / "file")
    assert ran.code == 2
    assert "not a model folder" in ran.err
