"""The claims of the paper and ours: each with its verdict, its figure, its control and its records.

Figures come from results/. A verdict is written by hand, and `supported` is what it rests on: the test of the documents
fails where the records no longer support it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from aleator.studies import records
from aleator.studies.beyond import default, needs_model
from aleator.studies.beyond.strong import RIVALS
from aleator.studies.methods import BACKBONES, DEFAULT, key_of, under_aur
from aleator.studies.paper.variants import best_rates
from aleator.studies.records import Record
from aleator.studies.report.tables import interval
from aleator.studies.worlds import WORLDS

RESULTS = Path(__file__).parents[1] / "results"
NAMES = {
    "yelp2018": "Yelp2018",
    "amazon-book-kgat": "Amazon-Book (KGAT)",
    "ml-100k": "ML-100K",
    "ml-10m": "ML-10M",
    "adressa": "Adressa",
    "coat": "Coat",
}
MODELS = ("MF", "LGCN", "VAE")
TAIL = "tail Recall@50"
FOLLOWS, EVEN = ("yelp2018", "amazon-book-kgat", "ml-100k"), ("ml-10m", "adressa")  # how the test part is drawn
RESIDUALS = ("observed, in sample", "all pairs (the paper's)")  # rows of the table of evidence
# rows of the study needs_model, by what the table of evidence calls them
EVIDENCE: dict[str, tuple[bool, Mapping[str, Any]]] = {
    "bare": (False, needs_model.WITHOUT_ESTIMATOR["bare"]),
    "scores / popularity^a": (False, needs_model.WITHOUT_ESTIMATOR["(f) divided by popularity^a"]),
    "GraphFilter for s": (False, needs_model.WITHOUT_ESTIMATOR["(e) GraphFilter in place of s"]),
    "no model": (True, needs_model.WITH_ESTIMATOR["(a) AUR, a constant on all pairs: no model"]),
    "observed, in sample": (True, needs_model.WITH_ESTIMATOR["(b) AUR, a constant on unobserved pairs"]),
    "observed, pair left out": (True, needs_model.WITH_ESTIMATOR["(c) as b, residuals leave the pair out"]),
    "all pairs (the paper's)": (True, needs_model.WITH_ESTIMATOR["AUR, r of the model on all pairs (the paper's)"]),
    "default": (True, needs_model.WITH_ESTIMATOR["AUR, all decided on validation"]),
}


@dataclass(frozen=True)
class Claim:
    """A claim, and what the records say of it."""

    text: str
    verdict: str
    page: str  # where the evidence is
    files: Sequence[str] = ()  # of results/
    figure: Callable[[], str] = str
    control: Callable[[], str] = str
    supported: Callable[[], bool] = lambda: True


# Reading the records


@cache
def rows(study: str, dataset: str, part: str = "", recipe: str = "ours") -> list[Record]:
    """The latest records of a study on a dataset."""
    found = records.latest(records.read(RESULTS / study / f"{dataset}.jsonl"))
    return [row for row in found if row.get("part", "") == part and row["recipe"] == recipe]


def mean(
    found: Sequence[Record], protocol: str, metric: str, method: str, settings: Mapping[str, Any] | None = None
) -> float:
    """The mean over seeds of a metric of a method."""
    key = key_of(method, settings or {})
    own = [row for row in found if key_of(row["method"], row.get("settings", {})) == key]
    assert own, f"no record of {key}"
    return float(np.mean([row["metrics"][protocol][metric] for row in own]))


@cache
def default_cells(dataset: str) -> dict[str, default.Found]:
    """The cells of the study of defaults on a dataset, by name."""
    kept = [row for row in default.STUDY.rows(RESULTS, dataset) if "control" in row]
    return {cell.name: cell for cell in default.by_cell(kept)}


def evidence(dataset: str, model: str, name: str, shown: str = "Recall@20") -> float:
    """A figure of the study needs_model."""
    uncertain, settings = EVIDENCE[name]
    method = under_aur(model) if uncertain else model
    return mean(rows("beyond", dataset, "needs_model"), *default.SHOWN[shown], method, settings)


def short(value: float) -> str:
    """A figure below 1 as tables of the field print it.

    >>> short(0.07391)
    '.0739'
    """
    return f"{value:.4f}".removeprefix("0")


def of_mf(datasets: Sequence[str], *names: str) -> str:
    """Recall@20 of rows of the study needs_model, with MF."""
    parts = []
    for dataset in datasets:
        figures = ", ".join(f"{short(evidence(dataset, 'MF', name))} {name}" for name in names)
        parts.append(f"{NAMES[dataset]} {figures}")
    return "; ".join(parts)


# The table of evidence


def evidence_table() -> str:
    """What the uncertainty is worth when one part of AUR is taken away or replaced."""
    lines = [f"| test part | dataset | model | {' | '.join(EVIDENCE)} |", f"|{'---|' * (len(EVIDENCE) + 3)}"]
    for drawn, datasets in (("follows popularity", FOLLOWS), ("even over items", EVEN)):
        for dataset in datasets:
            for model in needs_model.MODELS:
                cells = [
                    f"{short(evidence(dataset, model, name))} / {short(evidence(dataset, model, name, TAIL))}"
                    for name in EVIDENCE
                ]
                lines.append(f"| {drawn} | {NAMES[dataset]} | {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


# The claims


def raises_the_tail(dataset: str) -> Claim:
    """The paper's main claim on a dataset."""

    def told(of: Callable[[Record], Any], name: str) -> str:
        cell = default_cells(dataset)[under_aur(name)]
        return f"{name} {short(cell.mean('Recall@20', of))}, tail {short(cell.mean(TAIL, of))}"

    def figure() -> str:
        parts = []
        for name in MODELS:
            cell = default_cells(dataset)[under_aur(name)]
            (bare, aur), (low, high) = (
                [short(cell.mean(shown, of)) for of in (default.bare_of, default.aur_of)]
                for shown in ("Recall@20", TAIL)
            )
            parts.append(f"{name} {bare} → {aur}, tail {low} → {high}")
        return "; ".join(parts)

    def supported() -> bool:
        cells = [default_cells(dataset)[under_aur(name)] for name in MODELS]
        return all(
            cell.mean(shown, default.aur_of) > max(cell.mean(shown, of) for of in (default.bare_of, default.control_of))
            for cell in cells
            for shown in default.SHOWN
        )

    return Claim(
        f"AUR raises the tail of MF, LightGCN and MultVAE, and loses no overall accuracy: {NAMES[dataset]}",
        "holds, with our residuals, start, blend and discount",
        "main.md",
        (f"beyond/{dataset}.jsonl", f"main/{dataset}.jsonl"),
        figure,
        lambda: "/ popularity^a: " + "; ".join(told(default.control_of, name) for name in MODELS),
        supported,
    )


