"""What README.md and docs/ show runs as written, holds the figures of results/, and leaves no name or command out.

Blocks marked python are run, page by page, in a folder of their own. So are the lines `$ aleator ...` of blocks marked
console, after the page's Python. Blocks marked sh take long or need data: their commands are only checked for options
that exist. No test here needs a dataset.

Below a line `<!-- needs: LIBRARY -->`, a python block runs only where that library can be imported, after the blocks
above it that need nothing. Elsewhere a skipped test says so.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import sys
import tomllib
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.core
import typer.main

import aleator as al
from aleator import cli
from aleator.models import MODELS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]}
OF_DEVELOPERS = ("dev", "docs", "checks", "fuzz")  # extras that nobody else installs
NEEDED = {"docs/serve.md": ("faiss", "lancedb", "qdrant_client", "usearch")}  # what the examples of a page import


@pytest.fixture
def update(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script that writes the tables."""
    return _tool("update", monkeypatch)


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script that writes the reference pages."""
    return _tool("reference", monkeypatch)


def _tool(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module(name)


def blocks(text: str, language: str, library: str | None = None) -> list[str]:
    """The blocks of a page, without those that need a library, except for `library`."""
    marked = re.findall(
        rf"(?:^<!-- needs: (\w+) -->\n)?^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    )
    return [block for needs, block in marked if needs in ("", library)]


def needs(text: str) -> list[str | None]:
    """None for the blocks of a page that need nothing more, and each library that others need."""
    return [None, *dict.fromkeys(re.findall(r"^<!-- needs: (\w+) -->$", text, re.MULTILINE))]


def commands(text: str, language: str) -> list[list[str]]:
    """The commands of the project in the blocks of a page, without their comments."""
    lines = [line for block in blocks(text, language) for line in block.splitlines()]
    return [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ aleator ")]


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 80


@pytest.mark.parametrize(
    ("page", "library"),
    [(page, each) for page, text in PAGES.items() if blocks(text, "(?:python|console)") for each in needs(text)],
)
def test_the_examples_of_a_page_run(
    page: str,
    library: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for needed in NEEDED.get(page, ()):
        pytest.importorskip(needed, reason="needs the extra index")
    if library is not None:
        pytest.importorskip(library, reason=f"some examples of {page} need {library}")
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")  # of which a pool of processes finds a function by its name
    monkeypatch.setitem(sys.modules, "page", module)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the grafted function is not saved")
        exec(compile("\n".join(blocks(PAGES[page], "python", library)), page, "exec"), vars(module))
    for line in commands(PAGES[page], "console"):
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert not left.value.code, f"{page}: {shlex.join(line)}: {capsys.readouterr().err}"


def test_the_model_of_contributing_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model in one file: it is fitted, blended, saved and loaded."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (block,) = re.findall(r"^   ```python\n(.*?)^   ```", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "share_model.py").write_text(inspect.cleandoc(block))
    monkeypatch.syspath_prepend(tmp_path)
    kind = importlib.import_module("share_model").Share
    monkeypatch.setattr(MODELS, "unnamed", (*MODELS.unnamed, kind))
    split = al.simulate(n_users=60, n_items=40, per_user=80, seed=0).interactions.split(valid=0.1, test=0.2, seed=0)
    aur = al.AUR(kind(damping=2.0), estimator=al.FactorEstimator(dim=4, max_epochs=2)).fit(split)
    aur.save(tmp_path / "model")
    loaded = al.load_model(tmp_path / "model")
    assert loaded.recommend([0], k=3)["item_id"].to_list() == aur.recommend([0], k=3)["item_id"].to_list()


def test_the_files_that_contributing_names_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:src/aleator|tests|tools|docs|benchmarks)/[\w/.]+?)`", text)
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []
    modules = re.findall(r"\(`([\w/]+\.py)`[,)]", text)
    assert len(modules) > 10
    assert [name for name in modules if not (ROOT / "src" / "aleator" / name).exists()] == []


def test_the_page_of_versions_has_the_floors_of_pyproject() -> None:
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: lines for name, lines in about["optional-dependencies"].items() if name not in OF_DEVELOPERS}
    rows = dict(re.findall(r"^\| (?:`(\w+)`|always) +\| (.*?) +\|", PAGES["docs/versions.md"], re.MULTILINE))
    for extra, lines in {"": about["dependencies"], **extras}.items():
        needed = [line.partition(";")[0].replace(">=", " ") for line in lines if not line.startswith("aleator[")]
        assert sorted(rows[extra].split(", ")) == sorted(needed), extra or "always"


def test_pages_that_a_newcomer_reads_have_examples() -> None:
    for name in ("README.md", "docs/index.md", "docs/own_data.md", "docs/models.md", "docs/graft.md", "docs/report.md"):
        assert blocks(PAGES[name], "python"), name


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if commands(text, "sh")])
def test_the_long_commands_of_a_page_exist(page: str) -> None:
    for _, *words in commands(PAGES[page], "sh"):
        group = typer.main.get_command(cli.app)
        assert isinstance(group, typer.core.TyperGroup)
        group.commands[words[0]].make_context(words[0], words[1:], allow_interspersed_args=words[0] != "bench")


def test_the_tables_are_those_of_the_results(update: Any) -> None:
    assert f"<!-- results -->\n{update.default_table()}\n<!-- /results -->" in README
    for place, text in update.places(draw=False).items():
        page = PAGES[f"docs/results/{place}.md"]
        assert f"<!-- {place} -->\n{text}\n<!-- /{place} -->" in page, f"run tools/update.py: {place} is not up to date"
    assert f"<!-- joint -->\n{update.joint_table()}\n<!-- /joint -->" in PAGES["docs/results/variants.md"]
    assert f"<!-- cost -->\n{update.cost_table()}\n<!-- /cost -->" in PAGES["docs/reproduce.md"]


def test_the_claims_are_those_of_the_results(update: Any) -> None:
    """Each verdict still rests on its records, and each file and page that a claim names exists."""
    page = PAGES["docs/results/index.md"]
    for name, table in (("claims", update.claims.claims_table()), ("evidence", update.claims.evidence_table())):
        assert f"<!-- {name} -->\n{table}\n<!-- /{name} -->" in page, f"run tools/update.py: {name} is not up to date"
    for claim in update.claims.CLAIMS:
        assert claim.supported(), f"the records no longer support: {claim.text}: {claim.verdict}"
        assert (ROOT / "docs" / "results" / claim.page.partition("#")[0]).exists(), claim.page
        assert all(list((ROOT / "results").glob(file)) for file in claim.files), claim.files


def test_published_figures_stand_below_ours_where_there_are_many(update: Any) -> None:
    columns = ["method", "recall@20", "published", "difference", "recall@50", "published", "difference", "seeds"]
    table = update.Table(columns, [["MF", 0.06, 0.05, "+20.0%", 0.1, None, None, 3]], "a caption")
    narrow = update.narrow(table)
    assert narrow.columns == ["method", "recall@20", "recall@50", "seeds"]
    assert narrow.rows == [["MF", "0.0600<br><small>published 0.0500, +20.0%</small>", 0.1, 3]]
    few = update.Table(columns[:4], [["MF", 0.06, 0.05, "+20.0%"]], "a caption")
    assert update.narrow(few) is few


def test_the_tables_of_performance_are_those_of_the_results(update: Any) -> None:
    page = PAGES["docs/performance.md"]
    places = update.performance()  # refuses a record that has no place
    assert places.keys() >= {"epochs h200", "time_to_quality h200", "quality h200", "fit cpu", "growth cpu"}
    for place, text in places.items():
        assert f"<!-- {place} -->\n{text}\n<!-- /{place} -->" in page, f"run tools/update.py: {place} is not up to date"


def test_the_tables_of_scale_are_those_of_the_formulas(update: Any) -> None:
    page = PAGES["docs/scale.md"]
    for place, text in update.scale.tables(update.measured()).items():
        assert f"<!-- {place} -->\n{text}\n<!-- /{place} -->" in page, f"run tools/update.py: {place} is not up to date"


def test_pictures_pages_and_headings_that_are_linked_exist(reference: Any) -> None:
    made = {"docs/reference/api.md": reference.api(), "docs/reference/cli.md": reference.command_line()}
    for page, text in PAGES.items():
        for target in re.findall(r"\]\(([^):]+)\)", text):
            file, _, heading = target.partition("#")
            path = (ROOT / page).parent / file if file else ROOT / page
            assert path.is_file(), f"{page} links to {target}"
            if heading:
                name = str(path.resolve().relative_to(ROOT))
                titles = re.findall(r"^#+ (.*)$", PAGES[name] + "\n" + made.get(name, ""), re.MULTILINE)
                assert heading in map(anchor, titles), f"{page} links to {target}"


def anchor(title: str) -> str:
    """What the site makes of a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def test_every_page_says_in_its_first_sentence_what_it_answers() -> None:
    for page, text in PAGES.items():
        if page != "README.md":
            lead = text.split("\n\n")[1]
            assert lead.startswith(("This page answers: ", "This page says ")), page


