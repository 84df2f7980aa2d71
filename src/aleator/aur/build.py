"""Datasets by name or path, and recommenders from settings: what the command line and the studies share."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from aleator.aur import AUR
from aleator.data.tail import Tail
from aleator.errors import AleatorError, require
from aleator.models import MODELS
from aleator.recommender import Recipe, Recommender
from aleator.uncertainty import ESTIMATORS


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
