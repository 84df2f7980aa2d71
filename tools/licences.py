"""Check that the licence of everything that the library needs at run time goes with Apache-2.0: part of `make lint`.

    python tools/licences.py

It goes from the dependencies and extras of pyproject.toml to what those need, as far as it is installed here, and reads
what each package says of itself. It needs no network. Tools of developers (the extras dev, docs, checks and fuzz) are not
checked, since nobody who installs the library gets them.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatch
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from license_expression import ExpressionError, Licensing
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
OF_DEVELOPERS = ("dev", "docs", "checks", "fuzz")
ALLOWED = {  # SPDX names: permissive ones, and MPL-2.0, which binds only who changes the package's own files
    *("0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0"),
    *("HPND", "ISC", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
}
SPOKEN = {  # how packages say it that do not use SPDX names, in lower case
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit licence": "MIT",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}


REVIEWED = {  # what a person looked at, since what it says of itself does not do; by name, where * stands for anything
    "cuda-toolkit": "a package without files that leads from PyTorch for Linux to NVIDIA's libraries",
    "huey": "MIT, in its file LICENSE",
    "nvidia-*": "PyTorch for Linux loads them on a GPU; we neither ask for them nor contain them",
    "skops": "MIT, in its file LICENSE",
}


def dependencies(project: Path) -> list[Requirement]:
    """What the library needs, with all extras that its users install."""
    about = tomllib.loads(project.read_text())["project"]
    extras = [needs for name, needs in about["optional-dependencies"].items() if name not in OF_DEVELOPERS]
    every = [Requirement(line) for lines in [about["dependencies"], *extras] for line in lines]
    return [needed for needed in every if needed.name != about["name"]]


def installed(needed: Iterable[Requirement]) -> tuple[dict[str, Distribution], set[str]]:
    """All packages that these requirements lead to, by name, and the names of those that are not installed here."""
    found: dict[str, Distribution] = {}
    missing: set[str] = set()
    ahead, seen = [one for one in needed if one.marker is None or one.marker.evaluate()], set()
    while ahead:
        one = ahead.pop()
        name, extras = canonicalize_name(one.name), ("", *sorted(one.extras))
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            missing.add(name)
            continue
        ahead += [
            further
            for further in map(Requirement, found[name].requires or ())
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return dict(sorted(found.items())), missing


def licence_of(package: Distribution) -> str | None:
    """What a package says of itself, in SPDX names where they are known: its expression, its field or its classifiers."""
    about = package.metadata
    fields: list[str] = [*about.get_all("License-Expression", []), *about.get_all("License", [])]
    for field in fields:
        if field.strip() and "\n" not in field.strip():  # some fields hold the whole text
            return SPOKEN.get(field.strip().lower(), field.strip())
    classifiers = [line for line in about.get_all("Classifier", []) if line.startswith("License ::")]
    names = [line.rpartition(" :: ")[2] for line in classifiers]
    return " AND ".join(SPOKEN.get(name.lower(), name) for name in names) or None


def goes_with_apache(licence: str) -> bool:
    """Whether an SPDX expression can be met by allowed licences alone.

    >>> goes_with_apache("MPL-2.0 AND (GPL-3.0-only OR MIT)"), goes_with_apache("MIT AND GPL-3.0-only")
    (True, False)
    """
    words = Licensing()
    try:
        parsed = words.parse(licence)
    except ExpressionError:
        return False
    known = {symbol: words.TRUE if symbol.render() in ALLOWED else words.FALSE for symbol in parsed.symbols}
    return bool(parsed.subs(known, simplify=True) == words.TRUE)


def problem(package: Distribution) -> str | None:
    """What is wrong with the licence of a package, in a sentence, or None."""
    licence, told = licence_of(package), f"{package.name} {package.version}"
    if any(fnmatch(canonicalize_name(package.name), pattern) for pattern in REVIEWED):
        return None
    if licence is None:
        return (
            f"{told} names no licence; look for it, and add the package to REVIEWED in tools/licences.py with a reason."
        )
    if goes_with_apache(licence):
        return None
    return (
        f"{told} has the licence '{licence}', which is not known to go with Apache-2.0; take another package, or add "
        "the licence to ALLOWED or the package to REVIEWED in tools/licences.py, with a reason."
    )


def main(project: Path = PROJECT) -> int:
    """Print what is wrong, or how much was looked at. Returns the exit code."""
    found, missing = installed(dependencies(project))
    problems = [wrong for package in found.values() if (wrong := problem(package))]
    for wrong in problems:
        print(f"error: {wrong}", file=sys.stderr)
    if not problems:
        absent = f"; not installed, so not checked: {', '.join(sorted(missing))}" if missing else ""
        print(f"the licences of {len(found)} packages go with Apache-2.0{absent}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
