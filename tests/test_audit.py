"""The audit of known vulnerabilities: what it says of an answer, and that none is never taken for a clean one."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("audit")


def answer(*packages: dict[str, Any]) -> str:
    """As pip-audit writes it."""
    return json.dumps({"dependencies": packages, "fixes": []})


CLEAN = {"name": "numpy", "version": "2.4.6", "vulns": []}
KNOWN = {"name": "jinja2", "version": "3.1.2", "vulns": [{"id": "CVE-2024-22195", "fix_versions": ["3.1.3"]}]}
SKIPPED = {"name": "torch", "skip_reason": "Dependency not found on PyPI"}


def test_nothing_known(audit: Any) -> None:
    assert audit.verdict(answer(CLEAN), "") == (0, "1 packages were audited: no known vulnerabilities")


def test_a_known_vulnerability_is_named_with_the_version_that_mends_it(audit: Any) -> None:
    code, told = audit.verdict(answer(CLEAN, KNOWN), "")
    assert code == 1
    assert "2 packages were audited: 1 known" in told
    assert "jinja2 3.1.2: CVE-2024-22195, mended in 3.1.3" in told


def test_packages_that_were_not_audited_are_no_success(audit: Any) -> None:
    """pip-audit itself ends with 0 and "No known vulnerabilities found" where an index knows none of them."""
    code, told = audit.verdict(answer(CLEAN, SKIPPED), "")
    assert code == 2
    assert "1 packages were audited" in told
    assert "1 packages were not audited: torch" in told


def test_without_a_network_the_program_ends_in_one_sentence(
    audit: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pip_audit", reason="pip-audit comes with the extra checks")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # where nobody listens
    monkeypatch.setattr(audit, "packages", lambda: ["numpy==2.4.6"])
    assert audit.main() == 2
    told = capsys.readouterr()
    assert told.err.startswith(
        "error: nothing was audited: api.osv.dev, the database of vulnerabilities, cannot be reached"
    )
    assert len(told.err.splitlines()) == 1


@pytest.mark.parametrize("errors", ["", "Traceback\n  File\nNo module named pip_audit"])
def test_any_other_failure_is_told_with_its_last_line(audit: Any, errors: str) -> None:
    code, told = audit.verdict("", errors)
    assert code == 2
    assert f"({errors.splitlines()[-1] if errors else 'it wrote nothing'})" in told


def test_every_installed_package_is_asked_about_without_local_versions(audit: Any) -> None:
    names = [line.partition("==")[0] for line in audit.packages()]
    assert {"torch", "numpy", "pytest"} <= set(names)
    assert len(names) == len(set(names))
    assert not any("+" in line for line in audit.packages())
