"""The demo on ML-100K (or on a simulated world): MF, MF-AUR and the default AUR, with a table, lists and a report.

What it says follows from the figures: a loss is told like a gain.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from aleator.aur import AUR
from aleator.data import catalog
from aleator.data.simulate import simulate
from aleator.data.splits import Split
from aleator.errors import AleatorError
from aleator.evaluation.protocols import evaluate
from aleator.evaluation.report import Report
from aleator.evaluation.significance import Comparison, Row
from aleator.models import Model
from aleator.models.cache import ModelCache
from aleator.ranking.top import best
from aleator.recommender import Recommender
from aleator.studies.report.cells import Cell, Shown

if TYPE_CHECKING:
    from aleator.studies.report.page import Page

Ids = NDArray[np.int64]
Shares = dict[str, list[float]]  # by system
CUTS = (20, 50)
LISTED, FIRST = 20, 8  # items of a list, and how many of them are shown
TESTED = "p < 0.05, paired t-test over users, Holm-corrected over all metrics of a system"
SHOWN = tuple(f"{metric}@{cut}" for metric in ("recall", "ndcg") for cut in CUTS)


MF, MF_AUR, DEFAULT = "MF", "MF-AUR", "default"  # the systems
TOLD = {  # the figures of the story
    "Recall@20": ("overall", "recall@20"),
    "NDCG@20": ("overall", "ndcg@20"),
    "tail Recall@50": ("tail_absolute", "recall@50"),
}


@dataclass(frozen=True)
class Case:
    """A user whose test part holds a tail item that the default lists and MF does not."""

    user: Any
    found: str  # the item's title
    rank: int
    popularity: int
    before: list[str]  # MF's first items; test items are marked
    after: list[str]  # the default's first items


@dataclass(frozen=True)
class Cases:
    """Some of the users with such an item, and how many there are both ways."""

    shown: list[Case]
    found: int  # users with a tail item that the default lists and MF does not
    missed: int  # the other way around

    @property
    def told(self) -> str:
        """What the cases are."""
        return (
            f"{self.found} users took a tail item in the test part that the default has among its first {FIRST} and MF "
            f"not among its first {LISTED}. For {self.missed} users it is the other way around."
        )


@dataclass(frozen=True, eq=False)
class Demo:
    """Everything that the demo prints and draws."""

    split: Split
    bare: Model
    mf_aur: AUR
    aur: AUR  # the default
    reports: dict[str, Report]  # by system
    comparisons: dict[str, Comparison]  # with MF, by system
    cases: Cases
    note: str

    @property
    def systems(self) -> dict[str, Recommender]:
        return {MF: self.bare, MF_AUR: self.mf_aur, DEFAULT: self.aur}

    def table(self) -> str:
        """The three protocols side by side."""
        report = self.reports[MF]
        groups = "".join(f"| {protocol.replace('_', ' '):^27}" for protocol in report.per_user)
        heads = f"| {MF:>7} {MF_AUR:>8}  {DEFAULT:>8} " * len(report.per_user)
        lines = [f"{'':<10}{groups}".rstrip(), f"{'':<10}{heads}".rstrip()]
        for metric in SHOWN:
            line = f"{metric:<10}"
            for protocol in report.per_user:
                rows = [comparison[protocol, metric] for comparison in self.comparisons.values()]
                line += f"| {rows[0].baseline:>7.4f}" + "".join(f"  {row.mean:>7.4f}{_sign(row)}" for row in rows)
            lines.append(line.rstrip())
        kept = f"default: AUR on {type(self.aur.model).__name__}, which was compared with others on validation"
        return "\n".join([*lines, f"+ and -: above and below MF, {TESTED}", kept, report.conventions])

    def story(self) -> list[str]:
        """What AUR changes, in sentences that follow from the figures."""
        aurs = {MF_AUR: self.mf_aur, DEFAULT: self.aur}
        lines = [_change(name, aur, self.comparisons[name]) for name, aur in aurs.items()]
        shares = {name: report.lists["tail_share@20"] for name, report in self.reports.items()}
        of = _listed([f"{share:.1%} ({name})" for name, share in shares.items()])
        test = float(self.aur.tail_mask.cpu().numpy()[self.split.test.item].mean())
        return [*lines, f"Of the lists of 20, {of} are tail items. Of the test part, {test:.1%} are."]


def _sign(row: Row) -> str:
    """Whether a system is significantly above or below MF."""
    if not row.significant:
        return " "
    return "+" if row.mean > row.baseline else "-"


def _change(name: str, aur: AUR, comparison: Comparison) -> str:
    """What one system gains and loses against MF."""
    rows = {told: comparison[key] for told, key in TOLD.items()}
    words = {told: f"{told} ({row.change:+.1%})" for told, row in rows.items()}
    parts = [
        f"{verb} {_listed([words[told] for told, row in rows.items() if _sign(row) == sign])}"
        for verb, sign in (("gains in", "+"), ("loses in", "-"), ("does not differ significantly in", " "))
        if any(_sign(row) == sign for row in rows.values())
    ]
    lam = f"lam {aur.lam_used:g}"
    if aur.lam_used == 1 and aur.lam == "auto":
        lam += f": {type(aur.model).__name__} alone, since no blend gained enough on validation"
    return f"{name} ({lam}) against MF: it {_listed(parts)}."


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def open_world(root: Path | None) -> tuple[Split, str]:
    """ML-100K from a folder, the cache or the network; a simulated world where it cannot be had."""
    try:
        return catalog.load_dataset("ml-100k", root), "MovieLens-100K, the official ua split"
    except AleatorError as error:
        world = simulate(n_users=1000, n_items=1200, per_user=300, skew=1.0, seed=0)
        titles = {i: f"item {i}" for i in range(world.interactions.n_items)}
        split = world.interactions.with_titles(titles).split(valid=0.0, test=0.2, seed=0)
        return split, f"a simulated world, since ML-100K cannot be had here ({error.problem})"


def run(split: Split, bare: Model, mf_aur: AUR, aur: AUR, note: str) -> Demo:
    """Fit the three systems, evaluate them, and find cases to show. `aur` is the default."""
    cache = ModelCache(everything=True)
    systems = {MF: bare, MF_AUR: mf_aur, DEFAULT: aur}
    reports = {name: evaluate(system.fit(split, cache=cache), split, k=CUTS) for name, system in systems.items()}
    comparisons = {name: reports[name].compare(reports[MF]) for name in (MF_AUR, DEFAULT)}
    return Demo(split, bare, mf_aur, aur, reports, comparisons, find_cases(split, bare, aur), note)


def lists(model: Recommender, users: Ids, k: int) -> Ids:
    """[n, k] dense item ids: the best unseen items of each user."""
    batch = model.histories.batch(torch.from_numpy(users))
    with torch.no_grad():
        found = best(model.score_block, batch, k, model.fitted.n_items, seen=batch)[0][1]
    ids: Ids = found.cpu().numpy()
    return ids


def find_cases(split: Split, bare: Model, aur: AUR, most: int = 3) -> Cases:
    """Users with a tail test item in AUR's first items but not in the bare model's list, those with the rarest first."""
    test, popularity = split.test.csr, aur.fitted.popularity
    tail = aur.tail_mask.cpu().numpy()
    users = np.flatnonzero(np.diff(test.indptr)).astype(np.int64)
    before, after = lists(bare, users, LISTED), lists(aur, users, LISTED)
    taken = [set(test.indices[test.indptr[user] : test.indptr[user + 1]].tolist()) for user in users]

    def finds(mine: Ids, theirs: Ids) -> list[tuple[int, int, int]]:
        """Popularity, place among the users, and item: the rarest find of each user who has one."""
        found = []
        for place in range(len(users)):
            new = taken[place] & set(mine[place, :FIRST].tolist()) - set(theirs[place].tolist())
            found += sorted((int(popularity[item]), place, item) for item in new if tail[item])[:1]
        return found

    def listed(place: int, of: Ids) -> list[str]:
        return [line(aur, i, tail=bool(tail[i]), taken=i in taken[place]) for i in of[place, :FIRST].tolist()]

    found = finds(after, before)
    shown = [
        Case(
            user=aur.fitted.users.decode([int(users[place])])[0],
            found=title(aur, item),
            rank=int(np.flatnonzero(after[place] == item)[0]) + 1,
            popularity=count,
            before=listed(place, before),
            after=listed(place, after),
        )
        for count, place, item in sorted(found)[:most]
    ]
    return Cases(shown, len(found), len(finds(before, after)))


def line(aur: AUR, item: int, *, tail: bool, taken: bool) -> str:
    """An item of a list, with marks for the tail and for items of the test part."""
    return f"{title(aur, item)}{' (tail)' if tail else ''}{' [taken in the test part]' if taken else ''}"


def title(model: Recommender, item: int) -> str:
    """What a person calls an item."""
    data = model.fitted
    return str(data.titles[item] if data.titles is not None else data.items.decode([item])[0])


def recall_by_popularity(demo: Demo, k: int = 50, groups: int = 6) -> tuple[list[str], Shares, Shares]:
    """The share of test pairs found in the first k, by the popularity of their item: labels, shares, standard errors."""
    test, popularity = demo.split.test, demo.aur.fitted.popularity
    users = np.unique(test.user).astype(np.int64)
    row = np.searchsorted(users, test.user)
    edges = np.unique(np.quantile(popularity[test.item], np.linspace(0, 1, groups + 1)).astype(int))
    group = np.clip(np.searchsorted(edges, popularity[test.item], side="left") - 1, 0, len(edges) - 2)
    labels = [f"{low + (1 if n else 0)}-{high}" for n, (low, high) in enumerate(itertools.pairwise(edges))]
    size = np.bincount(group, minlength=len(labels))
    shares, errors = {}, {}
    for name, model in demo.systems.items():
        found = (lists(model, users, k)[row] == test.item[:, None]).any(1)
        share = np.bincount(group, found, minlength=len(labels)) / np.maximum(size, 1)
        shares[name], errors[name] = share.tolist(), np.sqrt(share * (1 - share) / np.maximum(size, 1)).tolist()
    return labels, shares, errors


def write_report(demo: Demo, path: Path) -> None:
    """One HTML file with the tables and the figures."""
    from aleator.studies.report.page import Page

    page = Page("Aleator: MF, MF-AUR and the default AUR", demo.note)
    for add in (_add_accuracy, _add_tail, _add_knob, _add_learned, _add_examples):
        add(page, demo)
    page.write(path)


def _add_accuracy(page: Page, demo: Demo) -> None:
    page.section(
        "Accuracy",
        "Recall and NDCG on the test part. Overall ranks all items and counts all test items. Tail absolute counts only "
        f"the test items in the tail. Tail relative ranks tail items only. {' '.join(demo.story())}",
    )
    rows: list[list[Cell]] = []
    for pair in zip(*(comparison.rows for comparison in demo.comparisons.values()), strict=True):
        line: list[Cell] = [pair[0].protocol.replace("_", " "), pair[0].metric, pair[0].baseline]
        for row in pair:
            line += [row.mean, Shown(f"{row.change:+.1%}", row.change), Shown(f"{row.p:.2g}", row.p)]
        rows.append(line)
    report = demo.reports[MF]
    page.table(
        ["protocol", "metric", MF, *(head for name in demo.comparisons for head in (name, "change", "p (Holm)"))],
        rows,
        caption=f"Means over {report.about['users']} users; {report.conventions}. Changes are against MF ({TESTED}).",
    )


def _add_tail(page: Page, demo: Demo) -> None:
    from aleator.studies.report import figures

    page.section("The long tail", "What is found by the popularity of items, and how many tail items the lists have.")
    labels, shares, errors = recall_by_popularity(demo)
    page.figure(
        figures.recall_by_popularity(labels, shares, errors),
        "The share of test pairs found in the first 50, by popularity of the item. Each group has about as many test "
        "pairs. The bars are one standard error. See in which groups AUR finds more than MF, and in which less.",
        "Bars of recall by popularity group for each system",
    )
    in_tail = demo.aur.tail_mask.cpu().numpy()
    page.figure(
        figures.tail_share(
            {name: {cut: report.lists[f"tail_share@{cut}"] for cut in CUTS} for name, report in demo.reports.items()},
            float(in_tail[demo.split.test.item].mean()),
        ),
        "The share of tail items in the lists. The dashed line is their share in the test items of the users.",
        "Tail share of the lists of each system at each cut-off",
    )


def _add_knob(page: Page, demo: Demo) -> None:
    from aleator.studies.report import figures

    aur = demo.aur
    assert aur.choice is not None
    compared = [f"Compared on validation: {'; '.join(map(str, aur.race))}."] if aur.race else []
    page.section("The knob", " ".join([f"The default, on validation: {aur.choice.why}.", *compared]))
    page.figure(
        figures.lam_curve(aur.choice.curve, aur.lam_used),
        "Each point is one lam, from 1 (expectation alone) to 0 (uncertainty alone).",
        "Overall accuracy against tail recall on validation over lam",
    )


def _add_learned(page: Page, demo: Demo) -> None:
    from aleator.studies.report import figures

    aur, popularity = demo.aur, demo.aur.fitted.popularity
    page.section(
        "What was learned", "A high uncertainty means that a missing label may be wrong, so it raises an item."
    )
    r, sigma = mean_parts(aur)
    page.figure(
        figures.popularity(popularity, r, sigma, int(aur.tail_rule.cut(popularity))),
        "The mean expectation and the mean uncertainty of each item over users, by its popularity. The black lines are "
        "medians. The shaded part is the tail.",
        "Expectation and uncertainty by item popularity",
    )
    if aur.estimator.log is not None:
        page.figure(
            figures.training(aur.estimator.log.rows, aur.estimator.log.best_epoch),
            "The estimator's loss on the training pairs, and the accuracy of its best blend on validation. 1 is the bare "
            "model's.",
            "Training curves of the uncertainty estimator",
        )


def _add_examples(page: Page, demo: Demo) -> None:
    page.section("Examples", demo.cases.told)
    for case in demo.cases.shown:
        pairs = itertools.zip_longest(case.before, case.after, fillvalue="")
        page.table(
            ["rank", MF, DEFAULT],
            [[number, before, after] for number, (before, after) in enumerate(pairs, 1)],
            caption=f"User {case.user}: {case.found} (popularity {case.popularity}) is new in the list, at rank "
            f"{case.rank}.",
        )


def mean_parts(aur: AUR, most_users: int = 1000) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[n_items] mean expectation and mean uncertainty over a sample of users."""
    step = max(aur.fitted.n_users // most_users, 1)
    users = aur.histories.batch(torch.arange(0, aur.fitted.n_users, step))
    with torch.no_grad():
        r, sigma = aur.parts(users)
    return r.double().mean(0).cpu().numpy(), sigma.double().mean(0).cpu().numpy()
