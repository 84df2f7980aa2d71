"""The demo: MF against MF-AUR on ML-100K (or on a simulated world), with a table, a few lists and a report."""

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
from aleator.evaluation.significance import Comparison
from aleator.models import Model
from aleator.ranking.top import best
from aleator.recommender import Recommender
from aleator.studies.report.cells import Shown

if TYPE_CHECKING:
    from aleator.studies.report.page import Page

Ids = NDArray[np.int64]
Shares = dict[str, list[float]]  # by system
CUTS = (20, 50)
SHOWN = tuple(f"{metric}@{cut}" for metric in ("recall", "ndcg") for cut in CUTS)


@dataclass(frozen=True)
class Case:
    """A user whose test part holds a tail item that AUR lists and the bare model does not."""

    user: Any
    found: str  # the item's title
    rank: int
    popularity: int
    before: list[str]  # the bare model's first items; test items are marked
    after: list[str]  # AUR's first items


@dataclass(frozen=True, eq=False)
class Demo:
    """Everything that the demo prints and draws."""

    split: Split
    bare: Model
    aur: AUR
    reports: dict[str, Report]  # by system
    comparison: Comparison
    cases: list[Case]
    note: str

    def table(self) -> str:
        """The three protocols side by side, with the change in per cent."""
        report = self.reports["MF"]
        groups = "".join(f"| {protocol.replace('_', ' '):^26} " for protocol in report.per_user)
        heads = f"| {'MF':>7} {'MF-AUR':>8} {'change':>9} " * len(report.per_user)
        lines = [f"{'':<10}{groups}", f"{'':<10}{heads}"]
        for metric in SHOWN:
            rows = [self.comparison[protocol, metric] for protocol in report.per_user]
            cells = (
                f"| {r.baseline:>7.4f} {r.mean:>8.4f} {r.change:>+8.1%}{'*' if r.significant else ' '} " for r in rows
            )
            lines.append(f"{metric:<10}{''.join(cells)}")
        return "\n".join([*lines, "* p < 0.05, paired t-test over users, Holm-corrected", report.conventions])


def open_world(root: Path | None) -> tuple[Split, str]:
    """ML-100K from a folder, the cache or the network; a simulated world where it cannot be had."""
    try:
        return catalog.load_dataset("ml-100k", root), "MovieLens-100K, the official ua split"
    except AleatorError as error:
        world = simulate(n_users=1000, n_items=1200, per_user=300, skew=1.0, seed=0)
        titles = {i: f"item {i}" for i in range(world.interactions.n_items)}
        split = world.interactions.with_titles(titles).split(valid=0.0, test=0.2, seed=0)
        return split, f"a simulated world, since ML-100K cannot be had here ({error.problem})"


def run(split: Split, bare: Model, aur: AUR, note: str) -> Demo:
    """Fit both, evaluate both, and find cases to show."""
    bare.fit(split)
    aur.fit(split)
    reports = {"MF": evaluate(bare, split, k=CUTS), "MF-AUR": evaluate(aur, split, k=CUTS)}
    comparison = reports["MF-AUR"].compare(reports["MF"])
    return Demo(split, bare, aur, reports, comparison, find_cases(split, bare, aur), note)


def lists(model: Recommender, users: Ids, k: int) -> Ids:
    """[n, k] dense item ids: the best unseen items of each user."""
    batch = model.histories.batch(torch.from_numpy(users))
    with torch.no_grad():
        found = best(model.score_block, batch, k, model.fitted.n_items, seen=batch)[0][1]
    ids: Ids = found.cpu().numpy()
    return ids


