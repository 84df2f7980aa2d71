"""The lowest and the newest versions that the library works with. `make sweep` runs all, `nox --list` names the sessions.

A session makes its own environment, takes one dependency at the floor of pyproject.toml (or as new as there is), and runs
the tests that touch it. torch is the pinned one, except where torch itself is swept: those sessions fetch gigabytes of
CUDA libraries on Linux. A Python that is not installed is skipped, and nox says so.
"""

from __future__ import annotations

import nox
from packaging.requirements import Requirement

nox.options.default_venv_backend = "uv|venv"
nox.options.error_on_missing_interpreters = False

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
ABOUT = nox.project.load_toml("pyproject.toml")["project"]
EXTRAS = ABOUT["optional-dependencies"]
FLOORS = {
    needed.name: next(iter(needed.specifier)).version
    for needed in map(Requirement, [*ABOUT["dependencies"], *EXTRAS["frames"], *EXTRAS["ray"], *EXTRAS["tune"]])
}
FRAMES = [
    "tests/data/test_formats.py",
    "tests/data/test_frames.py",
    "tests/data/test_reading.py",
    "tests/data/test_attributes.py",
    "tests/batch",
    "tests/cli/test_messy_file.py",
]
NUMBERS = [
    "tests/kernels",
    "tests/ranking",
    "tests/uncertainty/test_step.py",
    "tests/uncertainty/test_spectral.py",
    "tests/aur/test_aur.py",
    "tests/contracts/test_estimators.py",
]
FOLDERS = ["tests/checkpoint", "tests/golden"]
TESTS = {  # of each dependency: what touches it
    "numpy": [*NUMBERS, *FOLDERS, "tests/data/test_formats.py"],
    "scipy": [*NUMBERS, "tests/data/test_interactions.py", "tests/models/test_item_item.py"],
    "torch": [*NUMBERS, *FOLDERS, "tests/training", "tests/contracts/test_models.py"],
    "safetensors": [*FOLDERS, "tests/models/test_cache.py"],
    "polars": FRAMES,
    "narwhals": FRAMES,
    "pandas": FRAMES,
    "pyarrow": FRAMES,
    "typer": ["tests/cli/test_verbs.py", "tests/cli/test_bench.py", "tests/cli/test_export.py"],
    "rich": ["tests/cli/test_verbs.py", "tests/test_progress.py"],
    "matplotlib": ["tests/studies/report", "tests/test_demo.py"],
    "optuna": ["tests/tuning"],
    "ray": ["tests/engines"],
    "scikit-learn": ["tests/tuning"],
}
SMALL = [  # something of everything
    "tests/golden",
    "tests/kernels",
    "tests/ranking/test_top.py",
    "tests/uncertainty/test_step.py",
    "tests/data/test_frames.py",
    "tests/data/test_reading.py",
    "tests/batch/test_listed.py",
    "tests/cli/test_export.py",
]


def check(session: nox.Session, *needed: str, tests: list[str]) -> None:
    """Install the library with these requirements, and run the tests."""
    constraints = () if any(one.startswith("torch") for one in needed) else ("-c", "constraints.txt")
    session.install(*constraints, *needed, "-e", ".[frames,tune]", "pip", "pytest", "hypothesis")
    session.run("pytest", "-p", "no:cacheprovider", *(session.posargs or tests), env={"OMP_NUM_THREADS": "1"})


@nox.session(python=PYTHONS)
def newest(session: nox.Session) -> None:
    """The newest of everything, except for torch."""
    check(session, tests=SMALL)


@nox.session(python=PYTHONS[0])
@nox.parametrize("name", [nox.param(name, id=f"{name}-{FLOORS[name]}") for name in TESTS])
def lowest(session: nox.Session, name: str) -> None:
    """One dependency at its floor. The others are as new as it allows."""
    check(session, f"{name}=={FLOORS[name]}", tests=TESTS[name])


@nox.session(python=PYTHONS[0])
def newest_torch(session: nox.Session) -> None:
    """The newest torch."""
    check(session, "torch", tests=SMALL)
