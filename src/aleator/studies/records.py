"""Record: one JSON line for each result, with what is needed to obtain it again.

No other module writes, reads or interprets the lines.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict, get_args

import numpy as np
import scipy
import torch

from aleator.device import resolve_device
from aleator.errors import require, unreadable
from aleator.recipe import Recipe, recipe_of
from aleator.version import __version__
from aleator.words import Empty, RecipeName

Figures = dict[str, dict[str, float | None]]  # by protocol (or group) and metric; None where nobody has ground truth
Settings = dict[str, Any]  # options by name, such as {"model.dim": 64}
Lists = dict[str, float]  # what the lists of recommendations are like, such as their share of tail items
Chosen = dict[str, float]  # lam and numbers of epochs
Step = dict[str, float | None]  # one lam on the path of an AUR: its "lam", and metrics by name
# What a line must have, and its types; `settings` and `tuned` are dicts where they are there
_KINDS = {"study": str, "dataset": str, "recipe": str, "method": str, "seed": int, "metrics": dict}


class PairedTest(TypedDict):
    """A paired test over users of one metric: the mean of the method and of its baseline, and the p-value."""

    protocol: str
    metric: str
    mean: float | None
    baseline: float | None
    p: float | None
    change: NotRequired[float | None]
    low: NotRequired[float | None]
    high: NotRequired[float | None]
    users: NotRequired[int]


class Against(TypedDict):
    """What a method was tested against."""

    method: str
    tests: list[PairedTest]


class CaseItem(TypedDict):
    """One item of the study `case`."""

    item: Any
    title: str | None
    expectation: float
    uncertainty: float
    popularity: int
    feedback: int
    rank_by_expectation: int
    rank_by_uncertainty: int


class Scatter(TypedDict):
    """The points of one user in the study `correlation`."""

    user: Any
    r2: list[float]
    sigma2: list[float]
    unseen: int
    pearson: float


class Way(TypedDict):
    """What the studies `drift` and `popularity_shift` tell about one way of splitting."""

    chosen: Chosen
    drift: dict[str, float]
    tail: str


class Control(TypedDict):
    """The control of the study `default`: the scores of the bare model divided by popularity^a."""

    a: float
    metrics: Figures


class Machine(TypedDict):
    """What a result was obtained on."""

    cores: int | None
    device: str
    system: NotRequired[str]
    processor: NotRequired[str]
    threads: NotRequired[int]


class Conventions(TypedDict):
    """The data and the recipe of a result."""

    data: str  # fingerprints of the training and test pairs
    recipe: RecipeName
    tail: str
    empty: Empty


class Header(TypedDict):
    """Which cell of which study a record is about, and the conventions behind its figures."""

    study: str
    dataset: str
    data: NotRequired[str]  # some old records have none
    recipe: RecipeName
    tail: str
    empty: Empty
    part: NotRequired[str]
    method: str
    seed: int
    tuned: NotRequired[dict[str, Any]]  # the options that were found for the method on this dataset
    settings: NotRequired[Settings]  # options of the cell beyond the tuned ones
    quick: NotRequired[bool]


class Measured(TypedDict):
    """What `measure` of a study returns. Keys below the first line belong to some studies only."""

    metrics: Figures
    config: dict[str, Any]
    chosen: NotRequired[Chosen]
    chosen_on: NotRequired[str]
    lists: NotRequired[Lists]
    notes: NotRequired[list[str]]
    against: NotRequired[Against]

    against_control: NotRequired[Against]  # needs_model: the tests against the control of divided scores
    validation: NotRequired[dict[str, float]]  # variants: the figures of the chosen lam on held-out pairs
    bare: NotRequired[Figures]  # default: the metrics of the bare model
    control: NotRequired[Control]  # default
    setting: NotRequired[str]  # default: how the estimator was trained
    model: NotRequired[str]  # default: the class of the model
    library: NotRequired[str]  # grafts: the library that fitted the model, and its version
    alone: NotRequired[Figures]  # alpha: the metrics of the uncertainty alone
    path: NotRequired[list[Step]]  # front
    scatter: NotRequired[Scatter]  # correlation
    ways: NotRequired[dict[str, Way]]  # drift, popularity_shift
    user: NotRequired[Any]  # case: whose items they are
    items: NotRequired[int | list[CaseItem]]  # case: the items; theorem: how many items there are
    users: NotRequired[int]  # theorem
    on_observed: NotRequired[float]  # theorem: the share of a user's squared residuals on observed pairs
    epochs: NotRequired[int]  # time: how many epochs were timed
    solver: NotRequired[str]  # time
    sampled_items: NotRequired[int]  # time: items in a step of the estimator; 0 for all
    pairs: NotRequired[int]  # mislabelled
    liked: NotRequired[float]  # mislabelled: the share of liked pairs


class Origin(TypedDict):
    """How a result was obtained, and what that cost."""

    seconds: float  # of the fit, also where the fit was made for an earlier cell
    seconds_here: NotRequired[float]  # of measuring this cell
    peak_memory: NotRequired[int | None]  # bytes
    machine: Machine
    versions: dict[str, str]
    command: str


class Record(Header, Measured, Origin):
    """One cell of one study on one dataset, under one recipe and seed."""


def key(of: Header) -> str:
    """What tells a cell from any other cell of its file."""
    parts = (of.get("part"), of.get("recipe"), of.get("method"), of.get("seed"), of.get("quick"))
    return json.dumps([*(part or 0 for part in parts), of.get("settings") or {}], sort_keys=True)


def made_of(of: Header) -> str:
    """The cell, its data and its options. A cell with a record of all three is not measured again."""
    return json.dumps([key(of), of.get("data"), of.get("tuned")], sort_keys=True)


def recipe(rows: Sequence[Record]) -> Recipe:
    """The recipe of records that share one."""
    return recipe_of(rows[0]["recipe"])


def about(rows: Sequence[Record]) -> str:
    """The dataset and the recipe of records that share both: the first words of a caption."""
    return f"{rows[0]['dataset']}, recipe {recipe(rows).title}"


def machine(device: str = "auto") -> Machine:
    """What this process runs on."""
    used = resolve_device(device)
    name = torch.cuda.get_device_name(used) if used.type == "cuda" else "no GPU"
    return {"cores": os.cpu_count(), "device": name, "system": platform.system(), "processor": platform.machine()}


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that compute."""
    return {
        "aleator": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def command() -> str:
    """The command line of this process, as a person would type it. A place on this machine is told by its name alone."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    start = (
        f"python -m {module.name.removesuffix('.__main__')}"
        if module is not None and module.name
        else Path(sys.argv[0]).name
    )
    return " ".join([start, *(shlex.quote(without_folders(word)) for word in sys.argv[1:])])


def without_folders(word: str) -> str:
    """A word of a command, without the folders of an absolute path.

    >>> without_folders("/home/me/out.jsonl"), without_folders("data/ratings.csv")
    ('out.jsonl', 'data/ratings.csv')
    """
    return Path(word).name if Path(word).is_absolute() else word


def read(path: Path) -> list[Record]:
    """All records of a file, or none if there is no file. A line that was cut off while it was written is left out."""
    found: list[Record] = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    except (OSError, UnicodeError) as error:
        raise unreadable(path, "records", error) from None
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        require(_is_record(record), f"line {number} of '{path}' is no record", "delete that line")
        found.append(record)
    return found


def _is_record(line: Any) -> bool:
    """Whether a line tells the cell that it is about, and its metrics."""
    if not isinstance(line, dict):
        return False
    metrics = line.get("metrics") or {}
    return (
        all(isinstance(line.get(name), kind) for name, kind in _KINDS.items())
        and all(isinstance(line.get(name, {}), dict) for name in ("settings", "tuned"))
        and isinstance(line.get("part", ""), str)
        and line["recipe"] in get_args(RecipeName)
        and all(isinstance(own, dict) and all(map(_is_figure, own.values())) for own in metrics.values())
    )


def _is_figure(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def latest(rows: Iterable[Record]) -> list[Record]:
    """The last record of each cell, in the order in which the cells were first measured."""
    return list({key(row): row for row in rows}.values())


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Add one line. It is whole even after a line that was cut off, or while others write to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+", buffering=0) as file:  # one call of write keeps the line together
        if torn := file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            torn = file.read(1) != b"\n"
        file.write((b"\n" if torn else b"") + json.dumps(_plain(record), allow_nan=False, default=str).encode() + b"\n")


def _plain(value: Any) -> Any:
    """JSON has neither NaN nor infinity: both become null."""
    if isinstance(value, Mapping):
        return {name: _plain(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
