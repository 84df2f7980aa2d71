"""The package as people meet it: its public names, and what is imported when. Fresh processes show the latter."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer.core
import typer.main

import aleator as al
from aleator import cli

FILE = Path(al.__file__)
LARGE = ("torch", "scipy", "numpy", "polars", "narwhals", "matplotlib", "fastapi")  # what takes long to import


def fresh(program: str) -> Any:
    """What a program prints as JSON in a process of its own, which can call `large()` for the large modules it has."""
    start = f"import json, sys\nlarge = lambda: sorted(sys.modules.keys() & {set(LARGE)})\n"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(FILE.parents[1])}
    done = subprocess.run([sys.executable, "-c", start + program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def homes() -> dict[str, str]:
    """The module that each public name is imported from where types are checked."""
    statements = [node for node in ast.walk(ast.parse(FILE.read_text())) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in statements if node.module and node.module.startswith("aleator.")]
    return {name.name: str(node.module) for node in ours for name in node.names}


@pytest.mark.parametrize("name", al.__all__)
def test_each_public_name_is_what_its_module_defines(name: str) -> None:
    assert getattr(al, name) is getattr(import_module(homes()[name]), name)


def test_a_name_comes_from_where_types_are_checked() -> None:
    lazy = {name: f"aleator.{home}" for home, names in vars(al)["_HOMES"].items() for name in names}
    assert {name: home for name, home in homes().items() if name in lazy} == lazy
    assert lazy.keys() | {"AleatorError", "__version__", "check_export", "export"} == set(al.__all__)


def test_the_names_are_listed_and_a_star_imports_them() -> None:
    told = fresh("import aleator as al\nlisted = dir(al)\nfrom aleator import *\nprint(json.dumps([listed, dir()]))")
    for found in told:
        assert set(al.__all__) <= set(found)


@pytest.mark.parametrize(("wrong", "meant"), [("AURR", "AUR"), ("load_modell", "load_model"), ("LightGNC", "LightGCN")])
def test_a_misspelt_name_is_refused_with_the_nearest(wrong: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'aleator' has no attribute '{wrong}'; did you mean '{meant}'"):
        getattr(al, wrong)
    assert not hasattr(al, "x")


@pytest.mark.parametrize(
    "first",
    [
        "import aleator",
        "import aleator.export",
        "from aleator.export import check_export",
        "import aleator.words",
        "import aleator as al; al.__version__, al.AleatorError, dir(al)",
    ],
)
def test_the_package_imports_nothing_large(first: str) -> None:
    """And `al.export` is the function, though a package has the same name."""
    told = fresh(f"{first}\nimport aleator\nprint(json.dumps([large(), type(aleator.export).__name__]))")
    assert told == [[], "function"]


def test_a_file_is_read_and_split_without_pytorch(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("user_id,item_id\n" + "".join(f"{user},{item}\n" for user in range(9) for item in range(user)))
    program = (
        f"import aleator as al\nprint(json.dumps([len(al.read({str(file)!r}).split(seed=0).everything), large()]))"
    )
    pairs, imported = fresh(program)
    assert pairs > 0
    assert "torch" not in imported


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each command, and of each group of commands."""
    yield words
    if isinstance(command, typer.core.TyperGroup):
        for name, inner in command.commands.items():
            yield from commands(inner, (*words, name))


def test_the_help_of_no_command_imports_anything_large() -> None:
    """Nor do the mistakes that the parser finds, the version and the list of benchmarks."""
    every = [[*words, "--help"] for words in commands(typer.main.get_command(cli.app))]
    assert ["fit", "--help"] in every
    assert ["data", "split", "--help"] in every
    told = fresh(f"""
import io
from contextlib import redirect_stderr, redirect_stdout, suppress
from aleator_command import main
found = {{}}
for words in {[*every, [], ["--version"], ["bench"], ["fit"], ["fit", "--warp"], ["evaluat"]]}:
    sys.argv = ["aleator", *words]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(out), suppress(SystemExit):
        main()
    found[" ".join(words)] = [bool(out.getvalue()), large()]
print(json.dumps(found))
""")
    assert len(told) == len(every) + 6
    assert {words: said for words, said in told.items() if said != [True, []]} == {}


def test_a_fit_does_not_import_the_compiler_of_pytorch() -> None:
    program = (
        "import aleator as al\n"
        "data = al.simulate(n_users=40, n_items=30, seed=0).interactions\n"
        "al.AUR(al.MF(dim=4), estimator=al.FactorEstimator(dim=4, max_epochs=1)).fit(data)\n"
        "print(json.dumps(sorted(name for name in sys.modules if name in ('torch._dynamo', 'torch._inductor'))))\n"
    )
    assert fresh(program) == []
