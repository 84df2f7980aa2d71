"""The figures of a report in one style: plain arrays in, a matplotlib `Figure` out, and no global state.

Series differ in colour (Okabe and Ito's palette, safe for colour-blind readers) and also in marker, line or hatch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import cycle
from typing import Any, ParamSpec, Protocol

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike, NDArray

P = ParamSpec("P")
WIDTH = 5.6  # inches: at a width of 640 px, text of 10 points is 16 px high
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES: tuple[Any, ...] = ("-", "-.", ":", (0, (9, 3)), (0, (3, 1, 1, 1, 1, 1)), "-", "-.")
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "++", "ooo")
LABELLED = (0, 0.5, 0.8, 0.2, 0.9, 0.6, 0.4, 0.7, 0.3, 0.1)  # the lams that get a label, the most wanted first
SHIFTS = ((0, 13), (0, -13), (20, 0), (-20, 0), (17, 10), (-17, 10), (17, -10), (-17, -10))  # of a label, in points
INK, FAINT, SHADE = "#222222", "#8a8a8a", "#f3ead3"
STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.formatter.useoffset": False,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "grid.color": "#e2e2e2",
    "grid.linewidth": 0.8,
    "hatch.linewidth": 0.7,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "lines.linewidth": 1.8,
    "text.color": INK,
    "text.parse_math": False,  # a system may be called "a$b", and a name is never a formula
    "xtick.color": INK,
    "xtick.labelsize": 9.5,
    "ytick.color": INK,
    "ytick.labelsize": 9.5,
}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw and lay out in `STYLE`. Matplotlib makes ticks late, with the style of that moment."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with matplotlib.rc_context(STYLE):
            figure = draw(*args, **kwargs)
            figure.draw_without_rendering()
        return figure

    return drawn


@styled
def popularity(popularity: ArrayLike, expectation: ArrayLike, uncertainty: ArrayLike, tail_cut: int) -> Figure:
    """Mean expectation and mean uncertainty over users of each item, by its popularity; all three are [n_items].

    The tail, popularity <= `tail_cut`, is shaded. A `tail_cut` of -1 means that there is none.
    """
    counts = np.asarray(popularity, dtype=float)
    figure = Figure(figsize=(WIDTH, 5.4))
    panels = figure.subplots(2, 1, sharex=True)
    panels[1].set_xscale("symlog", linthresh=1, linscale=0.4)  # log from 1 on, with room for 0
    most = max(counts.max(initial=1), 1)
    left, right = (-0.4 if (counts == 0).any() else 0.8), most * 1.25
    means = {"expectation": expectation, "uncertainty": uncertainty}
    for panel, (name, values), colour in zip(panels, means.items(), COLOURS, strict=False):
        _items(panel, counts, np.asarray(values, dtype=float), colour)
        panel.set_ylabel(f"mean {name}\nover users")
        if tail_cut >= 0:
            panel.axvspan(left, min(tail_cut + 0.5, right), color=SHADE, zorder=0, lw=0)
            panel.axvline(min(tail_cut + 0.5, right), color=FAINT, ls="--", lw=1)
    if tail_cut >= 0:
        panels[0].set_title(f"tail (popularity ≤ {tail_cut:,})", loc="left")
    if tail_cut < most:
        panels[0].set_title("head", loc="right")
    _popularity_ticks(panels[1], most)
    panels[1].set_xlim(left, right)
    panels[1].set_xlabel("popularity of the item (training interactions, log scale)")
    item = matplotlib.lines.Line2D([], [], ls="", marker="o", ms=4, color=FAINT, label="one item")
    figure.legend(handles=[item, panels[0].lines[1]], loc="outside lower center", ncols=2)
    return figure


def _items(axes: Axes, counts: NDArray[Any], means: NDArray[Any], colour: str) -> None:
    """A point for each item, and the line of medians."""
    known = np.isfinite(means)
    x, y = counts[known], means[known]
    axes.plot(x, y, ".", color=colour, ms=4, mew=0, alpha=alpha(len(counts)), rasterized=True)
    axes.plot(*_binned_median(x, y), "-o", color="black", ms=3.5, label="median by popularity")
    if not known.any():
        say_empty(axes)


def _popularity_ticks(axes: Axes, most: float) -> None:
    """Ticks at 0 and at powers of ten, with 2 and 5 between them where the scale is short."""
    steps = (1,) if most >= 100 else (1, 2, 5)
    ticks = [0, *(step * 10**digits for digits in range(len(str(int(most)))) for step in steps)]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])


def alpha(n_points: int) -> float:
    """The opacity of a point among so many."""
    return float(np.clip(60 / max(n_points, 1) ** 0.7, 0.2, 0.7))


def _binned_median(x: NDArray[Any], y: NDArray[Any], bins: int = 16) -> tuple[list[float], list[float]]:
    """The medians of x and y within each bin that has an item. Bins have equal width in log(1 + x)."""
    scale = np.log1p(x)
    which = np.floor(scale / max(scale.max(initial=0.0), 1e-9) * bins).clip(max=bins - 1)
    groups = [which == b for b in np.unique(which)]
    return [float(np.median(x[g])) for g in groups], [float(np.median(y[g])) for g in groups]


@styled
def recall_by_popularity(
    labels: Sequence[str],
    values: Mapping[str, Sequence[float]],
    errors: Mapping[str, Sequence[float]] | None = None,
    *,
    metric: str = "Recall",
) -> Figure:
    """A group of bars for each popularity group ("<= 5", "6-20", ...), with a bar for each system of `values`.

    `errors`, by system too, are half the length of the error bars.
    """
    figure = Figure(figsize=(WIDTH, 3.7))
    axes = figure.subplots()
    grouped_bars(axes, [label.replace("<=", "≤").replace(">=", "≥") for label in labels], values, errors)
    axes.set_xlabel("popularity of the item (training interactions)")
    axes.set_ylabel(metric)
    legend(figure, axes)
    return figure


def grouped_bars(
    axes: Axes,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    errors: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """A group of bars for each name, with a bar for each series, from 0 on."""
    at, width = np.arange(len(groups)), 0.8 / max(len(series), 1)
    for place, (name, heights) in enumerate(series.items()):
        axes.bar(
            at + (place - (len(series) - 1) / 2) * width,
            heights,
            width * 0.94,
            yerr=errors.get(name) if errors else None,
            color=COLOURS[place % len(COLOURS)],
            hatch=HATCHES[place % len(HATCHES)],
            edgecolor="white",
            error_kw={"ecolor": INK, "capsize": 3, "elinewidth": 1.2},
            label=name,
        )
    axes.set_xticks(at, list(groups))
    axes.grid(visible=False, axis="x")
    axes.set_ylim(bottom=0)


@styled
def tail_share(shares: Mapping[str, Mapping[int, float]], truth: float | None = None) -> Figure:
    """The share (0 to 1) of tail items in the top k, by system and k, beside the share in the users' test items."""
    figure = Figure(figsize=(WIDTH, 3.7))
    axes = figure.subplots()
    ks = sorted({k for by_k in shares.values() for k in by_k})
    looks = zip(shares.items(), cycle(zip(COLOURS, MARKERS, LINES, strict=True)), strict=False)
    for (name, by_k), (colour, marker, line) in looks:
        mine = [k for k in ks if k in by_k]
        percent = [100 * by_k[k] for k in mine]
        axes.plot([ks.index(k) for k in mine], percent, color=colour, marker=marker, ls=line, label=name)
    if truth is not None:
        axes.axhline(100 * truth, color=INK, ls="--", lw=1.4, label="users' test items")
    axes.set_xticks(range(len(ks)), [f"{k:,}" for k in ks])
    axes.set_xlim(-0.4, max(len(ks) - 1, 0) + 0.4)
    axes.set_ylim(bottom=0, top=max(axes.get_ylim()[1], 1))
    axes.set_xlabel("k (length of the list)")
    axes.set_ylabel("tail items in the lists (%)")
    legend(figure, axes)
    return figure


