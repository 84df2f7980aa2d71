"""aleator doctor: what is installed and what this machine can do."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

import torch

from aleator.cli.options import DATA_ROOT, JSON, show_json
from aleator.data import catalog

PACKAGES = (
    "aleator",
    "numpy",
    "scipy",
    "torch",
    "safetensors",
    "implicit",
    "polars",
    "narwhals",
    "typer",
    "rich",
    "matplotlib",
    "optuna",
    "pandas",
    "pyarrow",
    "faiss-cpu",
    "usearch",
    "lancedb",
    "qdrant-client",
)


def doctor(data_root: DATA_ROOT = None, json: JSON = False) -> None:
    """Show the installed versions, the device and the datasets at hand, with advice on what is missing."""
    about = examine(data_root)
    if json:
        show_json(about)
        return
    print(f"python {about['python']} on {about['platform']}, {about['cores']} cores, device {about['device']}")
    for name, version in about["packages"].items():
        print(f"  {name:<13} {version or 'not installed'}")
    print("datasets at hand: " + (", ".join(about["datasets"]) or "none; give --data-root or set ALEATOR_DATA"))
    for advice in about["advice"]:
        print(f"advice: {advice}")


def examine(data_root: Any = None) -> dict[str, Any]:
    """What `doctor --json` prints: python, platform, cores, device, packages, datasets and advice."""
    packages = {name: _version_of(name) for name in PACKAGES}
    advice = []
    if packages["implicit"] is None:
        advice.append("only `aleator reproduce strong` and some benchmarks need implicit: pip install implicit")
    cuda = torch.cuda.is_available()
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "packages": packages,
        "datasets": catalog.at_hand(data_root),
        "advice": advice,
    }


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