def defaults() -> Claim:
    """How the defaults fare over all cells."""
    datasets = [path.stem for path in sorted((RESULTS / "beyond").glob("*.jsonl"))]

    def of_models() -> list[default.Found]:
        found = [cell for dataset in datasets for cell in default_cells(dataset).values()]
        return [cell for cell in found if cell.name in map(under_aur, BACKBONES)]

    def cells() -> list[default.Found]:
        """Those where AUR has a blend or a discount."""
        return [cell for cell in of_models() if not cell.bare_everywhere]

    def count(better: Callable[[default.Found], bool]) -> int:
        return sum(map(better, cells()))

    def below(shown: str) -> str:
        """In how many runs of how many AUR is below its bare model."""
        sides = [
            pair
            for cell in of_models()
            for pair in zip(cell.values(shown, default.aur_of), cell.values(shown, default.bare_of), strict=True)
        ]
        return f"{shown} in {sum(aur < bare for aur, bare in sides)} of {len(sides)}"

    return Claim(
        "Default AUR is above the bare model, and above its scores divided by a power of popularity",
        "partly: nowhere significantly below in Recall@20 or NDCG@20, the tail mostly above",
        "beyond-default.md",
        ("beyond/*.jsonl",),
        lambda: (
            f"tail above the bare model in {count(default.lifts_the_tail)} of {len(cells())} cells "
            f"with a blend or discount; of all runs, {', '.join(map(below, default.SHOWN))} below it"
        ),
        lambda: f"/ popularity^a is as good or better in all three metrics in {count(default.beaten_by_control)}",
        lambda: (
            count(default.lifts_the_tail) > 0.85 * len(cells())
            and count(default.beaten_by_control) <= 2
            and not any(cell.fails for dataset in datasets for cell in default_cells(dataset).values())
        ),
    )


