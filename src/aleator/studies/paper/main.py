"""The main table: three models, bare and under AUR, by Recall and NDCG under the three protocols."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aleator.studies.methods import Method
from aleator.studies.published import figure, published
from aleator.studies.report.tables import (
    Block,
    Cell,
    Row,
    Shown,
    Table,
    change,
    figure_of,
    interval,
    seeds_of,
    signs,
    values,
)
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, against_bare

BACKBONES = ("MF", "LGCN", "VAE")
METRICS = ("recall@20", "recall@50", "ndcg@20", "ndcg@50")
PROTOCOLS = ("overall", "tail_absolute", "tail_relative")
SHOWN = (("overall", "recall@20"), *((protocol, "recall@50") for protocol in PROTOCOLS))  # where there is little room
OPTIONLESS = ("Popularity", "Random")
TESTS = signs("the bare model") + ", Holm-corrected)"


def cells(bench: Bench) -> list[Method]:
    return [Method(name) for bare in BACKBONES for name in (bare, f"{bare}-AUR")]


def comparison(study: str, rows: Sequence[Row], protocol: str, metrics: Sequence[str], note: str = TESTS) -> Table:
    """Every method under one protocol, beside what was published."""
    dataset, recipe = rows[0]["dataset"], rows[0]["recipe"]
    known = bool(published(study, dataset))
    heads = [head for m in metrics for head in ([m, "published", "difference"] if known else [m])]
    lines: list[list[Cell]] = []
    for method, runs in seeds_of(rows).items():
        line: list[Cell] = [method]
        for metric in metrics:
            line.append(figure_of(runs, protocol, metric))
            if known:
                printed = figure(study, dataset, method, protocol, metric)
                mean = interval(values(runs, protocol, metric))[0]
                line += [printed, change(mean, printed)]
        lines.append([*line, str(len(runs))])
    words = {
        "overall": "all items",
        "tail_absolute": "tail items among all",
        "tail_relative": "tail items among the tail",
    }
    caption = (
        f"{dataset}, recipe {recipe}, {protocol.replace('_', ' ')} ({words[protocol]}). {conventions(rows)} {note}."
    )
    unlike = " Published figures follow recipe paper: other choices, another cut and policy."
    caption += untuned(rows) + (unlike if known and recipe == "ours" else "")
    return Table(["method", *heads, "seeds"], lines, caption)


def untuned(rows: Sequence[Row]) -> str:
    """Says which methods have default options while others were tuned: that is no fair comparison."""
    methods = dict.fromkeys(row["method"] for row in rows if row["method"] not in OPTIONLESS)
    plain = [name for name in methods if not all(row.get("tuned", True) for row in rows if row["method"] == name)]
    if not plain:
        return ""
    names = "All methods" if len(plain) == len(methods) else ", ".join(plain)
    return f" Not tuned on this dataset, with default options: {names}."


def conventions(rows: Sequence[Row]) -> str:
    """What the tail is, and what happens to users without it."""
    empty = "skipped" if rows[0]["empty"] == "skip" else "counted as 0"
    chosen = ""
    if rows[0]["recipe"] == "paper":
        chosen = "Epochs and lam were chosen on the test part, on the users of the tests: p-values are optimistic. "
    return f"{chosen}Tail: {rows[0]['tail']}; users without a tail test item are {empty}."


def improvement(rows: Sequence[Row], protocol: str, models: Sequence[str] = BACKBONES) -> tuple[float, float] | None:
    """What AUR changes over models and metrics, in per cent: the mean of the changes, and the change of the sums.

    The paper's text averages in the first way for Yelp2018 and Amazon-Book, in the second for Adressa and ML-10M.
    """
    runs, pairs = seeds_of(rows), []
    for bare in models:
        if not {bare, f"{bare}-AUR"} <= runs.keys():
            return None
        for metric in METRICS:
            pairs.append([interval(values(runs[name], protocol, metric))[0] for name in (bare, f"{bare}-AUR")])
    before, after = np.array(pairs).T
    if not before.all():
        return None
    return 100 * float(np.mean(after / before - 1)), 100 * float(after.sum() / before.sum() - 1)


def paired(rows: Sequence[Row]) -> list[Block]:
    """What AUR changes in each metric, with the highest p-value of the seeds."""
    lines: list[list[Cell]] = []
    for method, runs in seeds_of(rows).items():
        tests = [{(t["protocol"], t["metric"]): t for t in row.get("against", {}).get("tests", [])} for row in runs]
        for metric in METRICS if any(tests) else ():
            line: list[Cell] = [method, metric]
            for protocol in PROTOCOLS:
                found = [of[protocol, metric] for of in tests if (protocol, metric) in of]
                ps = [test["p"] for test in found if test["p"] is not None]
                if not ps or not all(test["baseline"] for test in found):
                    line.append(None)
                    continue
                gain = float(np.mean([test["mean"] / test["baseline"] - 1 for test in found]))
                p = f"{max(ps):.2g}" if max(ps) else "< 1e-300"
                line.append(Shown(f"{gain:+.1%} (p {p})", gain))
            lines.append(line)
    if not lines:
        return []
    caption = (
        f"{rows[0]['dataset']}, recipe {rows[0]['recipe']}: the change against the bare model, mean over seeds, with the "
        "highest of their p-values (two-sided paired t-test over users, Holm-corrected over all metrics of a report)."
    )
    return [Table(["method", "metric", *(p.replace("_", " ") for p in PROTOCOLS)], lines, caption)]


def show(rows: Sequence[Row]) -> list[Block]:
    dataset, recipe = rows[0]["dataset"], rows[0]["recipe"]
    printed = published("improvement", dataset)
    lines: list[list[Cell]] = []
    for protocol in PROTOCOLS:
        ours, theirs = improvement(rows, protocol), printed.get(protocol)
        if ours is not None:
            line = [f"{value:+.1f} %" for value in ours]
            lines.append([protocol.replace("_", " "), *line, theirs and f"{theirs:+.1f} %"])
    blocks: list[Block] = [comparison("main", rows, protocol, METRICS) for protocol in PROTOCOLS]
    blocks += paired(rows)
    if lines:
        caption = f"{dataset}, recipe {recipe}: what AUR changes over the three models and four metrics."
        caption += (
            " The paper's text has the mean for Yelp2018 and Amazon-Book, the sums for Adressa." if printed else ""
        )
        heads = ["protocol", "mean of the changes", "change of the sums", "as printed in the paper's text"]
        blocks.append(Table(heads, lines, caption))
    return blocks


STUDY = Study(
    name="main",
    title="AUR on three models",
    question="Does the uncertainty raise the tail of MF, LightGCN and MultVAE without losing overall accuracy?",
    cells=cells,
    measure=against_bare,
    show=show,
)
