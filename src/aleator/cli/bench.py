"""aleator bench: list the benchmarks, or run one."""

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

LIBRARIES = ("common", "published")  # modules that the benchmarks import
SETTINGS = {"allow_interspersed_args": False}  # all that follows the name belongs to the benchmark


def bench(
    name: Annotated[str | None, typer.Argument(help="The benchmark to run. Without a name, all are listed.")] = None,
    args: Annotated[
        list[str] | None, typer.Argument(help="Arguments of the benchmark, such as --json FILE or --help.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="List the benchmarks as JSON.")] = False,
) -> None:
    """List the benchmarks, or run one in its own process."""
    known = benchmarks(folder())
    if name is None:
        _list(known, json)
        return
    if name not in known:
        raise unknown_name("benchmark", name, known)
    raise typer.Exit(subprocess.call([sys.executable, str(known[name]), *(args or [])]))


def _list(known: dict[str, Path], json: bool) -> None:
    listed = {name: first_line(script) for name, script in known.items()}
    if json:
        show_json(listed)
        return
    width = max(map(len, listed))
    for name, line in listed.items():
        print(f"{name:<{width}}  {line}")


def package_folder() -> Path:
    """The folder of the package `aleator`."""
    return Path(aleator.__file__).parent


def folder() -> Path:
    """The folder of the benchmarks: in the installed package, or beside `src` in a checkout."""
    package = package_folder()
    places = [package / "benchmarks", package.parents[1] / "benchmarks"]
    found = [place for place in places if (place / "common.py").is_file()]
    require(bool(found), "the benchmarks are not part of this installation", "install a wheel or run in a checkout")
    return found[0]


def benchmarks(where: Path) -> dict[str, Path]:
    """The scripts of the benchmarks by name."""
    return {script.stem: script for script in sorted(where.glob("*.py")) if script.stem not in LIBRARIES}


def first_line(script: Path) -> str:
    """The first line of the docstring of a script. The script is not run."""
    docstring = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]
