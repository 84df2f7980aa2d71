"""Every study runs on a tiny world, writes its records, continues where it stopped, and is in the report."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import aleator as al
from aleator.studies import records
from aleator.studies.beyond.strong import GOALS, goals
from aleator.studies.methods import DEFAULT, FLOORS, Method
from aleator.studies.paper.main import STUDY as MAIN
from aleator.studies.paper.main import comparison, improvement, paired, untuned
from aleator.studies.published import figure, published
from aleator.studies.records import Record
from aleator.studies.report import report as reporting
from aleator.studies.report.plots import pareto
from aleator.studies.report.tables import DOWN, UP, Table, figure_of, interval, over_seeds, rule
from aleator.studies.reproduce import BEYOND, NAMES, PAPER, RECIPES, label, reproduce, studies
from aleator.studies.study import run
from aleator.studies.workbench import Workbench, accuracy
from tests.studies.making import against, paired_test, record

ROOT = Path(__file__).parents[2]
KEYS = {"study", "dataset", "recipe", "tail", "empty", "method", "seed", "metrics", "config", "seconds", "peak_memory"}
KEYS |= {"machine", "versions", "command"}


@pytest.fixture(scope="module")
def tiny(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of train and test files with times, as a user would give it."""
    folder = tmp_path_factory.mktemp("data") / "tiny"
    folder.mkdir()
    split = world.interactions.split(valid=0.0, test=0.2, seed=0)
    for part in ("train", "test"):
        pairs = getattr(split, part)
        lines = [f"{u},{i},{n}" for n, (u, i) in enumerate(zip(pairs.user, pairs.item, strict=True))]
        (folder / f"{part}.csv").write_text("\n".join(["user_id,item_id,timestamp", *lines]))
    return folder


