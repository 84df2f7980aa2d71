"""Text as HTML: everything given is escaped, and `code` between backticks is set as code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape


def inline(text: str) -> str:
    """One piece of text.

    >>> inline("run `a <b>`")
    'run <code>a &lt;b&gt;</code>'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def paragraphs(text: str) -> str:
    """Paragraphs, which empty lines separate."""
    return "".join(f"<p>{inline(part)}</p>" for part in re.split(r"\n\s*\n", text.strip()) if part)


def links(label: str, kind: str, names: Mapping[int, str]) -> str:
    """A list of links to the sections or headings of these numbers; nothing where there are none."""
    items = "".join(f'<li><a href="#{kind}-{number}">{escape(name)}</a></li>' for number, name in names.items())
    return f'<nav aria-label="{escape(label)}"><ul>{items}</ul></nav>' if items else ""
