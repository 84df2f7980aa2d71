"""aleator doctor: what is installed and what this machine can do."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterable, Mapping
from typing import Any

from aleator import cgroups, threads
from aleator.cli.options import DATA_ROOT, JSON, show_json

PACKAGES = (
    "aleator",
    "numpy",
    "scipy",
    "torch",
    "safetensors",
    "polars",
    "narwhals",
    "typer",
    "rich",
    "matplotlib",
    "packaging",
    "implicit",
    "optuna",
    "pandas",
    "pyarrow",
    "faiss-cpu",
    "usearch",
    "lancedb",
    "qdrant-client",
    "ray",
)


def doctor(data_root: DATA_ROOT = None, json: JSON = False) -> None:
    """Show the installed versions, the device, the threads, the free memory and the datasets at hand.

    Advice says which packages are missing or too old.
    """
    about = examine(data_root)
    if json:
        show_json(about)
        return
    print(f"python {about['python']} on {about['platform']}, {about['cores']} cores, device {about['device']}")
    print(f"threads: {about['threads']}, from {about['threads_from']}")
    limit = about["memory_limit"]
    within = "no limit of a container" if limit is None else f"the limit of the container is {_gib(limit)}"
    print(f"memory: {_gib(about['free_memory'])} are free; {within}")
    for name, version in about["packages"].items():
        print(f"  {name:<13} {version or 'not installed'}")
    print("datasets at hand: " + (", ".join(about["datasets"]) or "none; give --data-root or set ALEATOR_DATA"))
    for advice in about["advice"]:
        print(f"advice: {advice}")


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def examine(data_root: Any = None) -> dict[str, Any]:
    """What `doctor --json` prints: python, platform, cores, device, threads, memory, packages, datasets and advice."""
    import torch

    from aleator.data import catalog
    from aleator.device import free_memory, machine_memory

    within = cgroups.memory()
    packages = {name: _version_of(name) for name in PACKAGES}
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
        "threads_from": threads.reason(),
        "free_memory": free_memory(torch.device("cpu")),
        "memory_limit": within.limit if within and within.limit < machine_memory() else None,
        "packages": packages,
        "datasets": catalog.at_hand(data_root),
        "advice": advice_on(packages, importlib.metadata.requires("aleator") or () if packages["aleator"] else ()),
    }


def advice_on(packages: Mapping[str, str | None], requirements: Iterable[str]) -> list[str]:
    """What to install, since it is missing or older than what these requirements ask for. Extras may be missing."""
    from packaging.requirements import Requirement

    advice = {}
    for needed in map(Requirement, requirements):
        if needed.name not in packages:
            continue
        version, lowest = packages[needed.name], f"{needed.name}{needed.specifier}"
        if version is None and needed.marker is None:
            advice[lowest] = f"{needed.name} is not installed"
        elif version is not None and not needed.specifier.contains(version, prereleases=True):
            advice[lowest] = f"{needed.name} {version} is not among the versions that work"
    return [f"{problem}: pip install '{lowest}'" for lowest, problem in advice.items()]


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
