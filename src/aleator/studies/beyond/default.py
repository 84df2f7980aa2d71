"""Beyond the paper: default options on every dataset. Each model bare, under AUR, and beside the simplest control.

Everything is chosen on validation, without files of options. A cell is a model on a dataset. `python -m
aleator.studies.beyond.default RESULTS` prints the tables of all datasets together, in markdown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aleator.aur import AUR
from aleator.evaluation.protocols import Scorer, evaluate
from aleator.evaluation.report import Report
from aleator.evaluation.significance import holm, paired_p
from aleator.models.base import Model
from aleator.studies.beyond.control import by_popularity
from aleator.studies.methods import DEFAULT, FLOORS, Method, under_aur
from aleator.studies.records import Against, Figures, Measured, PairedTest, Record
from aleator.studies.report.cells import DOWN, UP, Cell, Shown, number
from aleator.studies.report.tables import (
    Block,
    Table,
    figure_of,
    interval,
    over_seeds,
    rule,
    seeds_of,
    tests_of,
)
from aleator.studies.study import Study
from aleator.studies.workbench import Workbench, accuracy

MODELS = ("MF", "LGCN", "VAE", "EASE", "GraphFilter", "FISM")
OVERALL = [Method(name, {"select": "overall"}) for name in (under_aur("MF"), DEFAULT)]
SHOWN = {
    "Recall@20": ("overall", "recall@20"),
    "NDCG@20": ("overall", "ndcg@20"),
    "tail Recall@50": ("tail_absolute", "recall@50"),
}
HEADS = ["dataset", "method", "lam", "discount", "a"]
HEADS += [f"{shown}, {of}" for shown in SHOWN for of in ("bare", "control", "AUR")] + ["seconds", "seeds"]
GUARDED = ("Recall@20", "NDCG@20")  # what AUR must not lose


def cells(bench: Workbench) -> list[Method]:
    models = ("MF", "FISM") if bench.quick else MODELS
    return [*map(Method, FLOORS), *(Method(under_aur(name)) for name in models), Method(DEFAULT), *OVERALL]


def on_split(bench: Workbench) -> Workbench:
    """The workbench of data with a test part. A simulated world is split here."""
    if bench.world is None:
        return bench
    return bench.on("split", lambda: bench.split.everything.split(valid=0.0, test=0.2, seed=bench.seed))


def measure(bench: Workbench, method: Method) -> Measured:
    own = on_split(bench)
    if not method.uncertain:
        return accuracy(own, method)
    aur = own.fit(method)
    assert isinstance(aur, AUR)
    bench.seconds[method.key] = own.seconds[method.key]
    row = accuracy(own, method, system=aur)
    if method.backbone == DEFAULT or method.base.grafted:
        bare, model = _report(own, aur.model), aur.model.with_defaults(refit=aur.refit)
    else:
        bare, made = own.report(method.bare), own.make(method.bare)
        assert isinstance(made, Model)
        model = made
    control = by_popularity(model, own.split_for(method), aur.select, own.cache)
    row["bare"] = shown_figures(bare)
    row["control"] = {"a": control.a, "metrics": shown_figures(_report(own, control))}
    row["against"] = against(own.report(method), bare, method.bare.name)
    row["setting"], row["model"] = str(aur.setting), type(aur.model).__name__
    return row


def _report(bench: Workbench, system: Scorer) -> Report:
    return evaluate(system, bench.split, recipe=bench.recipe.name)


def shown_figures(report: Report) -> Figures:
    """The metrics that are shown."""
    means = report.to_dict()
    found: Figures = {}
    for protocol, metric in SHOWN.values():
        found.setdefault(protocol, {})[metric] = means[protocol][metric]
    return found


def against(report: Report, bare: Report, name: str) -> Against:
    """The paired tests of the metrics that are shown, without a correction: that is made over all cells."""
    tests: list[PairedTest] = []
    for protocol, metric in SHOWN.values():
        difference = report.per_user[protocol][metric] - bare.per_user[protocol][metric]
        known = difference[np.isfinite(difference)]
        tests.append(
            {
                "protocol": protocol,
                "metric": metric,
                "mean": report.mean(protocol, metric),
                "baseline": bare.mean(protocol, metric),
                "p": paired_p(known),
                "users": len(known),
            }
        )
    return {"method": name, "tests": tests}


@dataclass(frozen=True)
class Found:
    """A method on a dataset: its records, one for each seed, and the signs of its differences from the bare model."""

    dataset: str
    name: str
    rows: Sequence[Record]
    signs: dict[str, list[str]]  # by metric, one for each seed: UP, DOWN or nothing

    def chosen(self, knob: str) -> list[float]:
        """lam or the discount of popularity that validation chose, in each seed."""
        return [row["chosen"][knob] for row in self.rows]

    @property
    def fails(self) -> bool:
        """Whether some seed is significantly below the bare model."""
        return any(DOWN in self.signs[name] for name in GUARDED)

    @property
    def bare_everywhere(self) -> bool:
        """Whether no seed has a blend or a discount: the scores are those of the bare model, up to the prior."""
        return all(lam == 1 for lam in self.chosen("lam")) and not any(self.chosen("discount"))

    def mean(self, shown: str, of: Callable[[Record], Figures]) -> float:
        """The mean over seeds of a metric. NaN where it is not known."""
        return float(np.mean(self.values(shown, of)))

    def values(self, shown: str, of: Callable[[Record], Figures]) -> list[float]:
        """A metric in each seed. NaN where it is not known."""
        protocol, metric = SHOWN[shown]
        found = (of(row)[protocol][metric] for row in self.rows)
        return [np.nan if value is None else value for value in found]


def by_cell(rows: Sequence[Record]) -> list[Found]:
    """The cells of all datasets. Holm's correction is over all cells, for each metric and seed."""
    together: dict[tuple[str, str], list[Record]] = {}
    for row in rows:
        name = " ".join([row["method"], *(str(value) for value in row.get("settings", {}).values())])
        together.setdefault((row["dataset"], name), []).append(row)
    signs = {key: {shown: [""] * len(own) for shown in SHOWN} for key, own in together.items()}
    for shown, (protocol, metric) in SHOWN.items():
        families: dict[int, list[tuple[tuple[str, str], int, PairedTest]]] = {}
        for key, own in together.items():
            for place, row in enumerate(own):
                tests = [t for t in tests_of(row) if (t["protocol"], t["metric"]) == (protocol, metric)]
                families.setdefault(row["seed"], []).extend((key, place, test) for test in tests)
        for family in families.values():
            corrected = holm(np.array([1.0 if test["p"] is None else test["p"] for _, _, test in family]))
            for (key, place, test), p in zip(family, corrected, strict=True):
                if p < 0.05 and test["mean"] is not None and test["baseline"] is not None:
                    signs[key][shown][place] = UP if test["mean"] > test["baseline"] else DOWN
    return [Found(*key, own, signs[key]) for key, own in together.items()]


