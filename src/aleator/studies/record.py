"""One JSON line for each result that was really obtained, with what is needed to obtain it again."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch

from aleator.evaluation.report import Report
from aleator.version import __version__


def machine() -> dict[str, Any]:
    """What the figures were obtained on."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return {"cores": os.cpu_count(), "device": device, "system": platform.system(), "processor": platform.machine()}


def versions() -> dict[str, str]:
    """Of Python and the libraries that compute."""
    return {
        "aleator": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def command() -> str:
    """The command line of this process, as a person would type it."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    start = f"python -m {module.name}" if module is not None and module.name else Path(sys.argv[0]).name
    return " ".join([start, *map(shlex.quote, sys.argv[1:])])


def result(
    study: str, dataset: str, method: str, report: Report, *, seed: int, seconds: float, **rest: Any
) -> dict[str, Any]:
    """The record of one method."""
    means = report.to_dict()
    about, lists = means.pop("about"), means.pop("lists")
    return {
        "study": study,
        "dataset": dataset,
        "recipe": about["recipe"],
        "tail": about["tail_items"],
        "empty": about["empty"],
        "method": method,
        "seed": seed,
        "metrics": means,
        "lists": lists,
        "seconds": round(seconds, 2),
        "machine": machine(),
        "versions": versions(),
        "command": command(),
        **rest,
    }


def append(path: Path, record: dict[str, Any]) -> None:
    """One more line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lines:
        lines.write(json.dumps(record) + "\n")
