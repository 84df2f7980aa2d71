"""Datasets by name or path, and recommenders from settings: what the command line and the studies share."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from aleator.aur import AUR
from aleator.data import catalog
from aleator.data.formats import read
from aleator.data.interactions import Interactions
from aleator.data.splits import Split, given
from aleator.data.tail import Tail
from aleator.errors import AleatorError, require
from aleator.models import MODELS
from aleator.recommender import Recipe, Recommender
from aleator.uncertainty import ESTIMATORS


def open_dataset(name: str, root: Path | None, **reading: Any) -> Split | Interactions:
    """A catalogue dataset, a folder of parts, or a file."""
    path = Path(name)
    if name in catalog.names():
        require(
            not any(v is not None for v in reading.values()),
            f"'{name}' is a benchmark that is ready as it is",
            "clean files of your own instead",
        )
        return catalog.load(name, root)
    if path.is_dir():
        parts = {p.stem: p for p in sorted(path.iterdir()) if p.stem in ("train", "valid", "test")}
        require(
            {"train", "test"} <= parts.keys(),
            f"the folder '{name}' has no train and test files",
            "make them with `aleator data split`",
        )
        require(reading.get("k_core") is None, f"'{name}' is split already", "clean before splitting")
        loaded = {part: read(file, **reading) for part, file in parts.items()}
        return given(loaded["train"], loaded["test"], loaded.get("valid"), name=path.name)
    if path.exists():
        return read(path, **reading)
    known = ", ".join(catalog.names())
    raise AleatorError(f"'{name}' is neither a catalogue name nor a file", f"known names: {known}")


def open_file(name: str, **reading: Any) -> Interactions:
    """The interactions of a file, not split yet."""
    opened = open_dataset(name, None, **reading)
    if not isinstance(opened, Interactions):
        raise AleatorError(f"'{name}' is split already", "give a file of interactions")
    return opened


def open_split(name: str, root: Path | None, **reading: Any) -> Split:
    """A dataset with a test part."""
    opened = open_dataset(name, root, **reading)
    if not isinstance(opened, Split):
        raise AleatorError(f"'{name}' has no test part", "make one with `aleator data split`")
    return opened


def parse_settings(config: Path | None, settings: list[str] | None) -> dict[str, Any]:
    """A nested dict from a TOML file and `name=value` texts, the latter winning."""
    found: dict[str, Any] = {}
    if config is not None:
        try:
            found = tomllib.loads(config.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise AleatorError(f"'{config}' cannot be read ({error})", "give a TOML file") from None
    for setting in settings or []:
        name, equals, text = setting.partition("=")
        require(bool(equals and name), f"'{setting}' is not a setting", "write it as name=value")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        where = found
        *tables, last = name.split(".")
        for table in tables:
            where = where.setdefault(table, {})
            require(
                isinstance(where, dict), f"'{setting}' sets an option of something that is no table", "check its name"
            )
        where[last] = value
    return found


def build(
    model: str,
    settings: dict[str, Any],
    *,
    with_uncertainty: bool,
    recipe: Recipe,
    estimator: str | None = None,
    **common: Any,
) -> Recommender:
    """An AUR, or a bare model, with `common` options (seed, device, max_epochs) where nothing else was set."""
    options = {name: value for name, value in settings.items() if name not in ("model", "estimator")}
    for table in ("model", "estimator"):
        require(
            isinstance(settings.get(table, {}), dict), f"'{table}' is no table of options", f"write {table}.name=value"
        )
    given_common = {name: value for name, value in common.items() if value is not None}
    given_common |= {name: options.pop(name) for name in ("seed", "device", "valid", "refit") if name in options}
    kind = MODELS[model]
    expectation = kind(**settings.get("model", {})).with_defaults(**given_common)
    if not with_uncertainty:
        unused = [*options, *(f"estimator.{name}" for name in settings.get("estimator", {}))]
        unused += [] if estimator is None else ["estimator"]
        require(not unused, f"without uncertainty the option {unused[0] if unused else ''} has no effect", "drop it")
        return expectation.with_defaults(recipe=recipe)
    if isinstance(options.get("tail"), str):
        options["tail"] = Tail.parse(options["tail"])
    uncertain = ESTIMATORS[estimator or "factor"](**settings.get("estimator", {})).with_defaults(**given_common)
    own = {("joint_epochs" if name == "max_epochs" else name): value for name, value in given_common.items()}
    return AUR(expectation, estimator=uncertain, **{"recipe": recipe, **own, **options})