def no_model(datasets: Sequence[str], verdict: str, supported: Callable[[], bool]) -> Claim:
    """Whether the residuals of a model are what makes the uncertainty useful."""
    drawn = "follows popularity" if datasets is FOLLOWS else "is even over items"

    return Claim(
        f"The residuals of the model make the uncertainty useful, where the test part {drawn} (MF-AUR)",
        verdict,
        "beyond-needs_model.md",
        tuple(f"beyond/{dataset}.jsonl" for dataset in datasets),
        lambda: of_mf(datasets, "observed, in sample", "all pairs (the paper's)"),
        lambda: of_mf(datasets, "no model", "scores / popularity^a"),
        supported,
    )


def told(study: str, *methods: str, part: str = "", seeds: int | None = None) -> str:
    """Recall@50 of methods on Yelp2018, overall and on the tail. Of joint training, that of the best learning rate.

    `seeds` limits the records to the first seeds, so that they can stand beside others that have no more.
    """
    found = [row for row in rows(study, "yelp2018", part) if seeds is None or row["seed"] < seeds]
    found = best_rates(found) if study == "variants" else found
    return "; ".join(
        f"{method} {short(mean(found, 'overall', 'recall@50', method))}, "
        f"tail {short(mean(found, 'tail_absolute', 'recall@50', method))}"
        for method in methods
    )


def one(study: str, metric: str, protocol: str, *methods: str, form: str = ".2f") -> str:
    """A metric of methods on Yelp2018."""
    found = rows(study, "yelp2018")
    return ", ".join(f"{method} {mean(found, protocol, metric, method):{form}}" for method in methods)


def aurocs(dataset: str, score: str) -> list[float]:
    """The AUROC in each seed of a score of MF-AUR for mislabelled pairs, its estimator trained for the blend."""
    found = [row for row in rows("beyond", dataset, "mislabelled") if not row.get("settings")]
    return [row["metrics"]["auroc"][score] or 0.0 for row in found if row["method"] == "MF-AUR"]


def auroc(dataset: str, score: str) -> float:
    """The mean over seeds."""
    return float(np.mean(aurocs(dataset, score)))


def beyond_the_interval(dataset: str) -> bool:
    """Whether the uncertainty has a higher AUROC than the expectation, beyond the interval over seeds."""
    pairs = zip(aurocs(dataset, "uncertainty"), aurocs(dataset, "expectation"), strict=True)
    difference, half = interval([own - other for own, other in pairs])
    return difference > half


def bare_and_aur() -> list[str]:
    return [name for bare in MODELS for name in (bare, under_aur(bare))]


def variant(name: str) -> list[str]:
    return [under_aur(bare, name) for bare in MODELS]


TRUTH = ("coat", *WORLDS)  # datasets where mislabelled pairs are known

