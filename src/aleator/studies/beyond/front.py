"""Beyond the paper: overall and tail accuracy as one curve, over lam and alpha, for every method in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aleator.aur import AUR
from aleator.evaluation.protocols import evaluate
from aleator.studies import records
from aleator.studies.beyond.strong import GOALS, RIVALS_ON
from aleator.studies.methods import FLOORS, Method, under_aur
from aleator.studies.paper.main import conventions, sentences, untuned
from aleator.studies.records import Measured, Record, Step
from aleator.studies.report.cells import Cell, number
from aleator.studies.report.tables import Block, Picture, Table
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, accuracy

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
    *FLOORS,
)
UNCERTAIN = tuple(map(under_aur, ("MF", "LGCN", "VAE", "EASE", "GraphFilter", "UE")))
ALPHAS = (2.0, 3.0, 5.0)  # beside the tuned one
LAMS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SHOWN = {
    "recall@20": ("overall", "recall@20"),
    "ndcg@20": ("overall", "ndcg@20"),
    "recall@50": ("overall", "recall@50"),
    "tail absolute recall@50": ("tail_absolute", "recall@50"),
    "tail relative recall@50": ("tail_relative", "recall@50"),
}
X, Y = "recall@20", "tail absolute recall@50"  # the axes of the figure
GOAL = GOALS["overall", "recall@20"], GOALS["tail_absolute", "recall@50"]


def cells(bench: Workbench) -> list[Method]:
    more = [Method(name, {"alpha": alpha}) for name in UNCERTAIN for alpha in ALPHAS]
    return [*map(Method, UNCERTAIN), *([] if bench.quick else more), *map(Method, BARE)]


def measure(bench: Workbench, method: Method) -> Measured:
    """Accuracy, and the path of an AUR over lam: the same fitted estimator, ranked by each blend."""
    system = bench.fit(method)
    row = accuracy(bench, method, system=system)
    if isinstance(system, AUR):
        lams = (0.0, 0.5, 1.0) if bench.quick else LAMS
        row["path"] = [step(system.at(lam), bench, lam) for lam in lams]
    return row


def step(aur: AUR, bench: Workbench, lam: float) -> Step:
    """The metrics of the figure at one lam."""
    means = evaluate(aur, bench.split, recipe=bench.recipe.name).to_dict()
    return {"lam": lam} | {name: means[protocol][metric] for name, (protocol, metric) in SHOWN.items()}


@dataclass(frozen=True)
class Setting:
    """A measured setting of a method: its metrics by the names of `SHOWN`, and lam and alpha where it has them."""

    method: str
    metrics: dict[str, float]
    lam: float | None = None
    alpha: float | None = None

    @property
    def name(self) -> str:
        return self.method if self.alpha is None else f"{self.method}, alpha {self.alpha:g}"

    @property
    def point(self) -> tuple[float, float]:
        return self.metrics[X], self.metrics[Y]


def measured(rows: Sequence[Record]) -> list[Setting]:
    """Every setting of the first seed that has all metrics."""
    found = []
    for row in rows:
        if row["seed"] != 0:
            continue
        own: Step = {name: row["metrics"][protocol][metric] for name, (protocol, metric) in SHOWN.items()}
        for one in row.get("path", [own]):
            metrics = {name: value for name in SHOWN if (value := one[name]) is not None}
            if len(metrics) == len(SHOWN):
                found.append(Setting(row["method"], metrics, one.get("lam"), row.get("settings", {}).get("alpha")))
    return found


def show(rows: Sequence[Record]) -> list[Block]:
    settings = measured(rows)
    return [picture(rows, settings), table(rows, settings)]


def picture(rows: Sequence[Record], settings: Sequence[Setting]) -> Picture:
    """All settings in the plane of overall and tail accuracy."""
    from aleator.studies.report import plots

    families: dict[str, dict[str, list[plots.Point]]] = {}
    others: dict[str, plots.Point] = {}
    for one in settings:
        if one.lam is not None:
            families.setdefault(one.method, {}).setdefault(one.name, []).insert(0, one.point)
        elif under_aur(one.method) not in UNCERTAIN:  # otherwise it is the start of a path
            others[one.method] = one.point
    paths = {family: list(own.values()) for family, own in families.items()}
    goal = GOAL if rows[0]["dataset"] == RIVALS_ON and records.recipe(rows).on_test else None
    star = "The star is XSimGCL's published Recall@20 with the paper's best tail." if goal else ""
    caption = sentences(
        f"{records.about(rows)}, seed 0: up and to the right is better.",
        "A path is one AUR from lam = 1 (its model, filled) to lam = 0 (the uncertainty alone, hollow).",
        "Its discount and its prior are those of the fit all along.",
        "There is one path for each alpha. The dashed line is the front of all settings. The lower panel is a close-up.",
        star,
    )
    alt = "Overall Recall@20 against tail-absolute Recall@50 for every method, lam and alpha"
    return Picture(plots.front(paths, others, "overall Recall@20", "tail-absolute Recall@50", goal), caption, alt)


def table(rows: Sequence[Record], settings: Sequence[Setting]) -> Table:
    """The settings on the front."""
    from aleator.studies.report import plots

    best = set(plots.pareto([one.point for one in settings]))
    lines: list[list[Cell]] = [
        [one.name, number(one.lam), *(one.metrics[column] for column in SHOWN)]
        for one in sorted(settings, key=lambda one: -one.metrics[X])
        if one.point in best
    ]
    caption = sentences(
        f"{records.about(rows)}: the settings on the front. No other setting is better in both metrics.",
        "The front has one seed and was found on the test part, so read it as what could be reached.",
        conventions(rows),
        untuned(rows),
    )
    return Table(["method", "lam", *SHOWN], lines, caption)


STUDY = Study(
    name="beyond",
    part="front",
    title="Beyond: overall against tail",
    question="Which methods, at which lam and alpha, give the most tail accuracy for a given overall accuracy?",
    cells=cells,
    measure=measure,
    show=show,
    seeds=False,
)
