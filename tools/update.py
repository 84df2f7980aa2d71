"""Write the figures of README.md and of docs/ anew: tables and pictures from results/, the demo by running it.

python tools/update.py           all tables, and the pictures of docs/figures
python tools/update.py --demo    the demo's printed table and picture too (about a minute)

Each table stands between a pair of markers, `<!-- name -->` and `<!-- /name -->`. What stands outside of them is written
by hand, and stays. Each study has a page of its own, docs/results/NAME.md.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tools")]

import claims  # noqa: E402
import growth  # noqa: E402
import scale  # noqa: E402
import scale_figures  # noqa: E402
import time_to_quality  # noqa: E402
from common import _short  # noqa: E402

from aleator.studies.beyond import default  # noqa: E402
from aleator.studies.methods import DEFAULT, under_aur  # noqa: E402
from aleator.studies.records import about, without_folders  # noqa: E402
from aleator.studies.report import report as reporting  # noqa: E402
from aleator.studies.report.tables import Cell, Table  # noqa: E402

PERFORMANCE = ROOT / "docs" / "performance.md"
SCALE = ROOT / "docs" / "scale.md"
RESULTS = ROOT / "docs" / "results"
FIGURES = ROOT / "docs" / "figures"
PICTURES = {
    "time_to_quality h200": "![Recall@20 on validation by seconds of training](figures/time_to_quality.png)",
    "growth cpu": "![Seconds and memory by the number of users, of items and of pairs](figures/growth.png)",
}
TABLED = ("benchmark", "rows", "machine", "versions", "command", "points", "curves")  # all else is told in words
OWN = ("--json", "--plot", "--data-root")  # options that name a place on somebody's machine
UNMEASURED = "*Not measured yet.*"


def put(path: Path, name: str, text: str) -> None:
    """Replace what stands between the markers `name`."""
    old = path.read_text()
    block = f"<!-- {name} -->\n{text}\n<!-- /{name} -->"
    new, count = re.subn(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _: block, old, flags=re.DOTALL)
    assert count == 1, f"{path} has {count} places for {name}"
    path.write_text(new)


def rows(file: str) -> list[dict[str, Any]]:
    """The records of a file of results."""
    return [json.loads(line) for line in (ROOT / "results" / file).read_text().splitlines()]


def default_table(dataset: str = "yelp2018") -> str:
    """Default options: each model bare, divided by a power of popularity, and under AUR."""
    found = default.by_cell([row for row in default.STUDY.rows(ROOT / "results", dataset) if "control" in row])
    kinds = {"bare": default.bare_of, "/ pop^a": default.control_of, "AUR": default.aur_of}
    heads = [f"{metric} {kind}" for metric in ("R@20", "N@20", "tail R@50") for kind in kinds]
    lines = [f"| model | {' | '.join(heads)} | seeds |", f"|{'---|' * (len(heads) + 2)}"]
    names = {under_aur(model): model for model in ("MF", "LGCN", "VAE", "FISM")} | {DEFAULT: "default"}
    for cell in (cell for cell in found if cell.name in names):
        figures = [f"{cell.mean(shown, of):.4f}" for shown in default.SHOWN for of in kinds.values()]
        lines.append(f"| {names[cell.name]} | {' | '.join(figures)} | {len(cell.rows)} |")
    return "\n".join(lines)


def places(draw: bool = True) -> dict[str, str]:
    """What belongs on the page of each study, such as "main" or "beyond-front". A page whose records are gone says so."""
    pages = {path.stem: path.read_text() for path in RESULTS.glob("*.md")}
    found: dict[str, list[str]] = {name: [] for name, page in pages.items() if f"<!-- {name} -->" in page}
    for study, dataset, recipe, records in reporting.sections(ROOT / "results"):
        place = f"{study.name}-{study.part}" if study.part else study.name
        parts = found.setdefault(place, [])
        parts.append(f"## {about(records)}")
        for number, block in enumerate(study.show(records)):
            if isinstance(block, Table):
                parts.append(f"{narrow(block).markdown()}\n\n{caption(block.caption)}")
                continue
            file = f"{place}-{dataset}-{recipe}-{number}.png"
            if draw:
                block.figure.savefig(FIGURES / file, dpi=110)
            parts.append(f"![{block.alt}](../figures/{file})\n\n{caption(block.caption)}")
        made_by = reporting.obtained_by(records)
        parts.append(f'<details markdown="1"><summary>Commands and machines</summary>\n\n{made_by}\n\n</details>')
    return {place: "\n\n".join(parts) or UNMEASURED for place, parts in found.items()}


def caption(text: str) -> str:
    """What to see in a table or figure, set apart from the text of the page."""
    return f'<div class="caption" markdown="1">\n\n{text}\n\n</div>'


def narrow(table: Table) -> Table:
    """The same table with each published figure, and the difference from it, below our own figure."""
    names = list(table.columns)
    beside = [n for n, name in enumerate(names) if name == "published" and names[n + 1 : n + 2] == ["difference"]]
    if len(beside) < 2:  # there is room for one
        return table
    dropped = {m for n in beside for m in (n, n + 1)}

    def cell(row: Sequence[Cell], n: int) -> Cell:
        if n + 1 not in beside or row[n + 1] is None:
            return row[n]
        own = f"{row[n]:.4f}" if isinstance(row[n], float) else row[n]
        return f"{own}<br><small>published {row[n + 1]:.4f}, {row[n + 2]}</small>"

    kept = [n for n in range(len(names)) if n not in dropped]
    return Table([names[n] for n in kept], [[cell(row, n) for n in kept] for row in table.rows], table.caption)


def joint_table() -> str:
    """How many epochs of joint training validation keeps, for each dataset and method: one run for each rate and seed."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in claims.joint_runs():
        found.setdefault((run["dataset"], run["method"]), []).append(run["chosen"]["joint_epochs"])
    lines = ["| dataset | method | runs | epochs kept | runs that keep none |", "|---|---|---|---|---|"]
    for (dataset, method), kept in found.items():
        least, most = min(kept), max(kept)
        span = f"{least:.0f} to {most:.0f}" if least < most else f"{most:.0f}"
        lines.append(f"| {dataset} | {method} | {len(kept)} | {span} | {kept.count(0)} |")
    return "\n".join(lines)