@pytest.fixture(scope="module")
def results(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of all studies."""
    out = tmp_path_factory.mktemp("results")
    failed = reproduce(["all"], [str(tiny), "world-mild"], quick=True, out=out, say=lambda line: None)
    split = al.Split.of(al.read(tiny / "train.csv"), al.read(tiny / "test.csv"))
    (leaderboard,) = studies("leaderboard")  # it is for a few datasets only
    failed += run(leaderboard, Workbench("gowalla", split, quick=True), out, say=lambda line: None)[1]
    assert failed == []
    return out


def rows_of(results: Path) -> list[Record]:
    return [row for file in sorted(results.glob("*/*.jsonl")) for row in records.read(file)]


def test_every_study_leaves_a_whole_record_of_each_cell(results: Path) -> None:
    rows = rows_of(results)
    assert {row["study"] for row in rows} == set(NAMES)
    assert {row["part"] for row in rows if row["study"] == "beyond"} == set(BEYOND)
    for row in rows:
        assert row.keys() >= KEYS, f"{row['study']} {row['method']} lacks {KEYS - row.keys()}"
        assert row["metrics"]
        assert all(row["metrics"].values())
        memory = row["peak_memory"]
        assert memory is None or memory > 1 << 20


def test_what_has_a_record_is_not_measured_again(results: Path, tiny: Path) -> None:
    said: list[str] = []
    before = len(rows_of(results))
    reproduce(["all"], [str(tiny), "world-mild"], quick=True, out=results, say=said.append)
    assert (said, len(rows_of(results))) == ([], before)


def test_a_dry_run_names_the_cells_without_a_record_and_measures_none(tiny: Path, tmp_path: Path) -> None:
    said: list[str] = []
    some: dict[str, Any] = {"quick": True, "out": tmp_path, "say": said.append}
    reproduce(["main"], [str(tiny)], methods=["MF"], **some)
    said.clear()
    reproduce(["main"], [str(tiny)], methods=["MF", "Popularity"], dry=True, **some)
    assert said == ["main tiny ours seed 0 (1 of 2) Popularity"]
    assert [row["method"] for row in rows_of(tmp_path)] == ["MF"]


def test_some_methods_alone_can_be_measured(tiny: Path, tmp_path: Path) -> None:
    some: dict[str, Any] = {"quick": True, "out": tmp_path, "say": lambda line: None}
    reproduce(["main"], [str(tiny)], methods=["MF-AUR"], seeds=2, **some)
    told = [(row["dataset"], row["method"], row["seed"]) for row in rows_of(tmp_path)]
    assert told == [("tiny", "MF-AUR", 0), ("tiny", "MF-AUR", 1)]
    with pytest.raises(al.AleatorError, match=r"measures MF-AUX. they measure LGCN, "):
        reproduce(["main"], [str(tiny)], methods=["MF-AUX"], **some)


def test_a_run_goes_on_after_a_line_that_was_cut_off(tiny: Path, tmp_path: Path) -> None:
    split = al.Split.of(al.read(tiny / "train.csv"), al.read(tiny / "test.csv"))
    bench = Workbench("tiny", split, quick=True)
    file = MAIN.file(tmp_path, "tiny")
    made, failed = run(MAIN, bench, tmp_path, say=lambda line: None)
    assert failed == []
    lines = file.read_text().splitlines()
    assert len(lines) == len(made) == 8
    file.write_text("\n".join(lines[:5]) + "\n" + lines[5][:100])  # killed while it wrote the sixth
    bench = Workbench("tiny", split, quick=True)  # another process
    again, _ = run(MAIN, bench, tmp_path, say=lambda line: None)
    assert [row["method"] for row in again] == ["LGCN-AUR", "VAE", "VAE-AUR"]
    found = MAIN.rows(tmp_path, "tiny")
    for name in ("method", "metrics", "against"):
        assert [r.get(name) for r in found] == [r.get(name) for r in made]
    assert len(run(MAIN, bench, tmp_path, again=True, say=lambda line: None)[0]) == 8
    assert len(MAIN.rows(tmp_path, "tiny")) == 8, "the latest record of a cell counts"


def test_the_figures_are_those_of_an_evaluation(results: Path, tiny: Path) -> None:
    split = al.Split.of(al.read(tiny / "train.csv"), al.read(tiny / "test.csv"))
    bench = Workbench("tiny", split, quick=True)
    row = accuracy(bench, Method("MF-AUR"), Method("MF"))
    (kept,) = [r for r in MAIN.rows(results, "tiny") if r["method"] == "MF-AUR"]
    assert row["metrics"] == kept["metrics"]
    test = al.evaluate(bench.fit(Method("MF-AUR")), split).compare(al.evaluate(bench.fit(Method("MF")), split))
    (told,) = [t for t in kept["against"]["tests"] if (t["protocol"], t["metric"]) == ("overall", "recall@20")]
    assert told["p"] == test["overall", "recall@20"].p


def test_quick_records_do_not_stand_in_for_others(tiny: Path, tmp_path: Path) -> None:
    split = al.Split.of(al.read(tiny / "train.csv"), al.read(tiny / "test.csv"))
    (alpha,) = studies("alpha")
    quick, _ = run(alpha, Workbench("tiny", split, quick=True), tmp_path, say=lambda line: None)
    assert [row["seed"] for row in alpha.rows(tmp_path, "tiny")] == [0] * len(quick)
    records.append(alpha.file(tmp_path, "tiny"), {n: v for n, v in quick[0].items() if n != "quick"})
    assert len(alpha.rows(tmp_path, "tiny")) == 1, "beside a real one they are left out"
    reporting.write(tmp_path, tmp_path / "report")
    assert "trained too briefly" not in (tmp_path / "report" / "report.md").read_text()


class Outline(HTMLParser):
    """What a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1


def test_the_report_shows_every_study(results: Path, tmp_path: Path) -> None:
    page = reporting.write(results, tmp_path / "report")
    html, outline = page.read_text(), Outline()
    outline.feed(html)
    for study in studies("all"):
        assert study.title in html
    tables = json.loads((tmp_path / "report" / "report.json").read_text())
    pictures = list((tmp_path / "report" / "figures").glob("*.png"))
    assert (outline.tags["table"], outline.tags["figure"]) == (len(tables), len(pictures))
    assert len(pictures) >= 5
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org", ""), "the page stands alone"
    markdown = (tmp_path / "report" / "report.md").read_text()
    assert "trained too briefly" in markdown
    assert all(f"figures/{picture.name}" in markdown for picture in pictures)


def test_every_table_of_methods_begins_or_ends_with_random_and_popularity(results: Path) -> None:
    """No reader should have to ask what chance and popularity would reach."""
    for study in studies("main", "debias", "variants", "fairness", "alpha", "worst_case", "beyond"):
        rows = study.rows(results, "tiny") or study.rows(results, "world-mild")
        if (
            study.part in ("mislabelled", "reliability", "confidence", "update") or not rows
        ):  # they score pairs, compare a model with itself, or have no such dataset
            continue
        assert {row["method"] for row in rows} >= set(FLOORS), study.title
        tables = [block for block in study.show(rows) if isinstance(block, Table)]
        if study.part in ("front", "default"):
            continue  # the front leaves out what others beat, and the floors have a table of their own
        for table in tables:
            named = [cell for line in table.rows for cell in line if cell in FLOORS]
            of_aur = "in brackets", "two ways", "learning rates", "by s alone"  # changes by AUR, its options and parts
            if not any(words in table.caption.lower() for words in of_aur):
                assert set(named) == set(FLOORS), table.caption


def test_captions_say_how_lam_was_chosen(results: Path) -> None:
    for study in studies("main", "debias", "variants", "fairness", "alpha", "worst_case", "calibration"):
        for block in study.show(study.rows(results, "tiny")):
            if isinstance(block, Table):
                assert "lam chosen by select=balanced on validation." in block.caption, study.title


def test_the_rule_of_lam_names_methods_where_they_differ() -> None:
    def aur(method: str, **config: Any) -> Record:
        return record(method=method, config={"lam": "auto", "select": "balanced"} | config)

    assert rule([record(method="MF")]) == rule([aur("UE-AUR", lam=0.8)]) == ""
    assert rule([record(), aur("MF-AUR")]) == "lam chosen by select=balanced on validation."
    assert rule([aur("MF-AUR") | {"recipe": "test"}]) == "lam chosen by select=balanced on the test part."
    told = rule([aur("MF-AUR"), aur("VAE-AUR", select="overall")])
    assert told == "lam chosen on validation by select=balanced (MF-AUR) and select=overall (VAE-AUR)."


def test_intervals_over_seeds_are_explained_where_there_are_several() -> None:
    assert over_seeds([record(), record(method="VAE")]) == ""
    assert over_seeds([record(), record(seed=1)]).startswith("± is half the width of the 95 % interval")


def test_only_alpha_differs_between_the_cells_of_alpha(results: Path) -> None:
    (study,) = studies("alpha")
    made = [row for row in study.rows(results, "tiny") if row["method"] not in FLOORS]
    assert len(made) == 4, "two alphas, from the chosen start and from a random one"
    for rows in (made[:2], made[2:]):
        assert len({row["chosen"]["epochs"] for row in rows}) == 1
        assert {(row["chosen"]["discount"], row["chosen"]["prior"]) for row in rows} == {(0, 0)}, (
            "only alpha moves the tail"
        )
        configs = [{name: value for name, value in row["config"].items() if name != "alpha"} for row in rows]
        assert configs[0] == configs[1]
        assert [row["config"]["alpha"] for row in rows] == [1.0, 3.0]
        options = rows[0]["config"]["estimator"]["options"]
        assert options["max_epochs"] == options["check_every"] == rows[0]["chosen"]["epochs"], "nothing stops early"


def test_recipe_paper_runs_unasked_only_what_the_released_program_makes(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aleator.studies.reproduce.recipes_for", lambda dataset: RECIPES)
    about: dict[str, Any] = {"quick": True, "say": lambda line: None}
    reproduce(["main", "debias"], [str(tiny)], methods=["MF"], out=tmp_path / "all", **about)
    found = {(row["study"], row["recipe"]) for row in rows_of(tmp_path / "all")}
    assert found == {("main", "paper"), ("main", "test"), ("main", "ours"), ("debias", "test"), ("debias", "ours")}
    reproduce(["debias"], [str(tiny)], methods=["MF"], out=tmp_path / "asked", recipe="paper", **about)
    assert {row["recipe"] for row in rows_of(tmp_path / "asked")} == {"paper"}


def test_an_empty_folder_has_no_report(tmp_path: Path) -> None:
    with pytest.raises(al.AleatorError, match="no records"):
        reporting.write(tmp_path, tmp_path / "report")


def test_an_unknown_study_names_the_nearest() -> None:
    with pytest.raises(al.AleatorError, match="fairness"):
        studies("fairnes")


def test_a_part_of_beyond_is_a_study_too_and_none_comes_twice() -> None:
    assert [study.part for study in studies("front", "strong", "front")] == ["front", "strong"]
    assert len(studies("beyond", "drift")) == len(studies("beyond")) == len(BEYOND)


def test_published_figures_stand_beside_the_same_split_only(results: Path) -> None:
    assert figure("main", "yelp2018", "MF-AUR", "overall", "recall@20") == 0.0689
    assert published("main", "ml-10m") == published("main", "amazon-book-kgat") == {}
    rows = [row | {"dataset": "yelp2018"} for row in MAIN.rows(results, "tiny")]
    table = comparison("main", rows, "overall", ["recall@20"])
    assert list(table.columns) == ["method", "recall@20", "published", "difference", "seeds"]
    (line,) = [line for line in table.rows if line[0] == "MF-AUR"]
    ours = next(r["metrics"]["overall"]["recall@20"] for r in rows if r["method"] == "MF-AUR")
    assert ours is not None
    assert line[2:4] == [0.0689, f"{ours / 0.0689 - 1:+.1%}"]


def test_the_paper_averages_improvements_in_two_ways() -> None:
    """The printed averages of Yelp and Amazon are means of changes, and the others are changes of sums."""

    def recomputed(dataset: str, protocol: str, *models: str) -> tuple[float, float]:
        table = published("main", dataset)
        rows = [record(method=method, metrics=metrics) for method, metrics in table.items()]
        found = improvement(rows, protocol, *([models] if models else []))
        assert found is not None
        return found

    for dataset, way in {"yelp2018": 0, "amazon-book": 0, "adressa": 1}.items():
        for protocol in ("tail_absolute", "tail_relative"):
            printed = published("improvement", dataset)[protocol]
            assert recomputed(dataset, protocol)[way] == pytest.approx(printed, abs=0.1)
            assert recomputed(dataset, protocol)[1 - way] != pytest.approx(printed, abs=0.1)
    other = published("improvement", "ml-10m-macr")
    assert recomputed("ml-10m-macr", "tail_relative")[1] == pytest.approx(other["tail_relative"], abs=0.01)
    assert recomputed("ml-10m-macr", "tail_absolute", "VAE")[1] == pytest.approx(other["tail_absolute"], abs=0.01)
    assert recomputed("ml-10m-macr", "tail_absolute")[1] == pytest.approx(1700.7, abs=0.1)


def test_the_main_table_has_the_change_by_aur_with_the_highest_p_of_the_seeds() -> None:
    def row(seed: int, mean: float, p: float | None) -> Record:
        return record(method="MF-AUR", seed=seed, against=against(paired_test(mean, p, baseline=0.1)))

    bare = record(method="MF")
    (table,) = paired([bare, row(0, 0.12, 1e-5), row(1, 0.13, 0.02)])
    assert isinstance(table, Table)
    assert table.rows[0] == ["MF-AUR", "recall@20", "+25.0% ±63.5% (p 0.02)", None, None]
    assert paired([row(0, 0.12, 0.0)])[0].rows[0][2] == "+20.0% (p < 1e-300)"  # type: ignore[union-attr]
    assert paired([row(0, 0.12, None)])[0].rows[0][2] is None  # type: ignore[union-attr]
    assert paired([bare]) == []


def test_what_has_nothing_to_tune_is_not_called_untuned() -> None:
    rows = [record(method="Popularity", tuned={}), record(method="MF", tuned={"model": {"dim": 8}})]
    assert untuned(rows) == ""
    assert untuned([*rows, record(method="EASE", tuned={})]).endswith("have default options: EASE.")


def test_the_default_stands_beside_the_highest_published_figures(results: Path) -> None:
    (study,) = studies("strong")
    rows = [row | {"dataset": "yelp2018"} for row in study.rows(results, "tiny")]
    (table,) = goals(rows)
    assert isinstance(table, Table)
    ours = next(r["metrics"] for r in rows if r["method"] == DEFAULT)
    for (protocol, metric), line in zip(GOALS, table.rows, strict=True):
        assert line[1] == GOALS[protocol, metric]
        found = ours[protocol][metric]
        assert found is not None
        assert line[3] == f"{found / GOALS[protocol, metric] - 1:+.1%}"
    assert goals([row for row in rows if row["method"] != DEFAULT]) == []


def test_seeds_become_a_mean_an_interval_and_a_sign_where_all_agree() -> None:
    def row(value: float | None, p: float, baseline: float = 0.05) -> Record:
        return record(metrics={"overall": {"recall@20": value}}, against=against(paired_test(value, p, baseline)))

    def shown(*rows: Record) -> Any:
        return figure_of(rows, "overall", "recall@20")

    mean, half = interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert shown(row(0.1, 0.01)) == f"0.1000 {UP}"
    assert shown(row(0.1, 0.01, baseline=0.2)) == f"0.1000 {DOWN}", "worse is told from better"
    assert shown(row(0.1, 0.01), row(0.2, 0.3)) == "0.1500 ±0.6353"
    assert shown(row(0.1, 0.01), row(0.1, 0.04)) == f"0.1000 ±0.0000 {UP}"
    assert shown(row(0.1, 0.01), row(0.1, 0.01, baseline=0.2)) == "0.1000 ±0.0000"
    assert shown(row(0.1, 0.01)).value == 0.1
    assert shown(row(None, 1.0)) is None, "nobody has ground truth"


def test_a_cell_that_fails_is_named_and_the_others_are_measured(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, *_: object, **__: object) -> None:
        raise al.AleatorError("it does not fit", "buy memory")

    monkeypatch.setattr(al.LightGCN, "learn", fail)
    failed = reproduce(["main"], [str(tiny)], quick=True, out=tmp_path, say=lambda line: None)
    assert [line.split(": ")[0].split()[-1] for line in failed] == ["LGCN", "LGCN-AUR"]
    assert [row["method"] for row in MAIN.rows(tmp_path, "tiny")] == [*FLOORS, "MF", "MF-AUR", "VAE", "VAE-AUR"]
    shown = MAIN.show(MAIN.rows(tmp_path, "tiny"))
    assert all("mean of the changes" not in " ".join(b.columns) for b in shown if isinstance(b, Table)), (
        "three models are needed"
    )


def test_other_data_of_the_same_name_are_measured_anew(tiny: Path, tmp_path: Path) -> None:
    other = tmp_path / "tiny"
    other.mkdir()
    for part in ("train", "test"):
        lines = (tiny / f"{part}.csv").read_text().splitlines()
        (other / f"{part}.csv").write_text("\n".join(lines if part == "test" else lines[:-5]))
    for folder in (tiny, other, other):
        reproduce(["case"], [str(folder)], quick=True, out=tmp_path / "r", say=lambda line: None)
    (case,) = studies("case")
    assert len(records.read(case.file(tmp_path / "r", "tiny"))) == 2
    assert len(case.rows(tmp_path / "r", "tiny")) == 1, "the latest is shown"


def test_a_folder_does_not_go_by_the_name_of_a_benchmark() -> None:
    assert [label(name) for name in ("yelp2018", "data/yelp2018", "world-mild", "my/parts")] == [
        "yelp2018",
        "yelp2018-files",
        "world-mild",
        "parts",
    ]


def test_a_test_part_without_tail_items_has_dashes(tmp_path: Path) -> None:
    folder = tmp_path / "heads"
    folder.mkdir()
    pairs = [(u, i) for u in range(30) for i in range(12) if i < 4 or u % 12 == i]
    test = [(u, i) for u, i in pairs if i == u % 4]
    for name, own in (("train", [p for p in pairs if p not in test]), ("test", test)):
        (folder / f"{name}.csv").write_text("user_id,item_id\n" + "\n".join(f"{u},{i}" for u, i in own))
    out = tmp_path / "r"
    assert reproduce(["main", "alpha", "beyond"], [str(folder)], quick=True, out=out, say=lambda line: None) == []
    rows = MAIN.rows(out, "heads")
    assert rows[0]["metrics"]["tail_absolute"]["recall@20"] is None
    reporting.write(out, out / "report")
    assert "NaN" not in (out / "beyond" / "heads.jsonl").read_text()


def test_markdown_keeps_stars_and_dashes() -> None:
    assert Table(["a", "b"], [["x *", None]], "").markdown().splitlines()[-1] == "| x \\* | \N{EN DASH} |"


def test_the_front_is_what_nothing_beats() -> None:
    points = [(1.0, 1.0), (2.0, 0.5), (0.5, 0.9), (2.0, 0.4), (3.0, 0.1), (1.5, 0.5)]
    assert pareto(points) == [(1.0, 1.0), (2.0, 0.5), (3.0, 0.1)]
    assert pareto([]) == []


def test_the_pieces_of_a_whole_run_hold_every_study() -> None:
    shown = subprocess.run(
        [sys.executable, ROOT / "tools/pieces.py"], check=True, capture_output=True, text=True
    ).stdout
    named = {word for line in shown.splitlines() for word in line.partition(" --")[0].split()[3:]}
    assert named == {*PAPER, *BEYOND}
