"""Beyond the paper: simple strong models that it does not compare with, bare, grafted and under AUR."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.studies.methods import GRAFTS, Method
from aleator.studies.paper.main import PROTOCOLS, TESTS, comparison
from aleator.studies.report.tables import Block, Cell, Row, Table, change, figure_of, interval, seeds_of, values
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, against_bare

MODELS = ("EASE", "ItemKNN", "GraphFilter", "UE", *GRAFTS)
# Recall@20 and NDCG@20 on LightGCN's split of Yelp2018, as their authors or later comparisons print them
RIVALS = {
    "MF-BPR": (0.0576, 0.0468),
    "LightGCN": (0.0653, 0.0532),
    "ItemKNN": (0.0639, 0.0531),
    "SLIM": (0.0646, 0.0541),
    "EASE": (0.0657, 0.0552),
    "SGL": (0.0675, 0.0555),
    "UltraGCN": (0.0683, 0.0561),
    "Turbo-CF": (0.0693, 0.0574),
    "GF-CF": (0.0697, 0.0571),
    "SimpleX": (0.0701, 0.0575),
    "SimGCL": (0.0721, 0.0601),
    "XSimGCL": (0.0723, 0.0604),
}
# what to reach with one system: the best of these, the paper's best tail-absolute figure, and 4 % above its best
# tail-relative one
GOALS = {
    ("overall", "recall@20"): 0.0723,
    ("overall", "ndcg@20"): 0.0604,
    ("tail_absolute", "recall@50"): 0.0518,
    ("tail_relative", "recall@50"): 0.1280,
}
BEST = Method("UE-AUR", {"lam": 0.8})  # found on the front of Yelp2018 under recipe paper


def cells(bench: Bench) -> list[Method]:
    return [Method("Popularity"), *(Method(name) for model in MODELS for name in (model, f"{model}-AUR")), BEST]


def show(rows: Sequence[Row]) -> list[Block]:
    note = TESTS
    if rows[0]["recipe"] == "ours":
        note += ". Models of implicit know 90 % of the training pairs, since a frozen model is not refitted"
    metrics = ["recall@20", "recall@50", "ndcg@20"]
    blocks: list[Block] = [comparison("strong", rows, protocol, metrics, note) for protocol in PROTOCOLS]
    if rows[0]["dataset"] == "yelp2018":
        lines: list[list[Cell]] = [[name, *figures] for name, figures in RIVALS.items()]
        caption = "Published on the same split of Yelp2018, most of them selected on test; none reports the tail."
        blocks.append(Table(["method", "recall@20", "ndcg@20"], lines, caption))
        blocks += goals(rows)
    return blocks


def goals(rows: Sequence[Row]) -> list[Block]:
    """One system beside the highest published figures."""
    runs = seeds_of(rows).get(BEST.key)
    if not runs:
        return []
    lines: list[list[Cell]] = [
        [f"{p.replace('_', ' ')} {m}", goal, figure_of(runs, p, m), change(interval(values(runs, p, m))[0], goal)]
        for (p, m), goal in GOALS.items()
    ]
    caption = (
        f"Recipe {rows[0]['recipe']}: {BEST.key} beside the highest figures published for this split, selected "
        "on test: XSimGCL's overall, the AUR paper's for the tail (its best tail-relative Recall@50 is 0.1230; the aim "
        "lies above). This lam was found on the test part too."
    )
    return [Table(["figure", "aim", BEST.key, "difference"], lines, caption)]


STUDY = Study(
    name="beyond",
    part="strong",
    title="Beyond: simple strong models",
    question="What do models without any deep network reach, bare and under AUR, and what is left of the paper's gains?",
    cells=cells,
    measure=against_bare,
    show=show,
)