def test_every_page_stands_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = set(re.findall(r": ([\w/-]+\.md)$", nav, re.MULTILINE))
    assert listed == {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}


def test_the_reference_has_every_public_name_and_option(reference: Any) -> None:
    page = reference.api()
    for name in al.__all__:
        assert f"      heading: al.{name}\n" in page, name
    assert "::: aleator.models.graft.graft.graft\n" in page  # the function: the name alone means its package
    assert "| `self_exclude` | bool | `True` | `False` |" in page
    assert "| `lam` | float or `'auto'` | `'auto'` |" in page


def test_the_meaning_of_an_option_is_its_comment_or_the_text_below_it(reference: Any) -> None:
    source = '''
        class Thing:
            k: int = 5  # how many
            lr: float = 0.1
            """The step
            of Adam."""
            name: str = "#"
    '''
    assert dict(reference.meanings(source)) == {"k": "how many", "lr": "The step of Adam.", "name": ""}


def test_the_reference_has_every_command_and_option(reference: Any) -> None:
    page = reference.command_line()
    names = {name for name, _ in reference.commands(typer.main.get_command(cli.app))}
    assert {"aleator fit", "aleator data split"} <= names
    for name in names:
        assert f"## {name}\n" in page, name
    for option in inspect.signature(cli.verbs.fit).parameters:
        assert f"`--{option.replace('_', '-')}`" in page or f"`{option.upper()}`" in page, option


