"""Page: one HTML file with text, tables and figures that needs nothing else, on any screen, offline."""

from __future__ import annotations

import base64
import math
import os
import re
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | float | bool | None


class Page:
    """Built from top to bottom, then written; what is given is text, never HTML, with `code` between backticks.

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
        """Begin a section, which the navigation links to; it links to its headings. An empty line begins a paragraph."""
        self._sections.append(title)
        number = len(self._sections)
        self._body.append(f'<h2 id="section-{number}">{escape(title)}</h2>\n{_paragraphs(text)}{_place(number)}')
        return self

    def heading(self, title: str) -> Page:
        """A heading within a section."""
        self._headings.append((len(self._sections), title))
        self._body.append(f'<h3 id="heading-{len(self._headings)}">{escape(title)}</h3>')
        return self

    def note(self, text: str) -> Page:
        """A remark set apart, such as the recipe or the conventions behind the numbers."""
        self._body.append(f'<div class="note" role="note">{_paragraphs(text)}</div>')
        return self

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        caption: str,
        highlight: Mapping[str, Literal["max", "min"]] | None = None,
    ) -> Page:
        """A table that sorts by any column; its first column names the rows.

        A number is written to the digits of its column, text as it is, None and NaN as a dash.
        `highlight` says in which columns the best value is bold, and what best is.
        """
        self._tables += 1
        by_column = [[row[c] for row in rows] for c in range(len(columns))]
        texts = [_texts(cells) for cells in by_column]
        best = [_best(cells, (highlight or {}).get(name)) for name, cells in zip(columns, by_column, strict=True)]
        numeric = ["num" if any(_is_number(getattr(c, "value", c)) for c in cells) else "" for cells in by_column]
        head = "".join(
            f'<th scope="col" class="{kind}"><button type="button">{escape(name)}</button></th>'
            for name, kind in zip(columns, numeric, strict=True)
        )
        lines = []
        for i, row in enumerate(rows):
            cells = []
            for c in range(len(columns)):
                value, text = row[c], escape(texts[c][i])
                tag = 'th scope="row"' if c == 0 else "td"
                number: Any = getattr(value, "value", value)  # of a text that says what it is sorted by
                key = f' data-value="{float(number)!r}"' if _is_number(number) else ""
                shown = f"<strong>{text}</strong>" if _is_number(value) and value == best[c] else text
                cells.append(f'<{tag} class="{numeric[c]}"{key}>{shown}</{tag[:2]}>')
            lines.append(f"<tr>{''.join(cells)}</tr>")
        name = f"table-{self._tables}"
        self._body.append(
            f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}"><table>'
            f'<caption><span id="{name}">{_inline(caption)}</span></caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody></table></div>"
        )
        return self

    def figure(self, figure: Figure, caption: str, alt: str) -> Page:
        """A figure as an SVG image within the file: letters as outlines, so it looks the same without any font."""
        image = f"data:image/svg+xml;base64,{base64.b64encode(_svg(figure)).decode()}"
        self._body.append(
            f'<figure><img src="{image}" alt="{escape(alt)}"><figcaption>{_inline(caption)}</figcaption></figure>'
        )
        return self

    def html(self) -> str:
        """The whole file as text."""
        nav = _links("Sections", "section", dict(enumerate(self._sections, 1)))
        body = "\n".join(self._body)
        for number, title in enumerate(self._sections, 1):
            own = {place: name for place, (of, name) in enumerate(self._headings, 1) if of == number}
            body = body.replace(_place(number), _links(title, "heading", own) if len(own) > 1 else "")
        subtitle = f'<p class="subtitle">{_inline(self.subtitle)}</p>' if self.subtitle else ""
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{_POLICY}\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
            f"<header><h1>{escape(self.title)}</h1>{subtitle}{nav}</header>\n"
            f"<main>\n{body}\n</main>\n<script>{_SORT}</script>\n</body>\n</html>\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the file at once: a reader sees the old page or the new one, never a half."""
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
    """Where the links of a section go once its headings are known; escaped text cannot hold it."""
    return f"<!-- headings of {section} -->"


def _links(label: str, kind: str, names: Mapping[int, str]) -> str:
    items = "".join(f'<li><a href="#{kind}-{number}">{escape(name)}</a></li>' for number, name in names.items())
    return f'<nav aria-label="{escape(label)}"><ul>{items}</ul></nav>' if items else ""


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_inline(part)}</p>" for part in re.split(r"\n\s*\n", text.strip()) if part)


def _svg(figure: Figure) -> bytes:
    import matplotlib

    file = BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "aleator"}):
        figure.savefig(file, format="svg", dpi=200, facecolor="white", metadata={"Date": None})
    return file.getvalue()


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _best(cells: Sequence[Cell], rule: Literal["max", "min"] | None) -> Cell:
    numbers: list[Any] = [cell for cell in cells if rule and _is_number(cell)]
    return (max if rule == "max" else min)(numbers, default=None)


