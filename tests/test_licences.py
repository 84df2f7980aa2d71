"""The check of licences in `make lint`: it follows what is needed, reads what packages say, and refuses what it must."""

from __future__ import annotations

import importlib
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def licences(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("licences")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with packages, which Python knows of."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install(site: Path, name: str, *lines: str) -> PathDistribution:
    """A package that has these lines in its metadata."""
    folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", f"Name: {name}", "Version: 1.0", *lines, ""]))
    return PathDistribution(folder)


def project(site: Path, *needed: str, **extras: str) -> Path:
    """A pyproject.toml of a project that needs these packages."""
    file = site / "pyproject.toml"
    lines = [f'{name} = ["{needs}"]' for name, needs in extras.items()]
    about = [
        "[project]",
        'name = "aleator"',
        f"dependencies = {list(needed)}",
        "[project.optional-dependencies]",
        *lines,
    ]
    file.write_text("\n".join(about))
    return file


def test_the_dependencies_of_the_library_pass(licences: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert licences.main() == 0
    assert "packages go with Apache-2.0" in capsys.readouterr().out


@pytest.mark.parametrize("extra", [False, True], ids=["needed", "in an extra"])
def test_a_forbidden_licence_behind_a_dependency_fails_and_names_the_package(
    licences: Any, site: Path, capsys: pytest.CaptureFixture[str], extra: bool
) -> None:
    install(site, "fine", "License-Expression: MIT", "Requires-Dist: copyleft>=1")
    install(site, "copyleft", "License-Expression: AGPL-3.0-only")
    assert licences.main(project(site, web="fine") if extra else project(site, "fine")) == 1
    told = capsys.readouterr()
    assert "copyleft 1.0 has the licence 'AGPL-3.0-only'" in told.err
    assert "fine 1.0" not in told.err
    assert not told.out


def test_only_what_users_install_is_checked(licences: Any, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(site, "fine", "License: MIT", "Requires-Dist: copyleft; extra == 'more'")
    install(site, "copyleft", "License: GPL-3.0-only")
    alone = project(site, "fine", "copyleft; python_version < '3'", "no-such-package", dev="copyleft", web="aleator[x]")
    assert licences.main(alone) == 0
    assert "1 packages go with Apache-2.0; not installed, so not checked: no-such-package" in capsys.readouterr().out
    assert licences.main(project(site, "fine[more]")) == 1


@pytest.mark.parametrize(
    ("lines", "says", "passes"),
    [
        (["License-Expression: MIT OR GPL-3.0-only"], "MIT OR GPL-3.0-only", True),
        (["License-Expression: MIT AND GPL-3.0-only", "License: MIT"], "MIT AND GPL-3.0-only", False),
        (["License-Expression: Apache-2.0 WITH LLVM-exception"], "Apache-2.0 WITH LLVM-exception", True),
        (["License: Apache License, Version 2.0"], "Apache-2.0", True),
        (["License: MIT AND"], "MIT AND", False),
        (
            ["License: a text", "  of two lines", "Classifier: License :: OSI Approved :: BSD License"],
            "BSD-3-Clause",
            True,
        ),
        (
            ["Classifier: License :: OSI Approved :: MIT License", "Classifier: License :: Other"],
            "MIT AND Other",
            False,
        ),
        (["Classifier: Programming Language :: Python"], None, False),
    ],
)
def test_what_a_package_says(licences: Any, site: Path, lines: list[str], says: str | None, passes: bool) -> None:
    package = install(site, "some", *lines)
    assert licences.licence_of(package) == says
    assert (licences.problem(package) is None) == passes


def test_a_package_that_says_nothing_passes_once_it_was_reviewed(
    licences: Any, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = install(site, "silent-one")
    assert "silent-one 1.0 names no licence" in licences.problem(package)
    monkeypatch.setitem(licences.REVIEWED, "silent-*", "MIT, in its file LICENSE")
    assert licences.problem(package) is None
