"""How seconds and peak memory grow with users, items and pairs, one at a time, with fitted exponents.

    python benchmarks/growth.py [--doublings 4] [--users 4096 --items 4096 --pairs 131072] [--plot FILE] [--json FILE]

epoch       an epoch of the estimator with a fixed number of sampled items; the fastest after the first counts
evaluate    evaluate an AUR under three protocols at 20 and 50; every user has one test item
recommend   find the top 50 of every user by the AUR

Each job runs in a fresh process, on an MF of two ALS iterations and an estimator of --epochs epochs. "ours" is at the
largest size and "reference" at the smallest. So the ratio can be compared with how much the size grew. An exponent is the
slope of a least-squares line through the logarithms of all sizes, ± the half width of its 95 % interval. "last" is the
slope of the last doubling alone. Memory
is the peak above that of a process that only imports. The interactions are drawn as in `epochs.py`, not by `al.simulate`,
because the numbers of users, items and pairs must be exact.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, assemble, peak_memory, seconds, show, top_for_all
from epochs import draw
from safetensors.torch import load_file, save_file
from scipy.stats import t as student

import aleator as al

JOBS = ("epoch", "evaluate", "recommend")
AXES = ("users", "items", "pairs")
Size = tuple[int, int, int]  # users, items, pairs


def nothing() -> None:
    """Do nothing. Measures what importing takes."""


def work(job: str, folder: str, dim: int, sampled_items: int, epochs: int, repeats: int, device: str) -> float:
    """Seconds of one job on the saved MF in `folder`. The job epoch saves the estimator for the others."""
    model = al.MF.load(Path(folder) / "mf", device)
    estimator = al.FactorEstimator(dim=dim, sampled_items=sampled_items)
    saved = Path(folder) / "estimator.safetensors"
    if job == "epoch":
        aur = assemble(model, estimator, epochs=epochs)
        save_file({name: value.cpu().contiguous() for name, value in aur.estimator.tensors().items()}, saved)
        assert aur.estimator.log is not None
        return min(aur.estimator.log.seconds[1:])
    tensors = {name: value.to(model.torch_device) for name, value in load_file(saved).items()}
    aur = assemble(model, estimator, tensors=tensors)
    if job == "recommend":
        return seconds(partial(top_for_all, aur, 50), repeats)
    return seconds(partial(al.evaluate, aur, one_each(model.fitted)), repeats)


def one_each(train: al.Interactions) -> al.Split:
    """A split of `train` and a test part of one unseen item for each user."""
    rng = np.random.default_rng(1)
    user = np.arange(train.n_users)
    item = rng.integers(train.n_items, size=train.n_users)
    pairs = np.sort(train.user.astype(np.int64) * train.n_items + train.item)
    while True:
        keys = user * train.n_items + item
        taken = pairs[np.minimum(np.searchsorted(pairs, keys), len(pairs) - 1)] == keys
        if not taken.any():
            break
        item[taken] = rng.integers(train.n_items, size=int(taken.sum()))
    test = al.Interactions.of(user, item, users=train.users, items=train.items)
    return al.Split(train, train.take(np.zeros(len(train), bool)), test)


def measure(size: Size, args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Seconds and megabytes of each job on interactions of this size."""
    found = {}
    options = {name: getattr(args, name) for name in ("dim", "sampled_items", "epochs", "repeats", "device")}
    with tempfile.TemporaryDirectory() as folder:
        al.MF(dim=args.dim, iterations=2, device=args.device).fit(al.read(draw(*size))).save(Path(folder) / "mf")
        for job in args.jobs:
            peak = peak_memory(work, job=job, folder=folder, **options)
            found[job] = {"seconds": peak.result, "megabytes": peak.megabytes}
    return found


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> tuple[float, float]:
    """The slope of the least-squares line of log(cost) over log(size), and the half width of its 95 % interval.

    The slope is 2 if the cost grows with the square. The interval is that of Student's t, infinite for two sizes.

    >>> [round(part, 6) for part in exponent([1, 2, 4], [3, 12, 48])]
    [2.0, 0.0]
    """
    x, y = np.log(sizes), np.log(np.maximum(costs, 1e-6))
    slope, level = np.polyfit(x, y, 1)
    if len(x) < 3:
        return float(slope), np.inf
    deviation = np.sqrt(np.square(y - slope * x - level).sum() / (len(x) - 2) / np.square(x - x.mean()).sum())
    return float(slope), float(deviation * student.ppf(0.975, len(x) - 2))


