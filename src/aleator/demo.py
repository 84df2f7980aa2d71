"""The demo: MF against MF-AUR on ML-100K (or on a simulated world), with a report a person enjoys."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

Ids = NDArray[np.int64]
SHOWN = ("recall@20", "recall@50", "ndcg@20", "ndcg@50")


@dataclass(frozen=True)
class Case:
    """A user whose test part holds a tail item that AUR lists and the bare model does not."""

    user: Any
    found: str  # the item's title
    rank: int
    popularity: int
    before: list[str]  # the bare model's first items, test items marked
    after: list[str]  # AUR's


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
        groups = "".join(f"| {p.replace('_', ' '):^26} " for p in self.reports["MF"].per_user)
        heads = "".join(f"| {'MF':>7} {'MF-AUR':>8} {'change':>9} " for _ in self.reports["MF"].per_user)
        lines = [f"{'':<10}{groups}", f"{'':<10}{heads}"]
        for metric in SHOWN:
            cells = ""
            for protocol in self.reports["MF"].per_user:
                row = self.comparison[protocol, metric]
                star = "*" if row.significant else " "
                cells += f"| {row.baseline:>7.4f} {row.mean:>8.4f} {row.change:>+8.1%}{star} "
            lines.append(f"{metric:<10}{cells}")
        return "\n".join(
            [*lines, "* p < 0.05, paired t-test over users, Holm-corrected", self.reports["MF"].conventions]
        )


def open_world(root: Path | None) -> tuple[Split, str]:
    """ML-100K from a folder, the cache or the network; the built-in simulated world where none is to be had."""
    try:
        return catalog.load_dataset("ml-100k", root), "MovieLens-100K, the official ua split"
    except AleatorError as error:
        world = simulate(n_users=1000, n_items=1200, per_user=300, skew=1.0, seed=0)
        titles = {i: f"item {i}" for i in range(world.interactions.n_items)}
        split = world.interactions.with_titles(titles).split(valid=0.0, test=0.2, seed=0)
        return split, f"a simulated world, since ML-100K is not to be had here ({error.problem})"


def run(split: Split, bare: Model, aur: AUR, note: str) -> Demo:
    """Fit both, evaluate both, and find the cases worth telling."""
    bare.fit(split)
    aur.fit(split)
    reports = {"MF": evaluate(bare, split), "MF-AUR": evaluate(aur, split)}
    return Demo(split, bare, aur, reports, reports["MF-AUR"].compare(reports["MF"]), find_cases(split, bare, aur), note)


def lists(model: Recommender, users: Ids, k: int) -> Ids:
    """[n, k] dense item ids, the best unseen ones of each user."""
    batch = model.histories.batch(torch.from_numpy(users))
    with torch.no_grad():
        found = best(model.score_block, batch, k, model.fitted.n_items, seen=batch)[0][1]
    ids: Ids = found.cpu().numpy()
    return ids


def find_cases(split: Split, bare: Model, aur: AUR, k: int = 20, most: int = 3, shown: int = 8) -> list[Case]:
    """Users with a tail test item in AUR's first `shown` but not in the bare model's first k, the rarest finds first."""
    test, popularity = split.test.csr, aur.fitted.popularity
    tail = aur.tail_mask.cpu().numpy()
    users = np.flatnonzero(np.diff(test.indptr)).astype(np.int64)
    before, after = lists(bare, users, k), lists(aur, users, k)
    finds = []
    for place, user in enumerate(users):
        taken = test.indices[test.indptr[user] : test.indptr[user + 1]]
        new = [i for i in taken if tail[i] and i in after[place, :shown] and i not in before[place]]
        if new:
            item = min(new, key=lambda i: popularity[i])
            finds.append((int(popularity[item]), place, int(user), int(item), set(taken.tolist())))
    cases = []
    for count, place, who, item, taken in sorted(finds, key=lambda f: f[:3])[:most]:
        rank = int(np.flatnonzero(after[place] == item)[0]) + 1

        def line(i: int, taken: set[int] = taken) -> str:
            mark = " [taken in the test part]" if i in taken else ""
            return f"{title(aur, i)}{' (tail)' if tail[i] else ''}{mark}"

        cases.append(
            Case(
                aur.fitted.users.decode([who])[0],
                title(aur, item),
                rank,
                count,
                [line(i) for i in before[place, :shown].tolist()],
                [line(i) for i in after[place, :shown].tolist()],
            )
        )
    return cases


def title(model: Recommender, item: int) -> str:
    """What a person calls an item."""
    data = model.fitted
    return str(data.titles[item] if data.titles is not None else data.items.decode([item])[0])


def recall_by_popularity(demo: Demo, k: int = 50, groups: int = 6) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Share of the test pairs found in the first k, by the popularity of their item: labels, shares, standard errors."""
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
    from aleator.studies.report import figures
    from aleator.studies.report.page import Page

    aur, popularity = demo.aur, demo.aur.fitted.popularity
    page = Page("Aleator: MF against MF-AUR", demo.note)
    page.section(
        "Accuracy",
        "Recall and NDCG on the test part. Overall ranks all items for all test items; tail absolute "
        "counts only the test items in the tail; tail relative ranks tail items alone.",
    )
    rows = [
        [r.protocol.replace("_", " "), r.metric, f"{r.baseline:.4f}", f"{r.mean:.4f}", f"{r.change:+.1%}", f"{r.p:.2g}"]
        for r in demo.comparison.rows
    ]
    page.table(
        ["protocol", "metric", "MF", "MF-AUR", "change", "p (Holm)"],
        rows,
        caption=f"Means over {demo.reports['MF'].about['users']} users. {demo.reports['MF'].conventions}.",
    )
    labels, shares, errors = recall_by_popularity(demo)
    page.section("The long tail", "Where the gain comes from, and what the lists look like.")
    page.figure(
        figures.recall_by_popularity(labels, shares, errors),
        "Share of test pairs found in the first 50, by popularity of the item (groups hold about as many test "
        "pairs each; bars of one standard error).",
        "Bars of recall by popularity group for MF and MF-AUR",
    )
    cuts = sorted({int(name.split("@")[1]) for name in demo.reports["MF"].lists})
    tails = {n: {c: r.lists[f"tail_share@{c}"] for c in cuts} for n, r in demo.reports.items()}
    in_tail = aur.tail_mask.cpu().numpy()
    page.figure(
        figures.tail_share(tails, float(in_tail[demo.split.test.item].mean())),
        "Share of tail items in the lists; the dashed line is their share of what users really took next.",
        "Tail share of the lists of MF and MF-AUR at each cut-off",
    )
    page.section(
        "The knob",
        f"lam = {aur.lam_used:g} was chosen on validation: the most tail recall at an overall recall "
        "above that of the bare model.",
    )
    page.figure(
        figures.lam_curve(aur.curve, aur.lam_used),
        "Each point is one lam, from 1 (expectation alone) to 0 (uncertainty alone).",
        "Overall recall against tail recall on validation over lam",
    )
    page.section(
        "What was learned", "A high uncertainty means that a missing label is probably wrong, so it raises an item."
    )
    r, sigma = mean_parts(aur)
    page.figure(
        figures.popularity(popularity, r, sigma, int(aur.tail_rule.cut(popularity))),
        "Mean expectation and mean uncertainty of each item over users, against its popularity. The black lines "
        "are medians; the shaded part is the tail.",
        "Expectation and uncertainty by item popularity",
    )
    if aur.estimator.log is not None:
        page.figure(
            figures.training(aur.estimator.log.rows, aur.estimator.log.best_epoch),
            "The estimator's loss on train, and Recall@20 by the uncertainty alone on validation.",
            "Training curves of the uncertainty estimator",
        )
    page.section(
        "Examples",
        "Tail items that users took in the test part, that MF-AUR puts among its first 8 and MF not among its first 20.",
    )
    for case in demo.cases:
        length = max(len(case.before), len(case.after))
        pad = [x + [""] * (length - len(x)) for x in (case.before, case.after)]
        page.table(
            ["rank", "MF", "MF-AUR"],
            [[str(n + 1), a, b] for n, (a, b) in enumerate(zip(*pad, strict=True))],
            caption=f"User {case.user}: {case.found} (popularity {case.popularity}) comes in at rank {case.rank}.",
        )
    page.write(path)


def mean_parts(aur: AUR, most_users: int = 1000) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[n_items] mean expectation and mean uncertainty over a sample of users."""
    step = max(aur.fitted.n_users // most_users, 1)
    users = aur.histories.batch(torch.arange(0, aur.fitted.n_users, step))
    with torch.no_grad():
        r, sigma = aur.parts(users)
    return r.double().mean(0).cpu().numpy(), sigma.double().mean(0).cpu().numpy()
