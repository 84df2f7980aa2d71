"""What docstrings need before the site shows them as markdown (an extension of griffe, which reads them)."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Markdown(griffe.Extension):
    """Formulas and examples become code, and a method without a docstring takes that of the class it comes from."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        self._walk(pkg)

    def _walk(self, part: Any) -> None:
        for member in part.members.values():
            if member.is_alias:
                continue
            if member.docstring is None and part.is_class:
                member.docstring = next(filter(None, (_docstring(base, member.name) for base in part.mro())), None)
            elif member.docstring is not None:
                member.docstring.value = as_markdown(member.docstring.value)
            self._walk(member)


def _docstring(base: Any, name: str) -> Any:
    return base.members[name].docstring if name in base.members else None


def as_markdown(text: str) -> str:
    """A docstring with `<x_u, y_i>` as code, and its examples as blocks of code."""
    parts = []
    for part in re.split(r"\n\s*\n", text):
        if part.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{part}\n```")
        else:
            parts.append(re.sub(r"(?<!`)(<\w+, [^<>`]+>)", r"`\1`", part))
    return "\n\n".join(parts)
