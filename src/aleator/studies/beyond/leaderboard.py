"""Beyond the paper: default models and the default AUR beside a public leaderboard, on the splits that they share.

`studies/leaderboard.json` holds the rows of the leaderboard, with their source and its date. The key `run` says who ran
a row: the leaderboard itself, or the authors of some paper, whose printed figures it took over.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from aleator.studies import records
from aleator.studies.methods import DEFAULT, FLOORS, Method
from aleator.studies.paper.main import METRICS, sentences
from aleator.studies.records import Record
from aleator.studies.report.cells import Cell, Shown
from aleator.studies.report.tables import Block, Table, count, figure_of, mean_of, over_seeds, rule, seeds_of
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, accuracy

MODELS = ("MF", "EASE", "LGCN", "VAE", "FISM", "GraphFilter", "ItemKNN", DEFAULT)
OVERALL = Method(DEFAULT, {"select": "overall"})
CHOSEN_ON = {"BARS": "test", "elsewhere": "as printed"}  # what the leaderboard's rows were chosen on, by who ran them


@cache
def board() -> dict[str, Any]:
    """The leaderboard: its source, the datasets whose split it shares, and its rows."""
    found: dict[str, Any] = json.loads((Path(__file__).parents[1] / "leaderboard.json").read_text())
    return found


def cells(bench: Workbench) -> list[Method]:
    return [*map(Method, MODELS), OVERALL, *map(Method, FLOORS)]


def show(rows: Sequence[Record]) -> list[Block]:
    """One table, the highest Recall@20 first."""
    lines: list[tuple[float, list[Cell]]] = []
    for key, runs in seeds_of(rows).items():
        figures = [figure_of(runs, "overall", metric) for metric in METRICS]
        name = key.replace(" select=", ", select ")
        lines.append((mean_of(runs, "overall", "recall@20"), [name, "ours", *figures, "validation", count(len(runs))]))
    for row in board()["rows"]:
        if row["dataset"] == rows[0]["dataset"]:
            name, figures = f"{row['model']} ({row['year']})", [_printed(row.get(metric)) for metric in METRICS]
            by = "BARS" if row["run"] == "BARS" else "BARS, from a paper"
            lines.append((row["recall@20"], [name, by, *figures, CHOSEN_ON[row["run"]], None]))
    lines.sort(key=lambda line: -line[0])
    split = board()["splits"].get(rows[0]["dataset"])
    caption = sentences(
        f"{records.about(rows)}: models with default options among the rows of the BARS leaderboard for the same "
        f"split ({split}), the highest Recall@20 first.",
        f"Source: {board()['source']}.",
        "These splits have no validation part, so what BARS ran itself was chosen on the test part. It took over other "
        "rows as papers print them, and most papers choose on the test part too. Within a fit, ours are "
        "chosen on validation. But some default values were found with test figures of Yelp2018 in view.",
        "Here and there, Recall@k divides by all test items of a user, and the ideal of NDCG@k has at most k of them. "
        "BARS asks for 64 dimensions. Ours are not bound to that.",
        rule(rows),
        over_seeds(rows),
    )
    return [Table(["method", "by", *METRICS, "chosen on", "seeds"], [line for _, line in lines], caption)]


def _printed(value: float | None) -> Cell:
    return None if value is None else Shown(f"{value:.4f}", value)


STUDY = Study(
    name="beyond",
    part="leaderboard",
    title="Beyond: beside a public leaderboard",
    question="Where do models with default options and the default AUR stand on a public leaderboard of the same split?",
    cells=cells,
    measure=accuracy,
    show=show,
    plain=True,
    applies=lambda bench: bench.dataset in board()["splits"] and not bench.recipe.on_test,
)
