"""Page: one HTML file with text, tables and figures. It needs no other file and no network, and fits any screen."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from aleator.studies.report.grid import Best, Column, table
from aleator.studies.report.markup import inline, links, paragraphs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE, _SORTING = ((Path(__file__).parent / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
_POLICY = (  # the browser loads nothing from elsewhere
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"
)


class Page:
    """Build it from top to bottom, then write it. All input is text, never HTML, with `code` between backticks.

    >>> page = Page("Report", "MF-AUR on a small world").section("Accuracy", "Three protocols.")
    >>> page = page.table(["system", "Recall@20"], [["MF", 0.07123], ["MF-AUR", 0.0745]], "Overall")
    >>> "0.0712" in page.html(), "https://" in page.html()
    (True, False)
    """

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title, self.subtitle = title, subtitle
        self._sections: list[str] = []
        self._body: list[str] = []
        self._tables = 0
        self._headings: list[tuple[int, str]] = []  # the number of the section, and the heading

    def section(self, title: str, text: str = "") -> Page:
        """Begin a section. The navigation links to it, and it links to its headings. Empty lines separate paragraphs."""
        self._sections.append(title)
        number = len(self._sections)
        self._body.append(f'<h2 id="section-{number}">{escape(title)}</h2>\n{paragraphs(text)}{_place(number)}')
        return self

    def heading(self, title: str) -> Page:
        """A heading within a section."""
        self._headings.append((len(self._sections), title))
        self._body.append(f'<h3 id="heading-{len(self._headings)}">{escape(title)}</h3>')
        return self

    def note(self, text: str) -> Page:
        """A remark set apart, such as the recipe or the conventions behind the numbers."""
        self._body.append(f'<div class="note" role="note">{paragraphs(text)}</div>')
        return self

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        caption: str,
        highlight: Mapping[str, Best] | None = None,
    ) -> Page:
        """A table that sorts by any column. Its first column names the rows.

        The floats of a column share a number of decimals. Text stays as it is. None and NaN become a dash.
        `highlight` names the columns whose best value is bold, and says whether the best is the largest.
        """
        self._tables += 1
        best = highlight or {}
        made = [Column(name, [row[place] for row in rows], best.get(name)) for place, name in enumerate(columns)]
        self._body.append(table(made, len(rows), caption, f"table-{self._tables}"))
        return self

    def figure(self, figure: Figure, caption: str, alt: str) -> Page:
        """A figure as an SVG image within the file. Letters are outlines, so it looks the same without any font."""
        image = f"data:image/svg+xml;base64,{base64.b64encode(_svg(figure)).decode()}"
        self._body.append(
            f'<figure><img src="{image}" alt="{escape(alt)}"><figcaption>{inline(caption)}</figcaption></figure>'
        )
        return self

    def html(self) -> str:
        """The whole file as text."""
        nav = links("Sections", "section", dict(enumerate(self._sections, 1)))
        body = "\n".join(self._body)
        for number, title in enumerate(self._sections, 1):
            own = {place: name for place, (of, name) in enumerate(self._headings, 1) if of == number}
            body = body.replace(_place(number), links(title, "heading", own) if len(own) > 1 else "")
        subtitle = f'<p class="subtitle">{inline(self.subtitle)}</p>' if self.subtitle else ""
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{_POLICY}\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
            f"<header><h1>{escape(self.title)}</h1>{subtitle}{nav}</header>\n"
            f"<main>\n{body}\n</main>\n<script>\n{_SORTING}</script>\n</body>\n</html>\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the file at once: a reader sees the old page or the new one, never a part."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            part.write_bytes(self.html().encode("utf-8", "replace"))
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
        return path


def _place(section: int) -> str:
    """The place of a section's links until its headings are known. Escaped text cannot hold it."""
    return f"<!-- headings of {section} -->"


def _svg(figure: Figure) -> bytes:
    import matplotlib

    file = BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "aleator"}):
        figure.savefig(file, format="svg", dpi=200, facecolor="white", metadata={"Date": None})
    return file.getvalue()
