"""Ask a database of known vulnerabilities about every package that is installed here. `make audit` runs it.

    python tools/audit.py

It needs a network. It ends with 0 if nothing is known, with 1 if something is, and with 2 if the database could not be
asked about everything: an audit that did not take place never reads as one that found nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import distributions

DATABASE = "osv"  # of those that pip-audit knows, the one that answers about any package and version: https://osv.dev
UNREACHED = (
    "ConnectionError",
    "ConnectTimeout",
    "ReadTimeout",
    "ProxyError",
)  # as the last line of a traceback names them


def packages() -> list[str]:
    """What is installed, as requirements. A version loses its local part, such as +cpu, which no database knows."""
    found = {
        package.name: package.version.partition("+")[0] for package in reversed([*distributions()])
    }  # the first counts
    return sorted(f"{name}=={version}" for name, version in found.items() if name != "aleator")


def ask(requirements: list[str]) -> subprocess.CompletedProcess[str]:
    """Run pip-audit on exactly these packages."""
    options = ("--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off", "--desc", "off")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(requirements))
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "-s", DATABASE, *options, "-r", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def verdict(answer: str, errors: str) -> tuple[int, str]:
    """The exit code, and what to print, from what pip-audit wrote on stdout and stderr."""
    try:
        answered = json.loads(answer)["dependencies"]
    except ValueError:
        reason = (errors.strip().splitlines() or ["it wrote nothing"])[-1]
        if any(name in reason for name in UNREACHED):
            reason = "api.osv.dev, the database of vulnerabilities, cannot be reached; run it where there is a network"
        else:
            reason = f"pip-audit did not answer ({reason:.200}); run python -m pip_audit to see why"
        return 2, f"error: nothing was audited: {reason}."
    skipped = [package["name"] for package in answered if "skip_reason" in package]
    found = [
        f"{package['name']} {package['version']}: {known['id']}, mended in {', '.join(known['fix_versions']) or 'none'}"
        for package in answered
        for known in package.get("vulns", ())
    ]
    lines = [
        f"{len(answered) - len(skipped)} packages were audited: {len(found) or 'no'} known vulnerabilities",
        *found,
    ]
    if skipped:
        lines.append(f"error: {len(skipped)} packages were not audited: {', '.join(skipped)}; look at them by hand.")
    return 2 if skipped else int(bool(found)), "\n".join(lines)


def main() -> int:
    """Audit, print and return the exit code."""
    done = ask(packages())
    code, told = verdict(done.stdout, done.stderr)
    print(told, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())
