"""Beyond the paper: overall and tail accuracy as one curve, over lam and alpha, for every method in one figure."""

from __future__ import annotations

from collections.abc import Sequence

from aleator.aur import AUR
from aleator.evaluation.protocols import evaluate
from aleator.studies.beyond.strong import GOALS
from aleator.studies.methods import Method
from aleator.studies.paper.main import conventions, untuned
from aleator.studies.report.tables import Block, Cell, Picture, Row, Table
from aleator.studies.study import Study
from aleator.studies.workbench import Bench, accuracy

BARE = (
    "MF",
    "LGCN",
    "VAE",
    "MF-BPR",
    "IPS",
    "MACR",
    "PopBias",
    "ExpoMF",
    "PMF",
    "EASE",
    "ItemKNN",
    "GraphFilter",
    "UE",
)
UNCERTAIN = ("MF-AUR", "LGCN-AUR", "VAE-AUR", "EASE-AUR", "GraphFilter-AUR", "UE-AUR")
ALPHAS = (2.0, 3.0, 5.0)  # beside the tuned one
LAMS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SHOWN = {
    "recall@20": ("overall", "recall@20"),
    "ndcg@20": ("overall", "ndcg@20"),
    "recall@50": ("overall", "recall@50"),
    "tail absolute recall@50": ("tail_absolute", "recall@50"),
    "tail relative recall@50": ("tail_relative", "recall@50"),
}
GOAL = GOALS["overall", "recall@20"], GOALS["tail_absolute", "recall@50"]


def cells(bench: Bench) -> list[Method]:
    more = [Method(name, {"alpha": alpha}) for name in UNCERTAIN for alpha in ALPHAS]
    return [*map(Method, UNCERTAIN), *([] if bench.quick else more), *map(Method, BARE)]


def measure(bench: Bench, method: Method) -> Row:
    """Accuracy, and the path of an AUR over lam: one fitted estimator, ranked by each blend."""
    system = bench.fit(method)
    row = accuracy(bench, method, system=system)
    if isinstance(system, AUR):
        path = []
        for lam in (0.0, 0.5, 1.0) if bench.quick else LAMS:
            report = evaluate(system.at(lam), bench.split, recipe=bench.recipe)
            means = report.to_dict()
            path.append({"lam": lam} | {name: means[protocol][metric] for name, (protocol, metric) in SHOWN.items()})
        row["path"] = path
    return row


def points(rows: Sequence[Row]) -> list[tuple[str, dict[str, float]]]:
    """Every measured setting of the first seed, with its name."""
    found = []
    for row in rows:
        if row["seed"] == 0:
            alpha = row.get("settings", {}).get("alpha")
            name = row["method"] + ("" if alpha is None else f", alpha {alpha:g}")
            own = {name_: row["metrics"][p][m] for name_, (p, m) in SHOWN.items()}
            steps = row.get("path", [own])
            found += [(name, step) for step in steps if None not in step.values()]
    return found


def show(rows: Sequence[Row]) -> list[Block]:
    from aleator.studies.report import plots

    x, y = "recall@20", "tail absolute recall@50"
    measured = points(rows)
    families: dict[str, dict[str, list[plots.Point]]] = {}
    others: dict[str, plots.Point] = {}
    for name, step in measured:
        point = step[x], step[y]
        if "lam" in step:
            families.setdefault(name.partition(",")[0], {}).setdefault(name, []).insert(0, point)
        elif f"{name}-AUR" not in UNCERTAIN:  # the start of a path otherwise
            others[name] = point
    paths = {family: list(own.values()) for family, own in families.items()}
    best = set(plots.pareto([(step[x], step[y]) for _, step in measured]))
    dataset, recipe = rows[0]["dataset"], rows[0]["recipe"]
    goal = GOAL if (dataset, recipe) == ("yelp2018", "paper") else None
    picture = Picture(
        plots.front(paths, others, "overall Recall@20", "tail-absolute Recall@50", goal),
        f"{dataset}, recipe {recipe}, seed 0: up and to the right is better. A path is one AUR from lam = 1 (its model, "
        "filled) to lam = 0 (the uncertainty alone, hollow), one for each alpha; the dashed line is the front of all, "
        "closer in the lower panel"
        + (", the star XSimGCL's published Recall@20 with the paper's best tail." if goal else "."),
        "Overall Recall@20 against tail-absolute Recall@50 for every method, lam and alpha",
    )
    lines: list[list[Cell]] = [
        [name, f"{step['lam']:g}" if "lam" in step else None, *(step[column] for column in SHOWN)]
        for name, step in sorted(measured, key=lambda point: -point[1][x])
        if (step[x], step[y]) in best
    ]
    caption = (
        f"{dataset}, recipe {recipe}: the settings on the front, which no other beats in both. One seed; they stand out "
        f"by their test figures, so read the front as what could be reached. {conventions(rows)}{untuned(rows)}"
    )
    return [picture, Table(["method", "lam", *SHOWN], lines, caption)]


STUDY = Study(
    name="beyond",
    part="front",
    title="Beyond: overall against tail",
    question="Which methods, at which lam and alpha, give the most tail for a given overall accuracy?",
    cells=cells,
    measure=measure,
    show=show,
    seeds=False,
)