def _texts(cells: Sequence[Cell]) -> list[str]:
    """One column as text: its floats share a number of decimals, four where they are Recalls."""
    largest = max((abs(cell) for cell in cells if _is_number(cell)), default=0.0)  # type: ignore[arg-type]
    decimals = next(d for bound, d in ((1.05, 4), (10, 3), (1000, 2), (math.inf, 1)) if largest <= bound)

    def text(cell: Cell) -> str:
        if cell is None or (isinstance(cell, Real) and not math.isfinite(cell)):
            return "\N{EN DASH}"
        if isinstance(cell, bool):
            return "yes" if cell else "no"
        if isinstance(cell, Integral):
            return f"{int(cell):,}"
        if not isinstance(cell, Real):
            return str(cell)
        vanishes = cell and abs(cell) < 0.5 * 10**-decimals  # a p-value of 1e-7 is not 0
        return f"{float(cell):.0e}" if vanishes else f"{float(cell):,.{decimals}f}"

    return [text(cell) for cell in cells]


# The browser itself is told to load nothing from elsewhere.
_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"
)
_CSS = """
:root { color-scheme: light dark; --back: #fbfbf9; --card: #fff; --ink: #222; --soft: #5c5c5c; --line: #d9d9d4;
  --link: #005a8f; --note: #f3ead3; }
@media (prefers-color-scheme: dark) { :root { --back: #16181b; --card: #1f2226; --ink: #e6e6e3; --soft: #a9adb2;
  --line: #3a3f45; --link: #7cc4f5; --note: #37301d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 82rem; padding: 1.5rem 1rem 4rem; background: var(--back); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: break-word; }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; }
h2 { margin: 2.5rem 0 .5rem; font-size: 1.35rem; line-height: 1.3; scroll-margin-top: 1rem; }
h3 { margin: 2rem 0 .4rem; font-size: 1.1rem; scroll-margin-top: 1rem; }
p { margin: .6rem 0; max-width: 44rem; }
.subtitle { color: var(--soft); font-size: 1.05rem; }
a { color: var(--link); }
nav { margin-top: 1rem; border-block: 1px solid var(--line); }
nav ul { display: flex; flex-wrap: wrap; gap: 0 1.4rem; margin: 0; padding: 0; list-style: none; }
nav a { display: block; padding: .5rem 0; }
main nav { font-size: .95rem; }
code { font: .92em ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.note { margin: 1rem 0; max-width: 52rem; padding: .3rem 1rem; border-left: 4px solid #e69f00; border-radius: 4px;
  background: var(--note); }
.note p { max-width: none; }
.scroll { margin: 1rem 0; width: fit-content; max-width: 100%; overflow-x: auto; border: 1px solid var(--line);
  border-radius: 6px; background: var(--card); }
table { min-width: min(52rem, calc(100vw - 2.2rem)); border-collapse: collapse; font-size: .95rem;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; }
caption span { position: sticky; left: 0; display: inline-block; max-width: min(52rem, calc(100vw - 2.2rem));
  padding: .6rem .75rem; color: var(--soft); }
th, td { padding: .4rem .75rem; border-top: 1px solid var(--line); text-align: left; white-space: nowrap; }
th:first-child { position: sticky; left: 0; background: var(--card); }
thead th { white-space: normal; vertical-align: bottom; }
tbody th { font-weight: normal; }
.num { text-align: right; }
th button { padding: 0; border: 0; background: none; color: inherit; font: inherit; font-weight: 600;
  text-align: inherit; cursor: pointer; }
th button:hover { text-decoration: underline; }
th button::after { content: "\\2195"; margin-left: .3em; color: var(--soft); font-weight: normal; }
th[aria-sort=ascending] button::after { content: "\\2191"; color: inherit; }
th[aria-sort=descending] button::after { content: "\\2193"; color: inherit; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
figure { margin: 1rem 0; max-width: 52rem; padding: .75rem; border: 1px solid var(--line); border-radius: 6px;
  background: #fff; }
figure img { display: block; width: 100%; max-width: 40rem; height: auto; margin: 0 auto; }
figcaption { max-width: 40rem; margin: .6rem auto 0; color: #444; font-size: .95rem; }
@media (max-width: 40rem) { figure { padding: .4rem; } th, td { padding-inline: .55rem; }
  .scroll { background: linear-gradient(to left, var(--card), transparent) right / 2rem 100% no-repeat local,
    linear-gradient(to left, #8886, transparent) right / .9rem 100% no-repeat scroll, var(--card); } }
@media print { nav { display: none; } figure, .scroll { break-inside: avoid; } th button::after { content: none; } }
"""
_SORT = """
document.querySelectorAll("th button").forEach((button) => button.addEventListener("click", () => {
  const head = button.parentElement, body = head.closest("table").tBodies[0], at = head.cellIndex;
  const was = head.getAttribute("aria-sort"), numeric = head.classList.contains("num");
  const sign = (was ? was === "descending" : !numeric) ? 1 : -1;
  const key = (row) => parseFloat(row.cells[at].dataset.value);
  const order = (a, b) => {
    const x = key(a), y = key(b);
    if (isNaN(x) || isNaN(y)) return isNaN(x) && isNaN(y)
      ? sign * a.cells[at].textContent.localeCompare(b.cells[at].textContent, undefined, { numeric: true })
      : isNaN(x) - isNaN(y);
    return sign * (x - y);
  };
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  body.append(...[...body.rows].sort(order));
}));
"""