class Held(Protocol):
    """The held-out figures of one lam, such as a point of `aur.choice.curve`."""

    @property
    def lam(self) -> float: ...
    @property
    def recall(self) -> float: ...
    @property
    def ndcg(self) -> float: ...
    @property
    def tail(self) -> float: ...


@styled
def lam_curve(curve: Sequence[Held], chosen: float) -> Figure:
    """Overall Recall@20 and NDCG@20 against tail-absolute Recall@50 on validation, a point for each lam."""
    figure = Figure(figsize=(WIDTH, 4.6))
    panels: Sequence[Axes] = figure.subplots(1, 2, sharey=True)
    points = sorted(curve, key=lambda point: point.lam)
    lams, *across, y = (
        np.array([getattr(point, name) for point in points]) for name in ("lam", "recall", "ndcg", "tail")
    )
    panels[0].set_ylabel("tail-absolute Recall@50 (validation)")
    for axes, x, metric in zip(panels, across, ("Recall@20", "NDCG@20"), strict=True):
        axes.set_xlabel(f"overall {metric}\n(validation)")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.margins(0.12)
        if points:
            _lam_path(axes, lams, x, y, chosen)
        else:
            say_empty(axes)
    if not points:
        return figure
    bar = figure.colorbar(
        panels[0].collections[0],
        ax=panels,
        label="lam (1: expectation alone, 0: uncertainty alone)",
        aspect=30,
        pad=0.02,
    )
    bar.outline.set_visible(False)
    legend(figure, panels[0])
    figure.draw_without_rendering()  # labels are placed in pixels, so the layout comes first
    for axes, x in zip(panels, across, strict=True):
        _label_lams(axes, lams, x, y, [len(points) - 1, int(np.abs(lams - chosen).argmin())])
    return figure