def bare_of(row: Record) -> Figures:
    return row["bare"]


def control_of(row: Record) -> Figures:
    return row["control"]["metrics"]


def aur_of(row: Record) -> Figures:
    return row["metrics"]


def lifts_the_tail(cell: Found) -> bool:
    """Whether AUR has more tail recall than the bare model, in the mean over seeds."""
    return cell.mean("tail Recall@50", aur_of) > cell.mean("tail Recall@50", bare_of)


def beaten_by_control(cell: Found) -> bool:
    """Whether the control is at least as good as AUR in all three metrics, in the mean over seeds."""
    return all(cell.mean(shown, control_of) >= cell.mean(shown, aur_of) for shown in SHOWN)


def line(cell: Found) -> list[Cell]:
    """One row of a table."""
    a = [row["control"]["a"] for row in cell.rows]
    knobs = (number(float(np.mean(values)), ".2f") for values in (cell.chosen("lam"), cell.chosen("discount"), a))
    made: list[Cell] = [cell.dataset, cell.name, *knobs]
    for shown in SHOWN:
        bare, control, aur = (cell.values(shown, of) for of in (bare_of, control_of, aur_of))
        agreed = set(cell.signs[shown])
        sign = agreed.pop() if len(agreed) == 1 else DOWN if DOWN in agreed else ""
        change = _change(float(np.mean(aur)), float(np.mean(bare)))
        made += [_figure(bare), _figure(control), _figure(aur, change, sign)]
    return [*made, number(float(np.mean([row["seconds"] for row in cell.rows])), ".0f"), number(len(cell.rows))]


