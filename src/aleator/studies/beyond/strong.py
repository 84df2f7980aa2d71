"""Beyond the paper: simple strong models that the paper does not compare with, bare and under AUR."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.studies import records
from aleator.studies.methods import DEFAULT, FLOORS, Method, under_aur
from aleator.studies.paper.main import PROTOCOLS, comparison, conventions, sentences
from aleator.studies.records import Record
from aleator.studies.report.cells import Cell
from aleator.studies.report.tables import Block, Table, change, figure_of, mean_of, seeds_of, words
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, against_bare

MODELS = ("EASE", "ItemKNN", "GraphFilter", "FISM")
RIVALS_ON = "yelp2018"
# Recall@20 and NDCG@20 on LightGCN's split of Yelp2018, as printed by their authors or in later comparisons. NESCL:
# Sun et al. (2023, arXiv 2402.11523). GR-MC: Scientific Reports (2025, doi 10.1038/s41598-025-17925-y).
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
    "GR-MC": (0.0731, 0.0627),
    "NESCL": (0.0743, 0.0611),
}
# the goals for one system: XSimGCL's figures, the paper's best tail-absolute figure, and 4 % above its best
# tail-relative figure
GOALS = {
    ("overall", "recall@20"): 0.0723,
    ("overall", "ndcg@20"): 0.0604,
    ("tail_absolute", "recall@50"): 0.0518,
    ("tail_relative", "recall@50"): 0.1280,
}


def cells(bench: Workbench) -> list[Method]:
    compared = (name for model in MODELS for name in (model, under_aur(model)))
    return [*map(Method, FLOORS), *map(Method, compared), Method(DEFAULT)]


def show(rows: Sequence[Record]) -> list[Block]:
    metrics = ["recall@20", "recall@50", "ndcg@20"]
    look = "Compare each AUR with its bare model."
    tables: list[Block] = [comparison("strong", rows, protocol, metrics, look=look) for protocol in PROTOCOLS]
    return [*tables, rivals(), *goals(rows)] if rows[0]["dataset"] == RIVALS_ON else tables


def rivals() -> Table:
    """Published figures of other methods."""
    lines: list[list[Cell]] = [[name, *figures] for name, figures in RIVALS.items()]
    caption = (
        "Others published these figures on the same split of Yelp2018. Compare them with the overall table above. Most "
        "of them were selected on the test part. None of these works reports the tail."
    )
    return Table(["method", "recall@20", "ndcg@20"], lines, caption)


def goals(rows: Sequence[Record]) -> list[Block]:
    """The default AUR beside high published figures."""
    runs = seeds_of(rows).get(DEFAULT)
    if not runs:
        return []
    lines: list[list[Cell]] = [
        [f"{words(p)} {m}", goal, figure_of(runs, p, m), change(mean_of(runs, p, m), goal)]
        for (p, m), goal in GOALS.items()
    ]
    caption = sentences(
        f"Recipe {records.recipe(rows).title}: the default AUR beside figures that were published for this split. See "
        "how far it is from them.",
        "They were selected on the test part. The overall ones are XSimGCL's, and the tail ones are the AUR paper's.",
        "The paper's best tail-relative Recall@50 is 0.1230; the aim is higher.",
        conventions(rows),
    )
    return [Table(["figure", "aim", f"default {DEFAULT}", "difference"], lines, caption)]


STUDY = Study(
    name="beyond",
    part="strong",
    title="Beyond: simple strong models",
    question="How accurate are models without a deep network, bare and under AUR, and what remains of the paper's gains?",
    cells=cells,
    measure=against_bare,
    show=show,
    order=FLOORS,
)
