"""The rooms of the library: which may import which, what a model inherits, and what the core needs to run."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import aleator as al
from aleator.models import MODELS
from aleator.recommender import Recommender

SOURCE = Path(al.__file__).parent
FLOORS = [  # from low to high: a room may import itself and what stands on a lower line
    ["errors", "version", "words", "cgroups", "progress", "locks", "signals"],
    ["paths", "threads"],
    ["data"],
    ["recipe"],
    ["checkpoint"],
    ["ranks"],
    ["device", "options", "usual"],
    ["batches"],
    ["engines"],
    ["kernels"],
    ["training"],
    ["ranking"],
    ["evaluation"],
    ["recommender"],
    ["models", "uncertainty"],
    ["aur"],
    ["batch"],
    ["tuning"],
    ["studies", "export", "serving"],
    ["demo"],
    ["cli"],
]
MAY_IMPORT = {
    room: {room, *(lower for floor in FLOORS[:number] for lower in floor)}
    for number, rooms in enumerate(FLOORS)
    for room in rooms
}
WITHOUT_TORCH = [*FLOORS[0], *FLOORS[1], "data", "recipe"]
TREES = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


@dataclass(frozen=True)
class Import:
    """A module that a file imports."""

    place: str  # file:line
    room: str  # of the file
    module: str
    for_types: bool  # whether it stands under TYPE_CHECKING

    @property
    def imported_room(self) -> str:
        return self.module.split(".")[1]


def imports(file: str, tree: ast.Module) -> Iterator[Import]:
    """All imports of a file, those inside functions too."""
    room = file.removesuffix(".py").partition("/")[0]
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    guarded = {id(inside) for guard in guards for inside in ast.walk(guard)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}:{node.lineno} is a relative import"
            base = node.module or ""
            modules = [f"{base}.{name.name}" for name in node.names] if base == "aleator" else [base]
        else:
            continue
        for module in modules:
            yield Import(f"{file}:{node.lineno}", room, module, id(node) in guarded)


EVERY_IMPORT = [made for file, tree in TREES.items() for made in imports(file, tree)]


def test_the_map_names_every_room_once() -> None:
    rooms = {file.removesuffix(".py").partition("/")[0] for file in TREES} - {"__init__"}
    named = [room for floor in FLOORS for room in floor]
    assert sorted(named) == sorted(rooms)


def test_no_room_imports_a_higher_one() -> None:
    """Imports for types alone may point upwards. The package itself, `aleator`, may import all."""
    wrong = [
        f"{made.place} imports {made.module}"
        for made in EVERY_IMPORT
        if made.module.startswith("aleator.")
        and made.room != "__init__"
        and not made.for_types
        and made.imported_room not in MAY_IMPORT[made.room]
    ]
    assert wrong == []


def test_only_the_command_line_imports_the_whole_package() -> None:
    assert {made.room for made in EVERY_IMPORT if made.module == "aleator"} <= {"cli"}


def test_the_data_is_read_without_torch() -> None:
    wrong = [made.place for made in EVERY_IMPORT if made.room in WITHOUT_TORCH and made.module.startswith("torch")]
    assert wrong == []


@pytest.mark.parametrize("kind", [*MODELS.classes.values(), *MODELS.unnamed], ids=lambda kind: kind.__name__)
def test_a_model_inherits_through_two_classes_at_most(kind: type[al.Model]) -> None:
    between = [c.__name__ for c in kind.__mro__ if issubclass(c, Recommender) and c not in (kind, Recommender)]
    assert len(between) <= 2, between


# No method is replaced on an instance


@dataclass
class Names:
    """What the classes of some files have, by their names."""

    bases: dict[str, list[str]] = field(default_factory=dict)  # class -> its bases
    methods: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # class -> its methods
    data: set[str] = field(default_factory=set)  # attributes of any class that hold no method

    def methods_of(self, kind: str) -> set[str]:
        """With those of its bases."""
        return self.methods[kind].union(*(self.methods_of(base) for base in self.bases.get(kind, [])))


def targets(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement assigns to."""
    if isinstance(node, (ast.Assign, ast.Delete)):
        given = list(node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        given = [node.target]
    else:
        given = []
    while given:
        target = given.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            given += target.elts
        else:
            yield target


def on_self(target: ast.expr) -> str | None:
    """x of `self.x`."""
    named = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    return target.attr if named and isinstance(target, ast.Attribute) else None


def names_of(trees: list[ast.Module]) -> Names:
    names = Names()
    for kind in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        names.bases[kind.name] = [base.id for base in kind.bases if isinstance(base, ast.Name)]
        for node in kind.body:
            if isinstance(node, ast.FunctionDef):
                decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
                is_value = bool(decorators & {"property", "cached_property", "setter"})
                (names.data if is_value else names.methods[kind.name]).add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.data.add(node.target.id)
        for statement in ast.walk(kind):
            for target in targets(statement):
                name = on_self(target)
                value = statement.value if isinstance(statement, ast.Assign) else None
                handed_on = isinstance(value, ast.Attribute) and value.attr == name  # another object's method
                if name is not None and not handed_on and name not in names.methods[kind.name]:
                    names.data.add(name)
    return names


def replaced_methods(trees: dict[str, ast.Module]) -> list[str]:
    """Places where a method is assigned to an instance, or an instance's dictionary is written into."""
    names, found = names_of(list(trees.values())), []
    every_method = set().union(*names.methods.values()) - names.data

    def is_wrong(target: ast.expr, kind: str) -> bool:
        name = on_self(target)
        if name is not None:
            return name in names.methods_of(kind)
        if isinstance(target, ast.Attribute):
            return target.attr in every_method
        written = ast.unparse(target.value) if isinstance(target, ast.Subscript) else ""
        return written.endswith(".__dict__") or written.startswith("vars(")

    def is_wrong_call(node: ast.AST) -> bool:
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "object.__setattr__")):
            return False
        name = node.args[1]
        return isinstance(name, ast.Constant) and name.value in every_method

    for file, tree in trees.items():
        kinds = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        owner = {id(inside): kind.name for kind in kinds for inside in ast.walk(kind)}
        for node in ast.walk(tree):
            if is_wrong_call(node) or any(is_wrong(target, owner.get(id(node), "")) for target in targets(node)):
                assert isinstance(node, (ast.stmt, ast.expr))
                found.append(f"{file}:{node.lineno} {ast.unparse(node)}")
    return found