def plot(points: list[dict[str, Any]], file: Path) -> None:
    """Draw seconds (first row) and memory (second row) on logarithmic scales, with the exponents as titles."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from aleator.studies.report.figures import COLOURS, FAINT, LINES, MARKERS, STYLE

    costs = {"seconds": "seconds", "megabytes": "peak memory\nabove import (MB)"}
    with matplotlib.rc_context(STYLE):
        axes, jobs = (list(dict.fromkeys(point[key] for point in points)) for key in ("axis", "job"))
        figure = Figure(figsize=(1.8 + 2.4 * len(axes), 5.6))
        panels = figure.subplots(len(costs), len(axes), sharex="col", sharey="row", squeeze=False)
        for row, (cost, label) in enumerate(costs.items()):
            for panel, axis in zip(panels[row], axes, strict=True):
                slopes = []
                for job, colour, marker, line in zip(jobs, COLOURS, MARKERS, LINES, strict=False):
                    mine = [point for point in points if point["axis"] == axis and point["job"] == job]
                    x, y = [point["size"] for point in mine], [point[cost] for point in mine]
                    panel.plot(x, y, color=colour, marker=marker, ls=line, ms=5)
                    slopes.append(f"{job} {exponent(x, y)[0]:z.2f}")
                low = min(point[cost] for point in points if point["axis"] == axis)
                panel.plot(x, [low * size / x[0] for size in x], color=FAINT, lw=0.8, zorder=1)
                panel.set_xscale("log", base=2)
                panel.set_yscale("log")
                panel.set_xticks(x, [_count(size) for size in x])
                panel.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
                panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                panel.yaxis.set_minor_formatter(NullFormatter())
                panel.set_title(", ".join(slopes), size=8, loc="left")
            panels[row, 0].set_ylabel(label)
        for panel, axis in zip(panels[-1], axes, strict=True):
            panel.set_xlabel(axis)
        names = [*jobs, "in proportion to the size"]
        figure.legend(panels[0, 0].lines[: len(names)], names, loc="outside lower center", ncols=4)
        figure.suptitle("the exponent of the growth of each job is above its panel", size=10, x=0.01, ha="left")
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=150)


def _count(n: int) -> str:
    """A short label for a tick.

    >>> _count(512), _count(4096), _count(1 << 21)
    ('512', '4k', '2M')
    """
    for unit, size in (("M", 1 << 20), ("k", 1 << 10)):
        if n >= size:
            return f"{n / size:g}{unit}"
    return str(n)


def options() -> argparse.Namespace:
    """The options of the command line, checked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=4096, help="in the smallest data")
    parser.add_argument("--items", type=int, default=4096, help="in the smallest data")
    parser.add_argument("--pairs", type=int, default=1 << 17, help="in the smallest data")
    parser.add_argument("--doublings", type=int, default=4, help="how often each of the three is doubled")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS, help="all three by default; epoch always")
    parser.add_argument("--axes", nargs="+", choices=AXES, default=AXES, help="what grows; all three by default")
    parser.add_argument("--dim", type=int, default=128, help="dimensions of MF and of the estimator")
    parser.add_argument("--sampled-items", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=3, help="number of epochs; the fastest after the first counts")
    parser.add_argument("--repeats", type=int, default=3, help="number of runs; the fastest counts")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--plot", type=Path, help="write a figure to this file (png, pdf or svg)")
    parser.add_argument("--json", type=Path, help="append the figures to this file as one line of JSON")
    args = parser.parse_args()
    # epoch trains the estimator that the other jobs use
    args.jobs = [job for job in JOBS if job == "epoch" or job in args.jobs]
    start = (args.users, args.items, args.pairs)
    most = [n << args.doublings if axis in args.axes else n for axis, n in zip(AXES, start, strict=True)]
    if args.doublings < 1 or args.epochs < 2 or max(most[:2]) > start[2] or most[2] > start[0] * start[1] // 2:
        parser.error("give 1 doubling, 2 epochs, a pair for each user and item, and at most half of all pairs")
    return args


def grow(start: Size, base: float, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds and megabytes (above `base`) of each job at each size, as the axes grow from `start` one at a time."""
    points: list[dict[str, Any]] = []
    first = measure(start, args)
    for axis in args.axes:
        place = AXES.index(axis)
        for doubling in range(args.doublings + 1):
            grown = list(start)
            grown[place] <<= doubling
            users, items, pairs = grown
            found = measure((users, items, pairs), args) if doubling else first
            for job, cost in found.items():
                at = {"axis": axis, "job": job, "size": grown[place], "seconds": cost["seconds"]}
                points.append(at | {"megabytes": cost["megabytes"] - base})
    return points


def growth_of(job: str, axis: str, points: list[dict[str, Any]]) -> Row:
    """A line of the table: the largest size against the smallest one, with the exponents."""
    mine = [point for point in points if point["axis"] == axis and point["job"] == job]
    sizes, spent, held = ([point[key] for point in mine] for key in ("size", "seconds", "megabytes"))
    more: dict[str, Any] = {"size grew": sizes[-1] // sizes[0]}
    for name, costs in (("exponent", spent), ("exponent of MB", held)):
        slope, spread = exponent(sizes, costs)
        more |= {name: slope} | ({f"± of {name}": spread} if len(sizes) > 2 else {})
    more |= {"last": exponent(sizes[-2:], spent[-2:])[0], "MB": held[-1], "MB at first": held[0]}
    return Row(f"{job}, {axis}", spent[-1], spent[0], f"{sizes[0]:,} {axis}", more=more)


def main() -> None:
    args = options()
    start = (args.users, args.items, args.pairs)
    base = peak_memory(nothing).megabytes
    points = grow(start, base, args)
    rows = [growth_of(job, axis, points) for axis in args.axes for job in args.jobs]
    smallest = dict(zip(AXES, start, strict=True)) | {"dim": args.dim, "sampled_items": args.sampled_items}
    show("growth", rows, args.json, smallest=smallest, import_megabytes=base, points=points)
    if args.plot:
        plot(points, args.plot)


if __name__ == "__main__":
    main()