def _lam_path(axes: Axes, lams: NDArray[Any], x: NDArray[Any], y: NDArray[Any], chosen: float) -> None:
    """A point for each lam (ascending), with marks at the bare model and at the chosen lam."""
    axes.plot(x, y, color=FAINT, lw=1, zorder=2)
    axes.scatter(x, y, c=lams, cmap="viridis", vmin=0, vmax=1, s=22, zorder=3)
    star = int(np.abs(lams - chosen).argmin())
    if lams[-1] == 1:
        axes.axvline(float(x[-1]), color=FAINT, ls=":", lw=1.4, zorder=1)
        axes.plot(x[-1], y[-1], "s", ms=13, mfc="none", mec=INK, mew=1.6, label="bare model (lam = 1)", zorder=4)
    axes.plot(x[star], y[star], "*", ms=15, color=COLOURS[1], mec="white", label=f"chosen lam = {chosen:g}", zorder=5)


def _label_lams(
    axes: Axes, lams: NDArray[Any], x: NDArray[Any], y: NDArray[Any], marked: list[int], most: int = 6
) -> None:
    """Label a few points with their lam. A label covers no point, no marked point, and not the line of the first."""
    point = axes.figure.dpi / 72  # in pixels
    dots = axes.transData.transform(np.column_stack([x, y]))
    window = axes.get_window_extent()
    taken = [Bbox([dots[j] - 10 * point, dots[j] + 10 * point]) for j in marked]
    taken += [Bbox([(dots[j][0] - 1, window.y0), (dots[j][0] + 1, window.y1)]) for j in marked[:1]]
    look: Any = {"ha": "center", "va": "center", "size": 9, "textcoords": "offset points"}
    labelled = 0
    for i in dict.fromkeys(int(np.abs(lams - goal).argmin()) for goal in LABELLED):
        for shift in SHIFTS if labelled < most else ():
            box = _label_box(dots[i], shift, point)
            if _inside(box, window) and not box.count_contains(dots) and not box.count_overlaps(taken):
                axes.annotate(f"{lams[i]:g}", (x[i], y[i]), shift, **look)
                taken.append(box)
                labelled += 1
                break


def _label_box(dot: NDArray[Any], shift: tuple[int, int], point: float) -> Bbox:
    """The place of a label in pixels; `shift` is its distance from the dot in points."""
    centre, half = dot + np.array(shift) * point, np.array([12, 7]) * point
    return Bbox([centre - half, centre + half])


def _inside(box: Bbox, window: Bbox) -> bool:
    return bool(window.containsx(box.x0) and window.containsx(box.x1) and window.y0 < box.y0 and box.y1 < window.y1)


@styled
def training(rows: Sequence[Mapping[str, float]], best_epoch: int) -> Figure:
    """The loss and the validation metric by epoch. Rows have "epoch", "loss" and, where it was measured, "metric"."""
    figure = Figure(figsize=(WIDTH, 4.6))
    panels = figure.subplots(2, 1, sharex=True)
    for j, (panel, key, name) in enumerate(zip(panels, ("loss", "metric"), ("loss", "validation metric"), strict=True)):
        known = [(row["epoch"], row[key]) for row in rows if key in row]
        if known:
            panel.plot(*zip(*known, strict=True), color=COLOURS[j], marker=MARKERS[j], ls=LINES[0], ms=3.5)
            panel.axvline(best_epoch, color=INK, ls="--", lw=1.2)
        else:
            say_empty(panel)
        panel.set_ylabel(name)
    if rows:
        panels[0].set_title(f"best epoch: {best_epoch} (dashed line)", loc="left")
    panels[1].set_xlabel("epoch")
    panels[1].xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.align_ylabels(panels)
    return figure


@styled
def importance(shares: Mapping[str, float], metric: str, n_trials: int) -> Figure:
    """The share (0 to 1) of each option in the variance of a metric over trials. The largest is on top."""
    names = sorted(shares, key=lambda name: shares[name])
    figure = Figure(figsize=(WIDTH, 1.3 + 0.32 * max(len(names), 3)))
    axes = figure.subplots()
    bars = axes.barh(names, [100 * shares[name] for name in names], 0.7, color=COLOURS[0])
    axes.bar_label(bars, fmt="%.0f", padding=3, size=9.5)
    axes.margins(x=0.1)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"share of the option in the variance of {metric} (%)")
    axes.set_title(f"{n_trials} complete trials", loc="left")
    if not names:
        say_empty(axes)
    return figure


def legend(figure: Figure, axes: Axes) -> None:
    """A legend below the axes, where it hides nothing."""
    handles, names = axes.get_legend_handles_labels()
    if handles:
        width = max(len(name) for name in names) + 8
        wide = sum(len(name) + 8 for name in names) > 75
        figure.legend(handles, names, loc="outside lower center", ncols=max(75 // width, 2) if wide else len(names))
    else:
        say_empty(axes)


def say_empty(axes: Axes) -> None:
    """Say that there is nothing to see."""
    axes.text(0.5, 0.5, "nothing measured", transform=axes.transAxes, ha="center", va="center", color=FAINT)
