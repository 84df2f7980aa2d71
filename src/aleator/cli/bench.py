"""aleator bench: the benchmarks by name."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import aleator
from aleator.cli.options import show_json
from aleator.errors import require, unknown_name

LIBRARIES = ("common", "published")  # what the others import
SETTINGS = {"allow_interspersed_args": False}  # whatever follows the name is the benchmark's


def bench(
    name: Annotated[str | None, typer.Argument(help="The benchmark; all are listed where none is given.")] = None,
    args: Annotated[list[str] | None, typer.Argument(help="Its arguments, such as --json FILE or --help.")] = None,
    json: Annotated[bool, typer.Option("--json", help="List them as JSON.")] = False,
) -> None:
    """List the benchmarks, or run one in a process of its own."""
    known = benchmarks(folder())
    if name is None:
        listed = {each: first_line(script) for each, script in known.items()}
        if json:
            show_json(listed)
        else:
            width = max(map(len, listed))
            print("\n".join(f"{each:<{width}}  {line}" for each, line in listed.items()))
        return
    if name not in known:
        raise unknown_name("benchmark", name, known)
    raise typer.Exit(subprocess.call([sys.executable, str(known[name]), *(args or [])]))


def folder() -> Path:
    """Where the benchmarks are: in the installed package, or beside `src` in a checkout."""
    package = Path(aleator.__file__).parent
    places = [package / "benchmarks", package.parents[1] / "benchmarks"]
    found = [place for place in places if (place / "common.py").is_file()]
    require(bool(found), "the benchmarks are not part of this installation", "install a wheel, or run in a checkout")
    return found[0]


def benchmarks(where: Path) -> dict[str, Path]:
    """The scripts by name."""
    return {script.stem: script for script in sorted(where.glob("*.py")) if script.stem not in LIBRARIES}


def first_line(script: Path) -> str:
    """What a script says of itself."""
    return (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").partition("\n")[0]