def test_no_method_is_replaced_on_an_instance() -> None:
    assert replaced_methods(TREES) == []


@pytest.mark.parametrize(
    "line",
    [
        "model.train = faster",
        "model.train, rest = faster, 1",
        "self.train = faster",
        "self.score = faster",
        "model.__dict__['train'] = faster",
        "vars(model)['train'] = faster",
        "setattr(model, 'train', faster)",
        "del model.train",
    ],
)
def test_a_replaced_method_is_found(line: str) -> None:
    """The check itself, on a file of two classes."""
    file = f"""
class Base:
    def score(self): ...

class Model(Base):
    size: int = 3

    def train(self): ...

    @property
    def name(self): ...

    def allowed(self, other):
        self.size = 4
        self.seen = other.seen
        other.name = "x"
        self.history = [other.train]

    def tested(self, model, faster):
        {line}
"""
    (found,) = replaced_methods({"file.py": ast.parse(file)})
    assert line.split()[0].split("(")[0] in found


# What the core needs

CORE = """
import sys
for name in ("polars", "narwhals", "typer", "rich", "matplotlib", "pandas", "pyarrow", "optuna", "implicit", "sklearn"):
    sys.modules[name] = None
import aleator as al
split = al.simulate(n_users=30, n_items=20, per_user=40, seed=0).interactions.split(valid=0.1, test=0.2, seed=0)
small = al.FactorEstimator(dim=4, max_epochs=2)
for model in (al.EASE(), al.MF(solver="adam", dim=4, max_epochs=2)):
    aur = al.AUR(model, estimator=small).fit(split)
    assert aur.score([0, 1]).shape == (2, 20)
    assert aur.uncertainty({"new": [1, 2]}).shape == (1, 20)
    assert al.evaluate(aur, split, k=5).mean("overall", "recall@5") >= 0
"""
TUNING = """
import sys
for name in ("matplotlib", "narwhals", "polars", "rich", "typer"):
    sys.modules[name] = None
import aleator as al
data = al.simulate(n_users=30, n_items=20, per_user=40, seed=0).interactions
small = {"model": {"solver": "adam", "max_epochs": 2, "dim": 4}, "estimator": {"dim": 4, "max_epochs": 2}}
assert len(al.tune(data, settings=small, trials=2).trials) == 2
"""
STUDIES = """
import sys
for name in ("polars", "narwhals", "typer", "rich", "matplotlib", "pandas", "pyarrow", "optuna", "implicit", "sklearn"):
    sys.modules[name] = None
from aleator.studies.reproduce import studies
assert len(studies("all")) > 20
"""


@pytest.mark.parametrize("program", [CORE, TUNING, STUDIES], ids=["core", "tuning", "studies"])
def test_fitting_and_tuning_need_neither_frames_nor_plots_nor_a_shell(program: str) -> None:
    """The core and the studies need numpy, scipy, torch and safetensors alone, and tuning needs Optuna besides."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
