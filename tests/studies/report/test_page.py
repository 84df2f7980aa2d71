"""The page: one safe, whole, accessible file."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from aleator.studies.report import figures
from aleator.studies.report.cells import DASH, UP, Shown
from aleator.studies.report.page import Page

EVIL = """<script>alert("x")</script>' onload='alert(1)" onerror="x"""


class Outline(HTMLParser):
    """The tags of a page, with their attributes, in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def every(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.tags if tag == name]


@dataclass
class OneCell:
    """The class of a cell, its text, and the widths of the boxes in it."""

    kind: str
    text: str = ""
    widths: list[float] = field(default_factory=list)


class Cells(HTMLParser):
    """The cells of the bodies of tables, in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[OneCell] = []
        self.inside = False
        self.feed(html)
        for cell in self.found:
            cell.text = cell.text.rstrip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "td" or (tag == "th" and known.get("scope") == "row"):
            self.found.append(OneCell(known.get("class") or ""))
            self.inside = True
        elif self.inside and (style := known.get("style")):
            self.found[-1].widths.append(float(style.removeprefix("min-width:").removesuffix("ch")))

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.found[-1].text += data


@pytest.fixture
def figure() -> Figure:
    return figures.tail_share({"MF": {5: 0.1, 20: 0.2}}, truth=0.4)


@pytest.fixture
def page(figure: Figure) -> Page:
    return (
        Page("Report", "made by `aleator report`")
        .section("Accuracy", "First.\n\nSecond.")
        .table(["system", "Recall@20", "users"], [["MF", 0.07123, 31668], ["MF-AUR", 0.0745, 31668]], "Overall")
        .section("Tail share")
        .figure(figure, "By k", alt="MF recommends few tail items")
        .note("recipe ours")
    )


def test_nothing_given_becomes_markup(figure: Figure) -> None:
    plain, evil = (
        Page(text, text)
        .section(text, text)
        .note(text)
        .table([text, "a"], [[text, 1.0]], text, {text: "max"})
        .figure(figure, text, text)
        .html()
        for text in ("plain", EVIL)
    )
    assert EVIL not in evil
    shape = [(tag, sorted(attrs)) for tag, attrs in Outline(plain).tags]
    assert [(tag, sorted(attrs)) for tag, attrs in Outline(evil).tags] == shape


def test_code_between_backticks_is_escaped_too() -> None:
    assert "<code>a &lt;b&gt;</code>" in Page("t").section("s", "run `a <b>`").html()


def test_the_page_needs_nothing_from_elsewhere(page: Page) -> None:
    html = page.html()
    outline = Outline(html)
    targets = [attrs[key] or "" for _, attrs in outline.tags for key in ("src", "href") if key in attrs]
    assert targets
    assert all(target.startswith(("data:", "#")) for target in targets)
    assert not re.search(r"https?://|@import|url\(", html)
    assert not outline.every("link")
    assert any("default-src 'none'" in (attrs.get("content") or "") for attrs in outline.every("meta"))


def test_every_section_is_linked_from_the_navigation(page: Page) -> None:
    outline = Outline(page.html())
    assert [a["href"] for a in outline.every("a")] == [f"#{h2['id']}" for h2 in outline.every("h2")]
    assert len(outline.every("h2")) == 2


def test_readers_of_every_kind_find_their_way(page: Page) -> None:
    outline = Outline(page.html())
    assert outline.every("html")[0]["lang"] == "en"
    assert [tag for tag, _ in outline.tags if tag in ("h1", "h2")] == ["h1", "h2", "h2"]
    assert outline.every("img")[0]["alt"] == "MF recommends few tail items"
    assert len(outline.every("caption")) == len(outline.every("table")) == 1
    assert len(outline.every("button")) == 3
    ids = [attrs["id"] for _, attrs in outline.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_a_figure_is_a_vector_image_without_fonts(page: Page) -> None:
    source = Outline(page.html()).every("img")[0]["src"] or ""
    svg = base64.b64decode(source.removeprefix("data:image/svg+xml;base64,")).decode()
    assert "<svg" in svg
    assert "<text" not in svg


def test_a_page_with_a_large_scatter_stays_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3000, 40_000)
    scatter = figures.popularity(counts, rng.random(40_000), rng.random(40_000), tail_cut=100)
    assert Page("t").figure(scatter, "c", "a").write(tmp_path / "p.html").stat().st_size < 1_500_000


def test_numbers_are_written_to_the_digits_of_their_column() -> None:
    rows = [["a", 0.0712345, 1234567, 1e-7, None], ["b", np.float32(0.5), np.int64(3), 0.04, float("nan")]]
    html = Page("t").table(["name", "recall", "count", "p", "none"], rows, "c").html()
    assert [cell.text for cell in Cells(html).found] == [
        *("a", "0.0712", "1,234,567", "1e-07", DASH),
        *("b", "0.5000", "3", "0.0400", DASH),
    ]
    assert 'data-value="0.0712345"' in html  # sorting sees the whole number


FIGURES = [
    Shown("0.0652", 0.0652, note="±0.0006"),
    Shown("0.0711", 0.0711, note="±0.0013", sign=UP),
    Shown("-12.5%", -0.125),
    0.25,
    None,
]


def test_the_points_of_a_column_are_below_each_other() -> None:
    """What follows a point has boxes of the same widths in every cell, so the cells end at the same place."""
    html = Page("t").table(["system", "figure"], [[f"row {n}", cell] for n, cell in enumerate(FIGURES)], "c").html()
    cells = [cell for cell in Cells(html).found if "num" in cell.kind][: len(FIGURES)]
    assert [cell.text for cell in cells] == ["0.0652 ±0.0006", f"0.0711 ±0.0013 {UP}", "-12.5%", "0.2500", DASH]
    assert {tuple(cell.widths) for cell in cells[:4]} == {tuple(cells[0].widths)}
    assert len(cells[0].widths) == 3
    decimals, note, sign = cells[0].widths
    assert decimals >= 4.5
    assert note >= 7
    assert sign > 1


def test_a_column_of_one_shape_needs_no_boxes() -> None:
    html = Page("t").table(["system", "recall"], [["MF", 0.1], ["MF-AUR", 0.25], ["none", None]], "c").html()
    assert not any(cell.widths for cell in Cells(html).found)


def test_a_table_of_many_columns_is_set_closer() -> None:
    names = [f"column {n}" for n in range(14)]
    wide, narrow = (Page("t").table(names[:n], [[0.5] * n], "c").html() for n in (14, 4))
    assert [attrs.get("class") for attrs in Outline(wide).every("table")] == ["dense"]
    assert [attrs.get("class") for attrs in Outline(narrow).every("table")] == [None]


def test_the_best_of_a_column_is_bold() -> None:
    rows: list[list[object]] = [["MF", 0.1, 7], ["MF-AUR", 0.2, 60], ["tie", 0.2, 9], ["none", None, None]]
    html = Page("t").table(["system", "recall", "seconds"], rows, "c", {"recall": "max", "seconds": "min"}).html()
    assert re.findall(r"<strong>(.*?)</strong>", html) == ["7", "0.2000", "0.2000"]
    assert "<strong>" not in Page("t").table(["system", "recall"], rows, "c").html()


def test_an_empty_page_and_an_empty_table_are_whole() -> None:
    assert Page("t").html().endswith("</html>\n")
    assert "<caption>" in Page("t").table(["a"], [], "c", {"a": "max"}).html()


def test_writing_makes_the_folder_and_leaves_only_the_page(page: Page, tmp_path: Path) -> None:
    path = page.write(tmp_path / "a" / "b" / "report.html")
    assert path.read_text(encoding="utf-8") == page.html()
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_page(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Page("old").write(tmp_path / "report.html")
    old = path.read_text()

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        page.write(path)
    assert path.read_text() == old
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_page_is_the_same_bytes(figure: Figure) -> None:
    first, second = (Page("t").figure(figure, "c", "a").html() for _ in range(2))
    assert first == second


def test_a_section_links_to_its_headings() -> None:
    page = Page("Report").section("One").heading("first").heading("second").section("Two").heading("only")
    outline = Outline(page.html())
    assert [attrs["aria-label"] for attrs in outline.every("nav")] == ["Sections", "One"], "one heading needs no link"
    ids = {attrs.get("id") for _, attrs in outline.tags}
    links = [attrs["href"] for attrs in outline.every("a")]
    assert links == ["#section-1", "#section-2", "#heading-1", "#heading-2"]
    assert {str(link)[1:] for link in links} <= ids
    assert "<!--" not in page.html()
