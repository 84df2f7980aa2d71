"""The pictures of docs/scale.md: measured points on the curves of the formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import formulas as by
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from scale import DIMS, GB, GPUS, H200, ITEMS, USERS
from scale_points import STEPS, Records, memory, network, rates, times

from aleator.studies.report.figures import COLOURS, INK, MARKERS, WIDTH, legend, styled

PLAN_NUMBERS = ITEMS * DIMS[-1]


@styled
def memory_figure(records: Records) -> Figure:
    """Memory of the estimator against items x dim, with the formulas as lines."""
    figure = Figure(figsize=(WIDTH, 4.2))
    axes = figure.subplots()
    found = [(point, _numbers(point.what)) for point in memory(records)]
    ends = [min(n for _, n in found) * 0.7, PLAN_NUMBERS]
    each = {"AdamW": by.adam(1, 1), "lean, few rows in use": by.lean(ITEMS, 1, 1) / ITEMS, "lean": by.lean(1, 1, 1)}
    for (label, size), colour in zip(each.items(), COLOURS, strict=False):
        axes.plot(ends, [size * n / GB for n in ends], color=colour, label=f"{label}: {size:.0f} bytes x items x dim")
    for (name, where), (colour, marker) in _looks((p.job, p.where) for p, _ in found).items():
        own = [(n, p.measured / GB) for p, n in found if (p.job, p.where) == (name, where)]
        axes.plot(*zip(*own, strict=True), ls="", marker=marker, color=colour, mec=INK, ms=7, label=f"{name}, {where}")
    axes.axhline(H200 / GB, color=INK, lw=1, ls=":")
    axes.annotate("one H200", (ends[0], H200 / GB), (0, 4), textcoords="offset points", color=INK, size=9)
    _logarithmic(axes, "items x dim on a process", "GB")
    legend(figure, axes)
    return figure


def _looks(keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    """A colour for each job and a marker for each machine."""
    seen = sorted(set(keys))
    jobs, places = (list(dict.fromkeys(key[i] for key in seen)) for i in (0, 1))
    return {key: (COLOURS[jobs.index(key[0])], MARKERS[places.index(key[1])]) for key in seen}


def _numbers(what: str) -> int:
    items, dim = what.replace(",", "").split(" items x ")
    return int(items) * int(dim)


def _logarithmic(axes: Axes, x: str, y: str) -> None:
    for axis, label in ((axes.xaxis, x), (axes.yaxis, y)):
        axis.set_label_text(label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axis.set_minor_formatter(NullFormatter())


def _short(value: float) -> str:
    """A short label for a tick.

    >>> _short(0.1), _short(1e4), _short(2e10)
    ('0.1', '10 k', '20 G')
    """
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


@styled
def network_figure(records: Records) -> Figure:
    """Bytes that a process sends in a step against users x dim of a batch."""
    figure = Figure(figsize=(WIDTH, 4.2))
    axes = figure.subplots()
    found = network(records)
    plan = [by.batch(USERS, STEPS["sampled"]) * dim for dim in DIMS]
    ends = [min(n for _, _, n in found) * 0.7, max(plan) * 1.4]
    for processes, colour in zip((2, 4, GPUS[-1]), COLOURS, strict=False):
        line = [by.step_by_items(n, 1, processes) for n in ends]
        axes.plot(ends, line, color=colour, label=f"formula, {processes} processes")
        own = [(n, point.measured) for point, of, n in found if of == processes]
        if own:
            label = f"on the sockets, {processes}"
            axes.plot(*zip(*own, strict=True), ls="", marker="o", color=colour, mec=INK, ms=7, label=label)
    for n, dim in zip(plan, DIMS, strict=True):
        axes.axvline(n, color=INK, lw=1, ls=":")
        at = (n, by.step_by_items(ends[0], 1, 2))
        axes.annotate(
            f"the plan, dim {dim:,}", at, (-3, 0), textcoords="offset points", ha="right", rotation=90, size=9
        )
    _logarithmic(axes, "users of a batch x dim", "bytes a process sends in a step")
    legend(figure, axes)
    return figure


@styled
def seconds_figure(records: Records) -> Figure:
    """Measured seconds against those by formula, with the fitted rates. On the line, both are the same."""
    found = times(records)
    fitted = rates(found)
    jobs, places = (list(dict.fromkeys(getattr(each, name) for each in found)) for name in ("job", "where"))
    figure = Figure(figsize=(WIDTH * 1.6, 3.8))
    panels = figure.subplots(1, len(jobs))
    for panel, job in zip(panels, jobs, strict=True):
        for where, colour, marker in zip(places, COLOURS, MARKERS, strict=False):
            own = [each for each in found if (each.job, each.where) == (job, where)]
            if own:
                x = [fitted[job, where].seconds(each.operations, each.moved) for each in own]
                y = [each.seconds for each in own]
                panel.plot(x, y, ls="", marker=marker, color=colour, mec=INK, ms=6, label=where)
        low, high = panel.dataLim.min.min() * 0.6, panel.dataLim.max.max() * 1.6
        panel.plot([low, high], [low, high], color=INK, lw=1, ls="--")
        panel.set_title(job, loc="left")
        _logarithmic(panel, "seconds by formula", "")
    panels[0].set_ylabel("seconds measured")
    looks = {name: handle for panel in panels for handle, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(looks.values(), looks.keys(), loc="outside lower center", ncols=len(looks))
    return figure


FIGURES: dict[str, Callable[[Records], Figure]] = {
    "scale-memory": memory_figure,
    "scale-network": network_figure,
    "scale-seconds": seconds_figure,
}