def cost_table() -> str:
    """How long the records of each dataset took, on each kind of machine."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for file in sorted((ROOT / "results").glob("*/*.jsonl")):
        for row in rows(f"{file.parent.name}/{file.name}"):
            if row.get("seconds_here"):
                found.setdefault((row["dataset"], machine(row)), []).append(row)
    lines = ["| dataset | machine | records | hours of measuring | studies |", "|---|---|---|---|---|"]
    for (dataset, where), own in sorted(found.items()):
        studies = ", ".join(sorted({row.get("part") or row["study"] for row in own}))
        hours = sum(row["seconds_here"] for row in own) / 3600
        lines.append(f"| {dataset} | {where} | {len(own)} | {hours:.2f} | {studies} |")
    return "\n".join(lines)


def machine(record: dict[str, Any]) -> str:
    """What a record was obtained on."""
    about = record["machine"]
    return f"{about['cores']} cores, {about['device']}, torch {record['versions']['torch']}"


def measured() -> dict[str, list[dict[str, Any]]]:
    """The records of results/performance by benchmark and machine, such as "epochs h200"."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted((ROOT / "results" / "performance").glob("*.jsonl")):
        for record in rows(f"performance/{file.name}"):
            found.setdefault(f"{record['benchmark']} {file.stem}", []).append(record)
    return found


def performance() -> dict[str, str]:
    """What belongs between each pair of markers of docs/performance.md."""
    found = measured()
    places = re.findall(r"<!-- (\w+ [\w-]+) -->", PERFORMANCE.read_text())
    homeless = found.keys() - set(places)
    assert not homeless, f"{PERFORMANCE} has no place for {', '.join(sorted(homeless))}: write its two markers"
    made = {}
    for place in places:
        parts = [benchmark_table(record) for record in found.get(place, [])]
        made[place] = "\n\n".join([*parts, *([PICTURES[place]] if parts and place in PICTURES else [])])
    return {place: text or UNMEASURED for place, text in made.items()}


