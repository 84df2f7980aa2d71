"""The figures: what they show, and that thin data does not break them."""

from __future__ import annotations

from io import BytesIO
from itertools import combinations
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from aleator.aur.choice import Point
from aleator.studies.report import figures

CURVE = [
    Point(
        lam=lam,
        discount=0.0,
        recall=0.07 - 0.05 * (1 - lam) ** 3 + 0.01 * lam * (1 - lam),
        ndcg=0.06 - 0.04 * (1 - lam) ** 2,
        tail=0.07 - 0.05 * lam,
        merit=1.0,
        near=True,
        gains=False,
    )
    for lam in np.linspace(0, 1, 51).round(2).tolist()
]


def names(figure: Figure) -> list[str]:
    """The texts of the legend."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def xs(line: Line2D) -> list[float]:
    """Where the points of a line are on the x axis."""
    return [float(value) for value in np.asarray(line.get_xdata())]


def ys(line: Line2D) -> list[float]:
    """Where the points of a line are on the y axis."""
    return [float(value) for value in np.asarray(line.get_ydata())]


def bars(axes: Axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def titles(figure: Figure) -> str:
    return " ".join(axes.get_title(loc) for axes in figure.axes for loc in ("left", "right"))


def test_popularity_shows_every_item_and_shades_the_tail() -> None:
    counts = np.array([0, 0, 1, 2, 5, 40, 900])
    figure = figures.popularity(counts, counts / 1000, 1 / (1 + counts), tail_cut=5)
    above, below = figure.axes
    assert above.lines[0].get_rasterized()
    assert xs(above.lines[0]) == counts.tolist()
    np.testing.assert_allclose(ys(above.lines[0]), counts / 1000)
    assert "expectation" in above.get_ylabel()
    assert "uncertainty" in below.get_ylabel()
    assert "log" in below.get_xlabel()
    assert "tail (popularity ≤ 5)" in titles(figure)
    assert "head" in titles(figure)
    left, right = below.get_xlim()
    assert left < 0 < 900 < right
    shade = above.patches[0].get_window_extent()
    assert 5 < above.transData.inverted().transform((shade.x1, shade.y1))[0] < 6
    assert "0" in [tick.get_text() for tick in below.get_xticklabels()]


def test_the_median_line_is_the_median_of_each_bin() -> None:
    x, y = figures._binned_median(np.array([0.0, 0, 0, 100, 100, 100]), np.array([1.0, 2, 30, 7, 8, 90]))
    assert (x, y) == ([0, 100], [2, 8])


def test_without_a_tail_nothing_is_shaded() -> None:
    figure = figures.popularity([3, 4], [0.1, 0.2], [0.3, 0.4], tail_cut=-1)
    assert not any(axes.patches for axes in figure.axes)
    assert "tail" not in titles(figure)


def test_recall_bars_stand_at_their_values_with_errors() -> None:
    values = {"MF": [0.1, 0.2], "MF-AUR": [0.15, 0.19]}
    figure = figures.recall_by_popularity(["<= 5", "6-20"], values, {"MF": [0.01, 0.01]}, metric="Recall@50")
    (axes,) = figure.axes
    assert [bar.get_height() for bar in bars(axes)] == [0.1, 0.2, 0.15, 0.19]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["≤ 5", "6-20"]
    assert names(figure) == ["MF", "MF-AUR"]
    assert axes.get_ylabel() == "Recall@50"
    assert len(axes.collections) == 1  # the error bars of the one system that has them
    assert len({bar.get_hatch() for bar in axes.patches}) == 2


def test_tail_share_is_in_percent_beside_the_truth() -> None:
    figure = figures.tail_share({"MF": {20: 0.04, 5: 0.02}, "MF-AUR": {20: 0.3}}, truth=0.4)
    (axes,) = figure.axes
    first, second, truth = axes.lines
    assert ys(first) == [2, 4]
    assert xs(second) == [1]
    assert ys(truth) == [40, 40]
    assert truth.get_linestyle() == "--"
    assert names(figure) == ["MF", "MF-AUR", "users' test items"]
    assert "%" in axes.get_ylabel()
    assert len(figures.tail_share({"MF": {5: 0.1}}, truth=None).axes[0].lines) == 1


def test_lam_curve_marks_the_bare_model_and_the_chosen_lam() -> None:
    figure = figures.lam_curve(list(reversed(CURVE)), chosen=0.64)
    assert names(figure) == ["bare model (lam = 1)", "chosen lam = 0.64"]
    for axes, metric, name in zip(figure.axes, ("recall", "ndcg"), ("Recall@20", "NDCG@20"), strict=False):
        np.testing.assert_allclose(xs(axes.lines[0]), [getattr(point, metric) for point in CURVE])
        np.testing.assert_allclose(ys(axes.lines[0]), [point.tail for point in CURVE])
        star = next(line for line in axes.lines if line.get_marker() == "*")
        assert ys(star)[0] == pytest.approx(0.07 - 0.05 * 0.64)
        assert name in axes.get_xlabel()
        assert "validation" in axes.get_xlabel()
    assert "validation" in figure.axes[0].get_ylabel()


def test_the_labels_of_lam_are_few_and_do_not_overlap() -> None:
    figure = figures.lam_curve(CURVE, chosen=0.64)
    for axes in figure.axes[:2]:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert 3 <= len(boxes) <= 6
        assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_training_marks_the_best_epoch_and_shows_the_metric_where_measured() -> None:
    rows = [{"epoch": e, "loss": 1 / e} | ({"metric": 0.01 * e} if e % 2 == 0 else {}) for e in range(1, 7)]
    figure = figures.training(rows, best_epoch=4)
    loss, metric = figure.axes
    assert len(xs(loss.lines[0])) == 6
    assert xs(metric.lines[0]) == [2, 4, 6]
    assert all(xs(axes.lines[1]) == [4, 4] for axes in (loss, metric))
    assert "best epoch: 4" in titles(figure)


def test_importance_is_in_percent_with_the_largest_on_top() -> None:
    (axes,) = figures.importance({"model.mu": 0.2, "alpha": 0.7, "gamma": 0.1}, "recall@20", 12).axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["gamma", "model.mu", "alpha"]
    assert [bar.get_width() for bar in bars(axes)] == pytest.approx([10, 20, 70])
    assert [text.get_text() for text in axes.texts] == ["10", "20", "70"]
    assert "recall@20" in axes.get_xlabel()
    assert axes.get_title("left") == "12 complete trials"


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (figures.popularity, ([], [], [], 5)),
        (figures.popularity, ([0], [0.1], [0.2], 0)),
        (figures.popularity, ([3], [np.nan], [0.2], -1)),
        (figures.recall_by_popularity, ([], {}, None)),
        (figures.recall_by_popularity, (["<= 5"], {"MF": [float("nan")]}, None)),
        (figures.tail_share, ({}, None)),
        (figures.tail_share, ({"MF": {20: 0.0}}, 0.0)),
        (figures.lam_curve, ([], 1.0)),
        (figures.lam_curve, ([Point(1.0, 0.0, 0.0, 0.0, 0.0, 0.0, near=True, gains=False)], 1.0)),
        (figures.importance, ({}, "recall@20", 0)),
        (figures.training, ([], 0)),
        (figures.training, ([{"epoch": 1, "loss": 0.5}], 1)),
    ],
)
@pytest.mark.filterwarnings("error")
def test_thin_data_still_draws(make: Any, args: tuple[Any, ...]) -> None:
    file = BytesIO()
    make(*args).savefig(file, format="svg")
    assert file.tell()


def test_a_name_is_never_read_as_a_formula() -> None:
    figure = figures.recall_by_popularity(["<= 5"], {"$\\bad{$": [0.1]})
    figure.savefig(BytesIO(), format="svg")
    assert names(figure) == ["$\\bad{$"]


def test_the_settings_of_matplotlib_are_left_alone() -> None:
    before = dict(matplotlib.rcParams)
    figures.training([{"epoch": 1, "loss": 0.5}], 1)
    assert dict(matplotlib.rcParams) == before
