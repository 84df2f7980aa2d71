"""The report of a folder of results: one HTML page, the same in markdown with pictures, and the tables as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aleator.errors import parsing, require
from aleator.studies import records
from aleator.studies.records import Record
from aleator.studies.report.page import Page
from aleator.studies.report.tables import Block, Table
from aleator.studies.reproduce import DATASETS, RECIPES, studies
from aleator.studies.study import Study

TITLE = "Aleatoric uncertainty-aware recommendation: the paper, measured again"
LEGEND = (
    "Recipe ours chooses epochs and lam on a validation part, then refits on all training pairs. Recipe test has the "
    "same options, chosen on the test part. Recipe paper has the options of the released program, which chooses on the "
    "test part. The figures of both are optimistic. They are here only for comparison with published numbers. Overall "
    "ranks all items and counts all test items. Tail absolute counts only the test items in the tail. Tail relative "
    "ranks tail items only. Published figures are shown only where the paper used the same split. "
    "Random and Popularity are what every method must be above."
)


def sections(results: Path) -> Iterator[tuple[Study, str, str, list[Record]]]:
    """The records of each study by dataset and recipe, in the order of the paper."""
    for study in studies("all"):
        names = [file.stem for file in (results / study.name).glob("*.jsonl")]
        for dataset in sorted(
            names, key=lambda name: (DATASETS.index(name) if name in DATASETS else len(DATASETS), name)
        ):
            rows = study.rows(results, dataset)
            for recipe in RECIPES:
                chosen = [row for row in rows if row["recipe"] == recipe]
                if chosen:
                    yield study, dataset, recipe, chosen


def write(results: Path, out: Path) -> Path:
    """Write report.html, report.md with its figures, and report.json into the folder `out`. Returns the first."""
    page, lines, tables = Page(TITLE, LEGEND), [f"# {TITLE}", "", LEGEND, ""], []
    shown: Study | None = None
    for study, dataset, recipe, rows in sections(results):
        if shown is not study:
            page.section(study.title, study.question)
            lines += [f"## {study.title}", "", study.question, ""]
            shown = study
        page.heading(records.about(rows))
        lines += [f"### {records.about(rows)}", ""]
        made, obtained = shown_of(study, rows, results / study.name / f"{dataset}.jsonl")
        for number, block in enumerate(made):
            name = "-".join(filter(None, (study.name, study.part, dataset, recipe, str(number))))
            _set(page, lines, block, out, name)
            if isinstance(block, Table):
                told: dict[str, Any] = {"study": study.name, "part": study.part, "dataset": dataset, "recipe": recipe}
                tables.append(told | {"caption": block.caption, "columns": block.columns, "rows": block.rows})
        page.note(obtained)
        lines += [obtained, ""]
    require(shown is not None, f"'{results}' holds no records", "make some with aleator reproduce")
    (out / "report.md").write_text("\n".join(lines))
    (out / "report.json").write_text(json.dumps(tables, indent=1))
    return page.write(out / "report.html")


def shown_of(study: Study, rows: list[Record], file: Path) -> tuple[list[Block], str]:
    """The tables and figures of some records of a file, and how they were obtained."""
    with parsing(file, f"records of {study.name}"):
        return list(study.show(rows)), obtained_by(rows)


def _set(page: Page, lines: list[str], block: Block, out: Path, name: str) -> None:
    """Put one table or figure on the page and into the markdown."""
    out.mkdir(parents=True, exist_ok=True)
    if isinstance(block, Table):
        page.table(block.columns, block.rows, block.caption)
        lines += [block.markdown(), "", block.caption, ""]
        return
    (out / "figures").mkdir(exist_ok=True)
    block.figure.savefig(out / "figures" / f"{name}.png", dpi=150)
    page.figure(block.figure, block.caption, block.alt)
    lines += [f"![{block.alt}](figures/{name}.png)", "", block.caption, ""]


def obtained_by(rows: Sequence[Record]) -> str:
    """The commands and machines behind a group of records, and a warning if some of them are quick."""
    found: dict[str, None] = {}
    for row in rows:
        machine = row["machine"]
        where = f"{machine['cores']} cores, {machine['device']}, torch {row['versions']['torch']}"
        found[f"`{row['command']}` ({where})"] = None
    quick = (
        " These are quick runs, trained too briefly for real figures." if any("quick" in row for row in rows) else ""
    )
    return "Made by " + "; ".join(found) + "." + quick
