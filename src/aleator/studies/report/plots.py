"""The figures of the studies in the style of `figures`: lines over an option, bars by group, a scatter, a front."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aleator.studies.report.figures import (
    COLOURS,
    INK,
    LINES,
    MARKERS,
    WIDTH,
    alpha,
    grouped_bars,
    legend,
    say_empty,
    styled,
)

Band = tuple[float, float]  # a mean, and half the width of its interval (or NaN)
Point = tuple[float, float]
Path = Sequence[Point]


@styled
def lines(panels: Mapping[str, Mapping[str, Mapping[float, Band]]], x: str, y: str, *, log: bool = False) -> Figure:
    """A panel for each name, with a line for each series. Points have a bar where an interval is known."""
    figure = Figure(figsize=(WIDTH, 3.4))
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (title, series) in zip(axes, panels.items(), strict=True):
        looks = zip(series.items(), cycle(zip(COLOURS, MARKERS, LINES, strict=True)), strict=False)
        ticks = sorted({at for points in series.values() for at in points})
        for (name, points), (colour, marker, line) in looks:
            means, halves = [m for m, _ in points.values()], [0 if math.isnan(h) else h for _, h in points.values()]
            ax.errorbar(list(points), means, halves, color=colour, marker=marker, ls=line, capsize=3, label=name)
        if log:
            ax.set_xscale("log", base=2)
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.set_title(title, loc="left")
        ax.set_xlabel(x)
        ax.margins(y=0.15)
        ax.set_ylim(bottom=max(ax.get_ylim()[0], 0))
    axes[0].set_ylabel(y)
    legend(figure, axes[0])
    return figure


@styled
def bars(
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    y: str,
    *,
    marks: Sequence[float] | None = None,
    marked: str = "",
) -> Figure:
    """A group of bars for each name, with a bar for each series. `marks` are dashed levels over the groups."""
    figure = Figure(figsize=(WIDTH, 3.7))
    axes = figure.subplots()
    grouped_bars(axes, groups, series)
    if marks is not None:
        at = np.arange(len(groups))
        axes.hlines(marks, at - 0.45, at + 0.45, color=INK, ls="--", lw=1.4, label=marked)
    axes.set_ylabel(y)
    legend(figure, axes)
    return figure


@styled
def scatter(x: Sequence[float], y: Sequence[float], x_label: str, y_label: str, title: str = "") -> Figure:
    """Points, and the line that fits them best by least squares."""
    figure = Figure(figsize=(WIDTH, 4.0))
    axes = figure.subplots()
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    axes.plot(xs, ys, ".", color=COLOURS[0], ms=5, mew=0, alpha=alpha(len(xs)), rasterized=True, label="one item")
    if len(xs) > 1 and np.ptp(xs) > 0:
        slope, level = np.polyfit(xs, ys, 1)
        ends = np.array([xs.min(), xs.max()])
        axes.plot(ends, level + slope * ends, color=COLOURS[1], label="least squares")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_title(title, loc="left")
    legend(figure, axes)
    return figure


@styled
def reliability(curves: Mapping[str, Sequence[Point]], x: str, y: str) -> Figure:
    """A curve of (predicted, measured) for each name. On the dashed diagonal, both are the same."""
    figure = Figure(figsize=(WIDTH, 4.4))
    axes = figure.subplots()
    looks = zip(curves.items(), cycle(zip(COLOURS, MARKERS, LINES, strict=True)), strict=False)
    for (name, points), (colour, marker, line) in looks:
        axes.plot(*zip(*points, strict=True), color=colour, marker=marker, ls=line, label=name)
    most = max((value for points in curves.values() for point in points for value in point), default=1.0)
    axes.plot([0, most], [0, most], color=INK, ls="--", lw=1.2, label="as predicted")
    axes.set_xlim(0, most * 1.05)
    axes.set_ylim(0, most * 1.05)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    legend(figure, axes)
    return figure


@styled
def front(
    families: Mapping[str, Sequence[Path]], others: Mapping[str, Point], x: str, y: str, goal: Point | None = None
) -> Figure:
    """Methods in the plane of two metrics. A family is the paths of an AUR over lam, and others are single points.

    The ends of a path are marked, and its start is filled. The dashed line is the Pareto front of everything. `goal` is a
    point to beat. The lower panel is the part around the front.
    """
    best = pareto([*others.values(), *(point for paths in families.values() for path in paths for point in path)])
    figure = Figure(figsize=(WIDTH, 8.4 if best else 5.6))
    panels = figure.subplots(2 if best else 1, 1, squeeze=False)[:, 0]
    for axes in panels:
        _paths(axes, families)
        _named(axes, others)
        if best:
            axes.plot(*zip(*best, strict=True), color=INK, lw=1.4, ls="--", drawstyle="steps-pre", label="front")
        if goal is not None:
            axes.plot(*goal, marker="*", ms=14, color=COLOURS[4], mec=INK, ls="", label="goal")
        axes.set_ylabel(y)
        axes.margins(x=0.12)
    if best:
        panels[0].set_title("all", loc="left")
        panels[1].set_title("around the front", loc="left")
        _close_up(panels[1], best)
    else:
        say_empty(panels[0])
    panels[-1].set_xlabel(x)
    legend(figure, panels[0])
    return figure


def _paths(axes: Axes, families: Mapping[str, Sequence[Path]]) -> None:
    for (name, paths), colour, marker in zip(families.items(), cycle(COLOURS), cycle(MARKERS), strict=False):
        for number, path in enumerate(paths):
            axes.plot(*zip(*path, strict=True), color=colour, marker=".", ms=3, lw=1.1, alpha=0.8)
            axes.plot(*path[0], color=colour, marker=marker, ms=7, lw=1.1, label="" if number else name)
            axes.plot(*path[-1], marker=marker, ms=7, color=colour, mfc="white")


def _named(axes: Axes, points: Mapping[str, Point]) -> None:
    for name, point in points.items():
        axes.plot(*point, marker="x", ms=6, mew=1.6, color=INK, ls="")
        axes.annotate(name, point, (5, -3), textcoords="offset points", size=8, color=INK, annotation_clip=True)


def _close_up(axes: Axes, points: Sequence[Point]) -> None:
    """Show the part around the points."""
    (left, right), (bottom, top) = (_with_room(ends) for ends in zip(*points, strict=True))
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)


def _with_room(values: Sequence[float]) -> tuple[float, float]:
    """The ends of the values, with some room around them."""
    room = 0.3 * (max(values) - min(values)) or 0.05 * abs(max(values)) or 1.0
    return min(values) - room, max(values) + room


def pareto(points: Sequence[Point]) -> list[Point]:
    """The points that no other point beats in both coordinates, by rising x."""
    kept: list[Point] = []
    for point in sorted(points, reverse=True):
        if not kept or point[1] > kept[-1][1]:
            kept.append(point)
    return kept[::-1]
