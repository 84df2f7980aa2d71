"""Seconds of training until the validation Recall@20 is within 1 % of the best, for our settings and for slower ones.

    python benchmarks/time_to_quality.py [--dataset yelp2018] [--jobs mf estimator] [--budget 120] [--plot FILE]

MF          Our defaults for Adam, the paper's options in our trainer, and the released program's loop (`published.py`).
            ALS, our default solver, is shown for comparison. It is one point, because ALS is not checked during training.
estimator   All on the same MF by ALS: our defaults, plain settings (256 users in a batch, float32, all items), and the
            released program's loop. The checks rank by the uncertainty alone.

All trainings are checked on the same validation pairs of the same users. "training" is everything but the checks: the
initial weights and all steps. Checks are counted separately. Everything runs on a tiny world first. So no training pays
for loading libraries, starting the device and compiling; "start" is the time of that. Each training stops by its own
rule, or at the first check after `--budget` seconds of training. In the second case, its best is only what it reached in
that time. In the ratios, the goal is what both sides reached: 99 % of the lower of the two bests.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from common import Row, arguments, describe, open_data, seconds, show
from published import EstimatorLoop, MFLoop
from torch import Tensor

import aleator as al
from aleator.batches import Histories, Users
from aleator.device import resolve_device
from aleator.evaluation.held_out import HeldOut, Measured
from aleator.training.stop import Stop

NEAR = 0.99  # share of the best that counts as reached
MONITORED_USERS = 10_000  # number of users in a check, as in AUR
OURS, PAPER, PLAIN, PUBLISHED, ALS = (
    "our defaults",
    "the paper's options",
    "plain settings",
    "the released program's loop",
    "ALS",
)
PLAIN_ESTIMATOR: dict[str, Any] = {"batch_size": 256, "precision": "float32", "sampled_items": "all"}


class Spent(Exception):
    """Raised when the budget is used up."""


class Clock(HeldOut):
    """Held-out pairs that record the time and the result of each check."""

    def start(self, budget: float) -> None:
        """Start a new curve."""
        self.curve: list[dict[str, float]] = []  # for each check: seconds of training and of checks so far, Recall@20
        self.budget, self.trained, self.checked = budget, 0.0, 0.0
        self.since = time.perf_counter()

    def measure(self, scorings: Callable[[Users], Any]) -> Measured:
        begin = _now(self.who.device)
        found = super().measure(scorings)
        value = float(found.recall.mean())
        self.trained += begin - self.since
        self.since = _now(self.who.device)
        self.checked += self.since - begin
        self.curve.append({"seconds": self.trained, "check_seconds": self.checked, "recall": value})
        if self.trained > self.budget:
            raise Spent
        return found

    def check(self, score: Callable[[Users], Tensor]) -> float:
        """The mean Recall@20 of the scores."""
        with torch.no_grad():
            return float(self.measure(lambda users: [score(users)]).recall.mean())


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


@dataclass
class Run:
    """The record of one training."""

    job: str
    settings: str
    spent: bool = False  # whether the budget stopped it
    curve: list[dict[str, float]] = field(default_factory=list)

    @property
    def best(self) -> float:
        return max((point["recall"] for point in self.curve), default=0.0)

    def seconds_to(self, goal: float) -> float | None:
        """Seconds of training until the first check that reached `goal`, or None."""
        return next((point["seconds"] for point in self.curve if point["recall"] >= goal), None)


def run(job: str, settings: str, train: Callable[[], Any], clock: Clock, budget: float = math.inf) -> Run:
    """Train and record the checks."""
    done = Run(job, settings)
    clock.start(budget)
    try:
        train()
    except Spent:
        done.spent = True
    done.curve = clock.curve
    told = f"best Recall@20 {done.best:.4f}" + (", out of budget" if done.spent else "")
    print(f"{job}, {settings}: {clock.trained:.2f} s of training, {clock.checked:.2f} s of checks, {told}", flush=True)
    return done


def mf_runs(data: al.Interactions, clock: Clock, budget: float, common: dict[str, Any]) -> list[Run]:
    """The trainings of MF by Adam."""
    device = clock.who.device

    def published() -> None:
        loop = MFLoop(data.csr, device, dim=common["dim"], seed=common["seed"])
        loop.train(lambda: clock.check(loop.score_block))

    return [
        run("MF", OURS, lambda: al.MF(solver="adam", **common).fit_pairs(data, clock), clock, budget),
        run("MF", PAPER, lambda: al.MF(**common).with_defaults(**al.MF.paper).fit_pairs(data, clock), clock, budget),
        run("MF", PUBLISHED, published, clock, budget),
    ]


def als_run(model: al.MF, data: al.Interactions, clock: Clock) -> Run:
    """The training of MF by ALS, with one check at its end. `model` is fitted afterwards."""

    def train() -> None:
        model.fit_pairs(data)
        clock.check(model.score_block)

    return run("MF", ALS, train, clock)


def estimator_runs(
    model: al.MF, data: al.Interactions, clock: Clock, budget: float, plain: dict[str, Any], seed: int
) -> list[Run]:
    """The trainings of the estimator on the frozen `model`."""
    device, objective = clock.who.device, al.AUR(model).objective
    histories = Histories(data.csr, device)

    def ours(options: dict[str, Any]) -> None:
        estimator = al.FactorEstimator(device=str(device), seed=seed, **options)
        estimator.learn(histories, model, objective, Stop(lambda: clock.check(estimator.log_variance)))

    def published() -> None:
        weights: dict[str, Any] = {"alpha": objective.alpha, "beta": objective.beta, "gamma": objective.gamma}
        loop = EstimatorLoop(data.csr, model.table.users, model.table.items, device, seed=seed, **weights)
        loop.train(lambda: clock.check(loop.score_block))

    return [
        run("estimator", OURS, lambda: ours({}), clock, budget),
        run("estimator", PLAIN, lambda: ours(plain), clock, budget),
        run("estimator", PUBLISHED, published, clock, budget),
    ]


def measure(part: al.Split, args: argparse.Namespace, budget: float) -> list[Run]:
    """Do all trainings that the options ask for."""
    clock = Clock(part.train, part.valid, resolve_device(args.device), most_users=MONITORED_USERS, seed=args.seed)
    common = {"dim": args.dim, "device": args.device, "seed": args.seed}
    runs = mf_runs(part.train, clock, budget, common) if "mf" in args.jobs else []
    model = al.MF(**common)
    runs.append(als_run(model, part.train, clock))
    if "estimator" in args.jobs:
        plain = PLAIN_ESTIMATOR | ({} if args.plain_lr is None else {"lr": args.plain_lr})
        runs += estimator_runs(model, part.train, clock, budget, plain, args.seed)
    return runs


def ratios(runs: list[Run]) -> list[Row]:
    """Our seconds against those of each other setting of the same job, to the same quality."""
    rows = []
    for ours in (r for r in runs if r.settings == OURS):
        for other in (r for r in runs if r.job == ours.job and r.settings not in (OURS, ALS)):
            goal = NEAR * min(ours.best, other.best)
            mine = ours.seconds_to(goal)
            if mine is None:
                continue  # there was no check before the training ended
            bests = {"goal": goal, "our best": ours.best, "its best": other.best, "cut short": str(other.spent)}
            rows.append(Row(ours.job, mine, other.seconds_to(goal), other.settings, more=bests))
    return rows


def summary(runs: list[Run]) -> str:
    """A table with a line for each training."""
    lines = [
        "seconds of training to 99 % of its own best and of the job's best, and in all",
        f"{'job':<11}{'settings':<29}{'best':>8}{'own':>9}{'job':>9}{'all':>9}{'checks':>9}  stopped by",
    ]
    for each in runs:
        job_best = max(other.best for other in runs if other.job == each.job)
        own, job = each.seconds_to(NEAR * each.best), each.seconds_to(NEAR * job_best)
        last = each.curve[-1] if each.curve else {"seconds": 0.0, "check_seconds": 0.0}
        figures = "".join(
            f"{'never' if x is None else f'{x:.2f}':>9}" for x in (own, job, last["seconds"], last["check_seconds"])
        )
        lines.append(
            f"{each.job:<11}{each.settings:<29}{each.best:>8.4f}{figures}  {'budget' if each.spent else 'itself'}"
        )
    return "\n".join(lines)


def plot(runs: list[Run], target: Path) -> None:
    """Draw Recall@20 over seconds of training, with a panel for each job. Needs matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        print("matplotlib is not installed, so there is no plot")
        return
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    from aleator.studies.report import figures as style

    jobs = list(dict.fromkeys(each.job for each in runs))
    with matplotlib.rc_context(style.STYLE):
        figure = Figure(figsize=(style.WIDTH, 3.2 * len(jobs)))
        panels = figure.subplots(len(jobs), 1, squeeze=False)[:, 0]
        for panel, job in zip(panels, jobs, strict=True):
            looks = zip(style.COLOURS, style.MARKERS, style.LINES, strict=True)
            for each, (colour, marker, line) in zip((r for r in runs if r.job == job), looks, strict=False):
                x, y = ([point[name] for point in each.curve] for name in ("seconds", "recall"))
                panel.plot(x, y, color=colour, marker=marker, ls=line, ms=3.5, label=each.settings)
            panel.set_xscale("log")
            panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.xaxis.set_major_formatter("{x:g}")
            panel.xaxis.set_minor_locator(NullLocator())
            panel.set_title(job, loc="left")
            panel.set_ylabel("validation Recall@20")
            panel.set_xlabel("seconds of training (log scale)")
            panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
        figure.savefig(target, dpi=150)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", nargs="+", choices=["mf", "estimator"], default=["mf", "estimator"])
    parser.add_argument(
        "--budget", type=float, default=120, help="seconds of training for each setting; checks do not count"
    )
    parser.add_argument(
        "--plain-lr", type=float, help="learning rate of the plain estimator; the default one by default"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="draw the curves into this file (png, pdf or svg)")
    args = parser.parse_args()
    if args.repeats != 1:
        parser.error("each curve is measured once, so leave out --repeats")

    split = open_data(args)
    tiny = al.simulate(n_users=256, n_items=256, seed=0).interactions.split(valid=0.1)
    with redirect_stdout(StringIO()):
        start = seconds(lambda: measure(tiny, args, budget=0))
    runs = measure(split.carve(seed=args.seed), args, args.budget)
    print(f"\n{summary(runs)}\n")
    curves = [asdict(each) for each in runs]
    show(
        "time_to_quality",
        ratios(runs),
        args.json,
        data=describe(split, args.dataset),
        start=f"{start:.1f} s",
        curves=curves,
    )
    if args.plot:
        plot(runs, args.plot)


if __name__ == "__main__":
    main()