def benchmark_table(record: dict[str, Any]) -> str:
    """The rows of a benchmark, under the command and the machine; a column in which nothing stands is left out."""
    lines = []
    for row in record["rows"]:
        figures = {name: _figure(row.get(name), row.get("unit", "")) for name in ("ours", "reference")}
        against = {"ratio": _short(row.get("ratio")), "against": row.get("against", "")}
        more = {name: _short(value) for name, value in row.get("more", {}).items()}
        lines.append({"job": row["job"], **figures, **against, **more})
    names = [name for name in dict.fromkeys(n for line in lines for n in line) if any(line.get(name) for line in lines)]
    table = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    table += [f"| {' | '.join(line.get(name, '') for name in names)} |" for line in lines]
    return f"{_obtained(record)}\n\n" + "\n".join(table)


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if unit == "test" else f"{_short(value)} {unit}".strip()


def _obtained(record: dict[str, Any]) -> str:
    """The command, the machine, the versions of other libraries, and what else the record says of itself."""
    threads = record["machine"].get("threads", record["machine"]["cores"])
    few = "" if threads == record["machine"]["cores"] else f", threads: {threads}"
    own = ("aleator", "python", "torch", "numpy", "scipy")
    peers = "".join(f", {name} {version}" for name, version in record["versions"].items() if name not in own)
    told = [f"{name}: {_words(value)}".replace("_", " ") for name, value in record.items() if name not in TABLED]
    return "; ".join([f"`{_command(record)}` ({machine(record)}{few}{peers})", *told])


def _command(record: dict[str, Any]) -> str:
    """The command as anybody would give it."""
    given: str = record["command"]
    first, *words = shlex.split(given)
    if first != f"{record['benchmark']}.py":
        return given
    pairs = zip(words, ["", *words], strict=False)
    words = [word for word, before in pairs if word.partition("=")[0] not in OWN and before not in OWN]
    return shlex.join(["aleator", "bench", record["benchmark"], *map(without_folders, words)])


def _words(value: Any) -> str:
    if not isinstance(value, dict):
        return without_folders(value) if isinstance(value, str) else _short(value)
    return ", ".join(f"{k} ({_words(v)})" if isinstance(v, dict) else f"{k} {_words(v)}" for k, v in value.items())


def pictures() -> None:
    """Draw those of docs/performance.md and of docs/scale.md."""
    found = measured()
    for name, draw in scale_figures.FIGURES.items():
        draw(found).savefig(FIGURES / f"{name}.png", dpi=110)
    if records := found.get(
        "growth cpu"
    ):  # the first is the widest; lines of different worlds do not go on one another
        growth.plot(records[0]["points"], FIGURES / "growth.png")
    if runs := curves(found.get("time_to_quality h200", [])):
        time_to_quality.plot(runs, FIGURES / "time_to_quality.png")


def curves(records: list[dict[str, Any]]) -> list[time_to_quality.Run]:
    """The trainings of all records, named so that each job of each record has a panel; one of ALS alone has none."""
    runs: list[time_to_quality.Run] = []
    panels: Counter[str] = Counter()
    for record in records:
        own = [time_to_quality.Run(**curve) for curve in record["curves"]]
        for job in dict.fromkeys(run.job for run in own if run.settings != time_to_quality.ALS):
            name = f"{job}, {record['data']['name']}"
            panels[name] += 1
            name += f" ({panels[name]})" if panels[name] > 1 else ""
            runs += [replace(run, job=name) for run in own if run.job == job]
    return runs


def demo() -> None:
    """The demo's table and the picture of the README."""
    import aleator as al
    from aleator import demo
    from aleator.studies.report import figures

    split, note = demo.open_world(None)
    made = demo.run(split, al.MF(), al.AUR(al.MF()), al.AUR(), note)
    put(ROOT / "README.md", "demo", f"```text\n{made.table()}\n```")
    assert made.aur.choice is not None
    figures.lam_curve(made.aur.choice.curve, made.aur.lam_used).savefig(FIGURES / "lam_curve.png", dpi=120)


def update() -> None:
    put(ROOT / "README.md", "results", default_table())
    for place, text in places().items():
        put(RESULTS / f"{place}.md", place, text)
    for name, table in (("claims", claims.claims_table()), ("evidence", claims.evidence_table())):
        put(RESULTS / "index.md", name, table)
    put(ROOT / "docs" / "reproduce.md", "cost", cost_table())
    put(RESULTS / "variants.md", "joint", joint_table())
    for place, text in performance().items():
        put(PERFORMANCE, place, text)
    for place, text in scale.tables(measured()).items():
        put(SCALE, place, text)
    pictures()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", action="store_true")
    if parser.parse_args().demo:
        demo()
    update()