def _figure(values: Sequence[float], change: str = "", sign: str = "") -> Cell:
    """The mean over seeds, with half the width of its interval where there are several."""
    if np.isnan(values).any():
        return None
    mean, half = interval(values)
    seeds = "" if np.isnan(half) else f"±{half:.4f}"
    return Shown(f"{mean:.4f}", mean, note=" ".join(filter(None, (seeds, change))), sign=sign)


def floors(rows: Sequence[Record]) -> list[Table]:
    """Random scores and popularity on each dataset, where they are measured."""
    lines: list[list[Cell]] = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        for method, runs in seeds_of([row for row in rows if row["dataset"] == dataset]).items():
            lines.append([dataset, method, *(figure_of(runs, *shown) for shown in SHOWN.values()), number(len(runs))])
    caption = "Random scores, and popularity. A model that is not above them has learned nothing."
    return [Table(["dataset", "method", *SHOWN, "seeds"], lines, caption)] if lines else []


def _change(value: float, reference: float) -> str:
    return f"({value / reference - 1:+.1%})" if reference else ""


def how(rows: Sequence[Record]) -> str:
    """What the figures and signs of `line` mean, for a caption."""
    return (
        "In brackets: the change against the bare model. a is the power of the "
        f"control. {UP} and {DOWN} mark p < 0.05 in a two-sided paired t-test over users, with Holm's correction over "
        f"all cells of {_listed(rows)}, for each metric and seed. {UP} holds in every seed, and {DOWN} in at least one. "
        f"{rule(rows)} {over_seeds(rows)}".strip()
    )


def tables(rows: Sequence[Record]) -> list[Table]:
    """What fails, what gains, what stays at lam = 1, the default AUR, and what needs no model."""
    low = [row for row in rows if row["method"] in FLOORS]
    rows = [row for row in rows if row["method"] not in FLOORS]
    found = by_cell(rows)
    default = [cell for cell in found if cell.rows[0]["method"] == DEFAULT or cell.rows[0].get("settings")]
    models = [cell for cell in found if cell not in default]
    blended = [cell for cell in models if not cell.bare_everywhere]
    higher, beaten = sum(map(lifts_the_tail, blended)), sum(map(beaten_by_control, blended))
    groups = [
        (
            [cell for cell in models if cell.fails],
            f"Cells below the bare model in Recall@20 or NDCG@20 in at least one seed, of {len(models)} cells.",
        ),
        (
            blended,
            f"Cells with lam < 1 or a discount. The tail is above that of the bare model in {higher} of {len(blended)}. "
            f"The control is at least as good in all three metrics in {beaten}.",
        ),
        (
            [cell for cell in models if cell.bare_everywhere],
            "Cells with lam = 1 and no discount in every seed: AUR is the bare model, but for the prior.",
        ),
        (
            default,
            "The default AUR, which compares models, and blends that select=overall chose. The bare model of the default "
            "is the one that it keeps.",
        ),
    ]
    made = []
    for number_, (own, told) in enumerate(groups):
        if own or number_ == 0:  # that nothing fails is told too
            lines = [line(cell) for cell in own]
            nothing = "" if own else " There are none."
            made.append(
                Table(
                    HEADS,
                    lines,
                    f"{told}{nothing}{f' Default options, chosen on validation. {how(rows)}' if number_ == 0 else ''}",
                )
            )
    return [*made, *floors(low)]


def _listed(rows: Sequence[Record]) -> str:
    return ", ".join(dict.fromkeys(row["dataset"] for row in rows))


def show(rows: Sequence[Record]) -> list[Block]:
    return [*tables(rows)]


STUDY = Study(
    name="beyond",
    part="default",
    title="Beyond: default options, against the bare model and a control",
    question="Without any option, does AUR gain on its bare model, and on the bare model's scores divided by a power of "
    "popularity?",
    cells=cells,
    measure=measure,
    show=show,
    plain=True,
    applies=lambda bench: not bench.recipe.on_test,
    order=(*FLOORS, *map(under_aur, MODELS), DEFAULT),
)


def together(results: Path) -> list[Table]:
    """The tables of all datasets that have records, with one correction over all of them."""
    files = sorted((results / STUDY.name).glob("*.jsonl"))
    return tables([row for file in files for row in STUDY.rows(results, file.stem)])


if __name__ == "__main__":
    for table in together(Path(sys.argv[1])):
        print(f"{table.markdown()}\n\n{table.caption}\n")
