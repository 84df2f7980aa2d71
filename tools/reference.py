"""The reference pages of the site, written from the code each time that the site is built (a hook of mkdocs).

`docs/reference/api.md` and `docs/reference/cli.md` are introductions; what follows in the site comes from here.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

ROOMS = {  # the headings of the page by the room of the package that a name comes from
    "aur": "AUR",
    "models": "Models",
    "uncertainty": "Uncertainty estimators",
    "data": "Data",
    "batch": "Batch",
    "evaluation": "Evaluation",
    "tuning": "Tuning",
    "export": "Export",
    "training": "Watching a fit",
    "": "Errors and version",
}
FIRST = (
    *("fit", "update", "recommend", "explain", "similar_items", "rerank", "score", "expectation", "uncertainty"),
    *("set_lam", "at", "save", "load"),
)
OUTLINE = """::: {path}
    options:
      heading: {heading}
      toc_label: {heading}
      heading_level: {level}
      members: false
      show_signature: {signature}
      separate_signature: {signature}
"""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """What mkdocs calls for each page."""
    made = {"reference/api.md": api, "reference/cli.md": command_line}.get(page.file.src_uri)
    return f"{markdown}\n\n{made()}" if made else markdown


def api() -> str:
    """Every public name under the heading of its room, with its docstring and its options."""
    import aleator

    rooms: dict[str, list[str]] = {room: [] for room in ROOMS}
    for name in aleator.__all__:
        value = getattr(aleator, name)
        room = getattr(value, "__module__", "").removeprefix("aleator.").partition(".")[0]
        rooms[room if room in ROOMS else ""].append(_entry(name, value))
    return "\n\n".join(f"## {ROOMS[room]}\n\n" + "\n\n".join(parts) for room, parts in rooms.items() if parts)


def _entry(name: str, value: Any) -> str:
    """One name: its docstring, its options, its methods. Those of a model or an estimator stand under the base class."""
    import aleator

    bases = (aleator.Model, aleator.Estimator)
    base = next((b for b in bases if inspect.isclass(value) and issubclass(value, b) and value is not b), None)
    configurable = inspect.isclass(value) and dataclasses.is_dataclass(value) and hasattr(value, "paper")
    signature = str(not configurable).lower()
    path = f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else f"aleator.{name}"
    parts = [OUTLINE.format(path=path, heading=f"al.{name}", level=3, signature=signature)]
    if configurable:
        parts.append(options(value, base))
    if inspect.isclass(value) and base is None:
        parts += [
            OUTLINE.format(path=f"{path}.{method}", heading=method, level=4, signature="true")
            for method in methods(value)
        ]
    return "\n".join(parts)


def methods(kind: type) -> list[str]:
    """The public methods and properties of a class that have a docstring: `FIRST`, then in the order of the source."""
    found = dict.fromkeys(name for name in FIRST if hasattr(kind, name))
    for base in kind.__mro__:
        if base.__module__.split(".")[0] == "aleator":
            found |= dict.fromkeys(name for name in vars(base) if not name.startswith("_"))
    kinds = (property, functools.cached_property)
    return [
        name
        for name in found
        if (isinstance(value := inspect.getattr_static(kind, name), kinds) or callable(getattr(kind, name)))
        and inspect.getdoc(value)
        and not isinstance(value, type)
    ]


def options(kind: Any, base: Any = None) -> str:
    """The options of a class as a table, its own first, without those that it has unchanged from `base`."""
    ours = [each for each in reversed(kind.__mro__) if each.__module__.split(".")[0] == "aleator"]
    said = dict(pair for each in ours for pair in meanings(inspect.getsource(each)))
    hints, paper = typing.get_type_hints(kind), kind.paper
    same = {f.name: _default(f) for f in dataclasses.fields(base)} if base else {}
    rows = []
    for field in sorted(dataclasses.fields(kind), key=lambda f: _depth(kind, f.name)):
        if not field.init or (same.get(field.name) == _default(field) and field.name not in paper):
            continue
        other = f"`{paper[field.name]!r}`" if field.name in paper else ""
        rows.append([f"`{field.name}`", _type(hints[field.name]), _default(field), other, said.get(field.name, "")])
    if not rows:
        return f"`{kind.__name__}` has no options beyond those of every `{base.__name__}`.\n"
    columns = [n for n in range(5) if any(row[n] for row in rows)]
    names = [("option", "type", "default", "recipe paper", "meaning")[n] for n in columns]
    more = f", beyond those of every `{base.__name__}`" if base else ""
    lines = ["| " + " | ".join(row[n].replace("|", "\\|") for n in columns) + " |" for row in rows]
    head = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    return "\n".join([f"Options of `{kind.__name__}`{more}:", "", *head, *lines, ""])


def _depth(kind: type, name: str) -> int:
    """How far up the class is that last declares a field: its own are at 0."""
    return next(n for n, base in enumerate(kind.__mro__) if name in inspect.get_annotations(base))


def _type(hint: Any) -> str:
    """A type in words, such as "float or `'auto'`"."""
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(f"`{value!r}`" for value in typing.get_args(hint))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_type(each) for each in typing.get_args(hint))
    return "none" if hint is type(None) else str(getattr(hint, "__name__", hint))


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"`{field.default!r}`"
    if field.default_factory is not dataclasses.MISSING:
        return f"`{field.default_factory()!r}`"
    return "required"


def meanings(source: str) -> Iterator[tuple[str, str]]:
    """What the source of a class says of each field: a comment on its line, or a text below it."""
    source = textwrap.dedent(source)
    lines = source.splitlines()
    body = typing.cast(ast.ClassDef, ast.parse(source).body[0]).body
    for place, part in enumerate(body):
        if not isinstance(part, ast.AnnAssign) or not isinstance(part.target, ast.Name) or part.end_lineno is None:
            continue
        below = body[place + 1] if place + 1 < len(body) else None
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield part.target.id, " ".join(below.value.value.split())
            continue
        whole = lines[part.lineno - 1 : part.end_lineno]
        comments = [line.partition("  # ")[2] or line.partition(" # ")[2] for line in whole]
        yield part.target.id, next(filter(None, comments), "")


def command_line() -> str:
    """Every command with its arguments and options."""
    import typer

    from aleator.cli import app

    return "\n\n".join(_command(name, command) for name, command in commands(typer.main.get_command(app)))


def commands(group: Any, before: str = "aleator") -> Iterator[tuple[str, Any]]:
    """The commands of a group by their full name, such as "aleator data split"."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before} {name}")
        else:
            yield f"{before} {name}", command


def _command(name: str, command: Any) -> str:
    given = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([name, *(p.name.upper() if p.required else f"[{p.name.upper()}]" for p in given), "[OPTIONS]"])
    rows = [_parameter(p) for p in command.params]
    table = ["| | default | meaning |", "|---|---|---|", *rows] if rows else []
    return "\n".join([f"## {name}", "", inspect.cleandoc(command.help or ""), "", f"```text\n{usage}\n```", "", *table])


def _parameter(param: Any) -> str:
    names = [param.name.upper()] if param.param_type_name == "argument" else [*param.opts, *param.secondary_opts]
    default = "required" if param.required else _shown(param)
    words = (param.help or "") + (f" Environment variable: `{param.envvar}`." if param.envvar else "")
    cells = [" ".join(f"`{name}`" for name in names), default, words]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(param: Any) -> str:
    if isinstance(param.default, bool):
        names = param.opts if param.default else param.secondary_opts
        return f"`{names[0]}`" if param.secondary_opts else "off" if not param.default else "on"
    return "" if param.default is None or callable(param.default) else f"`{param.default}`"