def test_the_own_options_of_a_class_come_first(reference: Any) -> None:
    named = re.findall(r"^\| `(\w+)` \|", reference.options(al.AUR), re.MULTILINE)
    assert named.index("model") < named.index("alpha") < named.index("seed")


def test_docstrings_become_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("griffe", reason="needs the extra docs")
    tool = _tool("docstrings", monkeypatch)
    assert tool.as_markdown("r = <x_u, y_i>.\n\n>>> 1 + 1\n2") == "r = `<x_u, y_i>`.\n\n```pycon\n>>> 1 + 1\n2\n```"


def test_a_record_of_a_benchmark_becomes_a_table_under_its_command(update: Any) -> None:
    rows = [
        {
            "job": "top 50",
            "unit": "s",
            "ours": 2.0,
            "reference": 8.0,
            "ratio": 0.25,
            "against": "brute force",
            "more": {},
        },
        {"job": "peak", "unit": "MB", "ours": 1234.5, "more": {"users/s": 15834.2}},
        {"job": "overall recall@20", "unit": "test", "ours": 0.06701},
    ]
    record = {
        "benchmark": "top_k",
        "rows": rows,
        "data": {"users": 31668, "test_pairs": 10},
        "chosen": {"ours": {"lam": 0.3}},
        "machine": {"cores": 2, "device": "no GPU", "threads": 1},
        "versions": {"torch": "2.6", "numpy": "2.0", "implicit": "0.7.3"},
        "command": "top_k.py --model /somewhere/model --k 50 --json /somewhere/x.jsonl --data-root=/somewhere",
    }
    head, _, *table = update.benchmark_table(record).splitlines()
    assert head == (
        "`aleator bench top_k --model model --k 50` (2 cores, no GPU, torch 2.6, threads: 1, implicit 0.7.3); "
        "data: users 31,668, test pairs 10; chosen: ours (lam 0.3)"
    )
    assert table == [
        "| job | ours | reference | ratio | against | users/s |",
        "|---|---|---|---|---|---|",
        "| top 50 | 2 s | 8 s | 0.25 | brute force |  |",
        "| peak | 1,234 MB |  |  |  | 15,834 |",
        "| overall recall@20 | 0.0670 |  |  |  |  |",
    ]


def test_curves_of_two_records_have_panels_of_their_own(update: Any) -> None:
    def record(*runs: tuple[str, str]) -> dict[str, Any]:
        return {"data": {"name": "yelp2018"}, "curves": [{"job": job, "settings": name} for job, name in runs]}

    mf = record(("MF", "our defaults"), ("MF", "ALS"))
    estimator = record(("MF", "ALS"), ("estimator", "our defaults"))
    assert [(run.job, run.settings) for run in update.curves([mf, estimator, estimator])] == [
        ("MF, yelp2018", "our defaults"),
        ("MF, yelp2018", "ALS"),
        ("estimator, yelp2018", "our defaults"),
        ("estimator, yelp2018 (2)", "our defaults"),
    ]


def test_the_table_of_options_has_the_defaults_and_those_of_the_paper() -> None:
    page = (ROOT / "docs" / "method.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)`[^|]* \| `([^`]+)` \|$", page, re.MULTILINE)
    assert len(rows) >= 8
    for name, default, paper in rows:
        assert eval(default) == al.FactorEstimator().options()[name], name
        assert eval(paper) == al.FactorEstimator.paper[name], name
