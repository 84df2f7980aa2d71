"""Write the figures of README.md and docs/results.md anew: tables from results/, the demo by running it.

python docs/update.py           tables only
python docs/update.py --demo    the demo's printed table and picture too (about a minute)
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SHOWN = (
    ("overall", "recall@20"),
    ("overall", "recall@50"),
    ("tail_absolute", "recall@50"),
    ("tail_relative", "recall@50"),
)


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


def main_table(files: list[str]) -> str:
    """MF and MF-AUR for each dataset and recipe."""
    lines = [
        "| dataset, recipe | | R@20 | R@50 | tail absolute R@50 | tail relative R@50 | fit |",
        "|---|---|---|---|---|---|---|",
    ]
    for file in files:
        for row in rows(file):
            against = {(r["protocol"], r["metric"]): r for r in row.get("against_MF", [])}
            cells = []
            for protocol, metric in SHOWN:
                p = against.get((protocol, metric))
                star = "" if p is None or p["p"] >= 0.05 else " \\*"
                cells.append(f"{row['metrics'][protocol][metric]:.4f}{star}")
            name = row["dataset"] + (", ours" if row["recipe"] == "ours" else ", paper (chosen on the **test** part)")
            if row["method"] != "MF":
                options = row["config"]["estimator"]["options"]
                lr, decay, dropout = (options[name] for name in ("lr", "weight_decay", "history_dropout"))
                name = f"lr {lr:g}, weight decay {decay:g}, dropout {dropout:g}"
            lines.append(f"| {name} | {row['method']} | {' | '.join(cells)} | {row['seconds']:.0f} s |")
    return "\n".join(lines)


def commands(files: list[str]) -> str:
    """The command, machine and conventions of each pair of rows."""
    found = {}
    for file in files:
        for row in rows(file):
            machine = f"{row['machine']['cores']} cores, {row['machine']['device']}, torch {row['versions']['torch']}"
            found[row["command"]] = f"- `{row['command']}` ({machine}): tail {row['tail']}; empty {row['empty']}"
    return "\n".join(found.values())


def worlds_table() -> str:
    """AUROC of each score in each world."""
    found = rows("worlds.jsonl")
    names = list(found[0]["auroc"])
    lines = [f"| world (skew) | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for row in found:
        cells = [f"{a['mean']:.4f} ± {a['half_width']:.4f}" for a in row["auroc"].values()]
        lines.append(f"| {row['world']} ({row['skew']}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def demo() -> None:
    """The demo's table and the picture of the README."""
    import aleator as al
    from aleator.studies import demo, figures

    split, note = demo.open_world(None)
    made = demo.run(split, al.MF(), al.AUR(al.MF()), note)
    put(ROOT / "README.md", "demo", f"```text\n{made.table()}\n```")
    figures.lam_curve(made.aur.curve, made.aur.lam_used).savefig(ROOT / "docs" / "lam_curve.png", dpi=120)


def update() -> None:
    files = ["main/yelp2018.jsonl", "main/adressa.jsonl"]
    put(ROOT / "README.md", "results", main_table(files))
    put(ROOT / "docs" / "results.md", "main", main_table(files))
    put(ROOT / "docs" / "results.md", "commands", commands(files))
    put(ROOT / "docs" / "results.md", "worlds", worlds_table())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", action="store_true")
    if parser.parse_args().demo:
        demo()
    update()
