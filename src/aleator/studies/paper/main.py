"""The main table: three models, bare and under AUR, by Recall and NDCG under the three protocols."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aleator.studies import records
from aleator.studies.methods import FLOORS, Method, tunable, under_aur
from aleator.studies.published import figure, published
from aleator.studies.records import PairedTest, Record
from aleator.studies.report.cells import Cell, Shown
from aleator.studies.report.tables import (
    FAMILY,
    Block,
    Table,
    change,
    count,
    figure_of,
    interval,
    mean_of,
    over_seeds,
    rule,
    seeds_of,
    signs,
    tests_of,
    words,
)
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, against_bare

BACKBONES = ("MF", "LGCN", "VAE")
METHODS = (*FLOORS, *(name for bare in BACKBONES for name in (bare, under_aur(bare))))
METRICS = ("recall@20", "recall@50", "ndcg@20", "ndcg@50")
PROTOCOLS = {
    "overall": "all test items, ranked among all items",
    "tail_absolute": "tail items of the test part, ranked among all items",
    "tail_relative": "tail items of the test part, ranked among tail items",
}
SHOWN = (("overall", "recall@20"), *((protocol, "recall@50") for protocol in PROTOCOLS))  # where there is little room
TESTS = signs("the bare model")


def cells(bench: Workbench) -> list[Method]:
    return [Method(name) for name in METHODS]


def comparison(
    study: str, rows: Sequence[Record], protocol: str, metrics: Sequence[str], *, look: str = "", note: str = TESTS
) -> Table:
    """Every method under one protocol, beside the published figures. The caption begins with `look`, what to see."""
    dataset = rows[0]["dataset"]
    known = bool(published(study, dataset))
    heads = [head for m in metrics for head in ([m, "published", "difference"] if known else [m])]
    lines: list[list[Cell]] = []
    for method, runs in seeds_of(rows).items():
        line: list[Cell] = [method]
        for metric in metrics:
            line.append(figure_of(runs, protocol, metric))
            if known:
                printed = figure(study, dataset, method, protocol, metric)
                line += [printed, change(mean_of(runs, protocol, metric), printed)]
        lines.append([*line, count(len(runs))])
    caption = [f"{records.about(rows)}: {words(protocol)} ({PROTOCOLS[protocol]}).", look, conventions(rows), note]
    if known and not records.recipe(rows).paper_tail:
        caption.append("The published figures were chosen on the test part, with another tail and another policy.")
    return Table(["method", *heads, "seeds"], lines, sentences(*caption, untuned(rows)))


def sentences(*parts: str) -> str:
    """The parts of a caption that are not empty, one after the other."""
    return " ".join(filter(None, parts))


def untuned(rows: Sequence[Record]) -> str:
    """Says which methods have default options, since a comparison of tuned with untuned methods is not fair."""
    methods = dict.fromkeys(row["method"] for row in rows if tunable(row["method"]))
    plain = [name for name in methods if not all(row.get("tuned", True) for row in rows if row["method"] == name)]
    if not plain:
        return ""
    if len(plain) == len(methods):
        return "No method was tuned on this dataset: all have default options."
    return f"These methods were not tuned on this dataset and have default options: {', '.join(plain)}."


def conventions(rows: Sequence[Record]) -> str:
    """How lam was chosen, what the tail is, what happens to users without it, and what ± means."""
    empty = "skipped" if rows[0]["empty"] == "skip" else "counted as 0"
    chosen = ""
    if records.recipe(rows).on_test:
        chosen = "Epochs and lam were chosen on the test part, on the same users, so p-values are optimistic."
    tail = f"Tail: {rows[0]['tail']}.", f"Users without a tail test item are {empty}."
    return sentences(rule(rows), chosen, *tail, over_seeds(rows))


def improvement(rows: Sequence[Record], protocol: str, models: Sequence[str] = BACKBONES) -> tuple[float, float] | None:
    """What AUR changes over models and metrics, in per cent: the mean of the changes, and the change of the sums.

    The paper's text averages in the first way for Yelp2018 and Amazon-Book, in the second for Adressa and ML-10M.
    """
    runs, pairs = seeds_of(rows), []
    for bare in models:
        both = bare, under_aur(bare)
        if not runs.keys() >= set(both):
            return None
        pairs += [[mean_of(runs[name], protocol, metric) for name in both] for metric in METRICS]
    before, after = np.array(pairs).T
    if not before.all():
        return None
    return 100 * float(np.mean(after / before - 1)), 100 * float(after.sum() / before.sum() - 1)


def improvements(rows: Sequence[Record]) -> list[Block]:
    """One table of what AUR changes on average, where all three models are measured."""
    printed = published("improvement", rows[0]["dataset"])
    lines: list[list[Cell]] = []
    for protocol in PROTOCOLS:
        ours, theirs = improvement(rows, protocol), printed.get(protocol)
        if ours is not None:
            lines.append(
                [words(protocol), *(value if value is None else _per_cent(value) for value in (*ours, theirs))]
            )
    if not lines:
        return []
    caption = f"{records.about(rows)}: the average change by AUR over the three models and four metrics, in two ways."
    if printed:
        caption += " The paper's text has the first for Yelp2018 and Amazon-Book, and the second for Adressa."
    heads = ["protocol", "mean of the changes", "change of the sums", "as printed in the paper's text"]
    return [Table(heads, lines, sentences(caption, rule(rows)))]


def _per_cent(value: float) -> Cell:
    return Shown(f"{value:+.1f} %", value)


def paired(rows: Sequence[Record]) -> list[Block]:
    """One table of what AUR changes in each metric, with the highest p-value of the seeds."""
    lines: list[list[Cell]] = []
    for method, runs in seeds_of(rows).items():
        tests = [{(test["protocol"], test["metric"]): test for test in tests_of(row)} for row in runs]
        for metric in METRICS if any(tests) else ():
            found = [[of[protocol, metric] for of in tests if (protocol, metric) in of] for protocol in PROTOCOLS]
            lines.append([method, metric, *map(gain, found)])
    if not lines:
        return []
    caption = (
        f"{records.about(rows)}: the change by AUR against the bare model, as the mean over seeds. In brackets: the "
        f"highest p-value of the seeds (two-sided paired t-test over users, Holm-corrected over {FAMILY})."
    )
    if over_seeds(rows):
        caption += " ± is half the width of the 95 % interval of the mean change over seeds (Student's t)."
    return [Table(["method", "metric", *map(words, PROTOCOLS)], lines, sentences(caption, rule(rows)))]


def gain(tests: Sequence[PairedTest]) -> Cell:
    """The mean change of the tests, one for each seed, with their highest p-value."""
    ps = [test["p"] for test in tests if test["p"] is not None]
    pairs = [(test["mean"], test["baseline"]) for test in tests]
    changes = [mean / baseline - 1 for mean, baseline in pairs if mean is not None and baseline]
    if not ps or len(changes) < len(pairs):
        return None
    p = f"{max(ps):.2g}" if max(ps) else "< 1e-300"
    mean, half = interval(changes)
    seeds = "" if np.isnan(half) else f"±{half:.1%} "
    return Shown(f"{mean:+.1%}", mean, note=f"{seeds}(p {p})")


def show(rows: Sequence[Record]) -> list[Block]:
    look = "Compare each AUR with the bare model above it."
    tables: list[Block] = [comparison("main", rows, protocol, METRICS, look=look) for protocol in PROTOCOLS]
    return [*tables, *paired(rows), *improvements(rows)]


STUDY = Study(
    name="main",
    title="AUR on three models",
    question="Does the uncertainty raise the tail of MF, LightGCN and MultVAE without a loss of overall accuracy?",
    cells=cells,
    measure=against_bare,
    show=show,
    order=METHODS,
    released=True,
)