def find_cases(split: Split, bare: Model, aur: AUR, k: int = 20, most: int = 3, shown: int = 8) -> list[Case]:
    """Users with a tail test item in AUR's first `shown` but not in the bare model's first k, rarest items first."""
    test, popularity = split.test.csr, aur.fitted.popularity
    tail = aur.tail_mask.cpu().numpy()
    users = np.flatnonzero(np.diff(test.indptr)).astype(np.int64)
    before, after = lists(bare, users, k), lists(aur, users, k)
    taken = [set(test.indices[test.indptr[user] : test.indptr[user + 1]].tolist()) for user in users]
    finds: list[tuple[int, int, int]] = []  # popularity, place among the users, item
    for place in range(len(users)):
        new = taken[place] & set(after[place, :shown].tolist()) - set(before[place].tolist())
        finds += sorted((int(popularity[item]), place, item) for item in new if tail[item])[:1]

    def listed(place: int, of: Ids) -> list[str]:
        return [line(aur, i, tail=bool(tail[i]), taken=i in taken[place]) for i in of[place, :shown].tolist()]

    return [
        Case(
            user=aur.fitted.users.decode([int(users[place])])[0],
            found=title(aur, item),
            rank=int(np.flatnonzero(after[place] == item)[0]) + 1,
            popularity=count,
            before=listed(place, before),
            after=listed(place, after),
        )
        for count, place, item in sorted(finds)[:most]
    ]


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
    for name, model in (("MF", demo.bare), ("MF-AUR", demo.aur)):
        found = (lists(model, users, k)[row] == test.item[:, None]).any(1)
        share = np.bincount(group, found, minlength=len(labels)) / np.maximum(size, 1)
        shares[name], errors[name] = share.tolist(), np.sqrt(share * (1 - share) / np.maximum(size, 1)).tolist()
    return labels, shares, errors


def write_report(demo: Demo, path: Path) -> None:
    """One HTML file with the tables and the figures."""
    from aleator.studies.report.page import Page

    page = Page("Aleator: MF against MF-AUR", demo.note)
    for add in (_add_accuracy, _add_tail, _add_knob, _add_learned, _add_examples):
        add(page, demo)
    page.write(path)


def _add_accuracy(page: Page, demo: Demo) -> None:
    page.section(
        "Accuracy",
        "Recall and NDCG on the test part. Overall ranks all items and counts all test items. Tail absolute counts only "
        "the test items in the tail. Tail relative ranks tail items only.",
    )
    rows = [
        [
            row.protocol.replace("_", " "),
            row.metric,
            row.baseline,
            row.mean,
            Shown(f"{row.change:+.1%}", row.change),
            Shown(f"{row.p:.2g}", row.p),
        ]
        for row in demo.comparison.rows
    ]
    report = demo.reports["MF"]
    page.table(
        ["protocol", "metric", "MF", "MF-AUR", "change", "p (Holm)"],
        rows,
        caption=f"Means over {report.about['users']} users; {report.conventions}.",
    )


def _add_tail(page: Page, demo: Demo) -> None:
    from aleator.studies.report import figures

    page.section("The long tail", "Where the gain comes from, and how many tail items the lists have.")
    labels, shares, errors = recall_by_popularity(demo)
    page.figure(
        figures.recall_by_popularity(labels, shares, errors),
        "The share of test pairs found in the first 50, by popularity of the item. Each group has about as many test "
        "pairs. The bars are one standard error. See in which groups MF-AUR finds more than MF.",
        "Bars of recall by popularity group for MF and MF-AUR",
    )
    in_tail = demo.aur.tail_mask.cpu().numpy()
    page.figure(
        figures.tail_share(
            {name: {cut: report.lists[f"tail_share@{cut}"] for cut in CUTS} for name, report in demo.reports.items()},
            float(in_tail[demo.split.test.item].mean()),
        ),
        "The share of tail items in the lists. The dashed line is their share in the test items of the users.",
        "Tail share of the lists of MF and MF-AUR at each cut-off",
    )


def _add_knob(page: Page, demo: Demo) -> None:
    from aleator.studies.report import figures

    aur = demo.aur
    page.section(
        "The knob",
        f"lam = {aur.lam_used:g} was chosen on validation. It gives the most tail recall among the lams whose overall "
        "recall is above that of the bare model.",
    )
    page.figure(
        figures.lam_curve(aur.curve, aur.lam_used),
        "Each point is one lam, from 1 (expectation alone) to 0 (uncertainty alone).",
        "Overall recall against tail recall on validation over lam",
    )


def _add_learned(page: Page, demo: Demo) -> None:
    from aleator.studies.report import figures

    aur, popularity = demo.aur, demo.aur.fitted.popularity
    page.section(
        "What was learned", "A high uncertainty means that a missing label is probably wrong, so it raises an item."
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
            "The estimator's loss on the training pairs, and Recall@20 by the uncertainty alone on validation.",
            "Training curves of the uncertainty estimator",
        )


def _add_examples(page: Page, demo: Demo) -> None:
    page.section(
        "Examples",
        "Tail items that users took in the test part. MF-AUR has them among its first 8, and MF does not have them among "
        "its first 20.",
    )
    for case in demo.cases:
        pairs = itertools.zip_longest(case.before, case.after, fillvalue="")
        page.table(
            ["rank", "MF", "MF-AUR"],
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