CLAIMS: Sequence[Claim] = (
    *map(raises_the_tail, ("yelp2018", "adressa", "ml-10m", "amazon-book-kgat")),
    defaults(),
    no_model(
        FOLLOWS,
        "fails for accuracy: an estimator without any model ranks as well; "
        "the residuals of observed pairs raise the tail further on Yelp2018 and Amazon-Book",
        lambda: (
            all(evidence(d, "MF", "no model") > evidence(d, "MF", name) for d in FOLLOWS for name in RESIDUALS)
            and all(
                evidence(d, "MF", RESIDUALS[0], TAIL) > evidence(d, "MF", "no model", TAIL)
                for d in ("yelp2018", "amazon-book-kgat")
            )
        ),
    ),
    no_model(
        EVEN,
        "holds: a constant and GraphFilter gain nothing, and Recall@20 is above the control",
        lambda: (
            all(
                evidence(d, "MF", name) == evidence(d, "MF", "bare")
                for d in EVEN
                for name in ("no model", "GraphFilter for s")
            )
            and all(
                evidence(d, "MF", name) > evidence(d, "MF", "scores / popularity^a") for d in EVEN for name in RESIDUALS
            )
        ),
    ),
    Claim(
        "A residual marks a mislabelled pair, so it helps however it was predicted, where the test part is even over "
        "items (MF-AUR)",
        "fails: only the residuals of pairs that the model was fitted to help",
        "beyond-needs_model.md",
        tuple(f"beyond/{dataset}.jsonl" for dataset in EVEN),
        lambda: of_mf(EVEN, "observed, pair left out"),
        lambda: of_mf(EVEN, "bare", "observed, in sample"),
        lambda: all(evidence(d, "MF", "observed, pair left out") == evidence(d, "MF", "bare") for d in EVEN),
    ),
    Claim(
        "The uncertainty finds mislabelled pairs better than the expectation does (MF-AUR)",
        "not shown: nowhere beyond the interval over seeds; on Coat neither has a clearly higher AUROC than popularity",
        "beyond-mislabelled.md",
        tuple(f"beyond/{dataset}.jsonl" for dataset in TRUTH),
        lambda: "AUROC " + "; ".join(f"{d} {auroc(d, 'uncertainty'):.3f}" for d in TRUTH),
        lambda: "; ".join(
            f"{d} {auroc(d, 'expectation'):.3f} expectation, {auroc(d, 'popularity'):.3f} popularity" for d in TRUTH
        ),
        lambda: not any(beyond_the_interval(d) for d in TRUTH),
    ),
    Claim(
        "MF-AUR beats the methods against popularity bias",
        "to be measured again",
        "debias.md",
    ),
    Claim(
        "More parameters or a pairwise loss do not explain the gain",
        "to be measured again on Yelp2018",
        "fairness.md",
    ),
    Claim(
        "A larger alpha raises the tail",
        "to be measured, with nothing but alpha that moves the tail",
        "alpha.md",
    ),
    Claim(
        "An MLP works as the estimator (AUR-M): Yelp2018",
        "fails: validation takes lam = 1 with all three models; what LightGCN gains is the discount's",
        "variants.md",
        ("variants/yelp2018.jsonl", "main/yelp2018.jsonl"),
        lambda: "Recall@50 " + told("variants", *variant("-M")),
        lambda: "the same seed: " + told("main", *MODELS, seeds=1),
        lambda: all(
            row["chosen"]["lam"] == 1 for row in rows("variants", "yelp2018") if row["method"] in variant("-M")
        ),
    ),
    Claim(
        "Joint training (AUR-J) gains overall accuracy over AUR: Yelp2018",
        "not shown: validation keeps at most one epoch of joint training; what differs from AUR are the residuals, and "
        "for LightGCN the fit of the model",
        "variants.md",
        ("variants/yelp2018.jsonl",),
        lambda: "Recall@50 " + told("variants", *variant("-J")),
        lambda: told("variants", *variant("")),
        lambda: all(row["chosen"].get("joint_epochs", 0) <= 1 for row in rows("variants", "yelp2018")),
    ),
    Claim(
        "Joint training is unstable",
        "not seen: none of 10 runs diverged, with our safeguards and an older blend",
        "variants.md#does-joint-training-stay-in-bounds",
        ("joint/*.jsonl",),
    ),
    Claim(
        "The estimator's architecture alone (UE) is weaker than AUR: Yelp2018",
        "holds for the paper's UE; FISM, which leaves an observed item out of its own history, is about level with "
        "MF-AUR overall and below it on the tail",
        "variants.md",
        ("variants/yelp2018.jsonl", "beyond/yelp2018.jsonl"),
        lambda: "Recall@50 " + told("variants", "UE"),
        lambda: f"{told('variants', 'MF-AUR')}; {told('beyond', 'FISM', part='strong')}",
        lambda: all(
            mean(rows("variants", "yelp2018"), protocol, "recall@50", "UE")
            < mean(rows("variants", "yelp2018"), protocol, "recall@50", "MF-AUR")
            for protocol in ("overall", "tail_absolute")
        ),
    ),
    Claim(
        "AUR brings the tail share of the lists closer to that of the histories: Yelp2018",
        "holds, for head-focus users too; random lists have a higher share than the histories",
        "calibration.md",
        ("calibration/yelp2018.jsonl",),
        lambda: "tail-focus users " + one("calibration", "tail_share@20", "tail_focus", *bare_and_aur()),
        lambda: (
            f"histories {mean(rows('calibration', 'yelp2018'), 'tail_focus', 'history', 'MF'):.2f}; "
            + one("calibration", "tail_share@20", "tail_focus", "Random", "Popularity")
        ),
    ),
    Claim(
        "AUR shortens the lists that cover all test items: Yelp2018",
        "holds for MF; about level for LightGCN and MultVAE",
        "worst_case.md",
        ("worst_case/yelp2018.jsonl",),
        lambda: "mean length " + one("worst_case", "list_length", "overall", *bare_and_aur(), form=",.0f"),
        lambda: one("worst_case", "list_length", "overall", "Random", "Popularity", form=",.0f"),
    ),
    Claim(
        "Expectation and uncertainty are correlated: Yelp2018",
        "holds; no control was measured",
        "correlation.md",
        ("correlation/yelp2018.jsonl",),
        lambda: "mean over users " + one("correlation", "pearson", "overall", *variant("")),
    ),
    Claim(
        "The uncertainty finds tail items that the expectation buries: Yelp2018, MF-AUR",
        "partly: somewhat more often than not",
        "case.md",
        ("case/yelp2018.jsonl",),
        lambda: (
            "share of tail test pairs ranked higher "
            + one("case", "better_by_uncertainty", "tail", "MF-AUR", form=".3f")
        ),
        lambda: "head test pairs " + one("case", "better_by_uncertainty", "head", "MF-AUR", form=".3f"),
    ),
    Claim(
        "AUR gains more where popularity drifts",
        "to be measured again, with ties in time broken by a draw",
        "beyond-drift.md",
    ),
    Claim(
        "A low loss forces uncertainty and expectation together (Theorem 1)",
        "fails: the bound holds with another constant, and forces nothing",
        "theorem.md",
        ("theorem/yelp2018.jsonl", "theorem/ml-100k.jsonl"),
        lambda: (
            f"Yelp2018: a KL of {theorem('kl'):.1f}, smallest gap of a user to the bound {theorem('smallest_gap'):.0f}"
        ),
        lambda: f"equal log-variances: a KL of {theorem('kl', 'equal'):.1f}",
    ),
    Claim(
        "One default beats what is published on Yelp2018 (Recall@20, NDCG@20)",
        "partly: of the figures that we know, which were mostly chosen on the test part, one NDCG@20 is higher",
        "beyond-default.md",
        ("beyond/yelp2018.jsonl",),
        lambda: (
            "default AUR "
            + ", ".join(
                short(default_cells("yelp2018")[DEFAULT].mean(s, default.aur_of)) for s in ("Recall@20", "NDCG@20")
            )
        ),
        lambda: "; ".join(f"{name} {short(r)}, {short(n)}" for name, (r, n) in best_published().items()),
        lambda: (
            default_cells("yelp2018")[DEFAULT].mean("Recall@20", default.aur_of) > max(r for r, _ in RIVALS.values())
            and sum(n >= default_cells("yelp2018")[DEFAULT].mean("NDCG@20", default.aur_of) for _, n in RIVALS.values())
            == 1
        ),
    ),
)


def theorem(name: str, of: str = "trained") -> float:
    """A figure of the trained log-variances on Yelp2018, or of others."""
    (row,) = rows("theorem", "yelp2018")
    return mean([row], of, name, row["method"], row["settings"])


def best_published() -> dict[str, tuple[float, float]]:
    """The published figures with the highest Recall@20 and with the highest NDCG@20."""
    return dict(max(RIVALS.items(), key=lambda rival: rival[1][place]) for place in (0, 1))


def claims_table() -> str:
    """Every claim: whether it holds, its figure, its control, and the records."""
    lines = ["| claim | holds? | figure | control | evidence |", "|---|---|---|---|---|"]
    for claim in CLAIMS:
        kept = ", ".join(f"`{file}`" for file in claim.files)
        where = f"[{claim.page.partition('.')[0].removeprefix('beyond-')}]({claim.page})" + (f" {kept}" if kept else "")
        lines.append(f"| {claim.text} | {claim.verdict} | {claim.figure()} | {claim.control()} | {where} |")
    return "\n".join(lines)
