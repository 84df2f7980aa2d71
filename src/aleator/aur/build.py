"""Recommenders from settings, such as those of a config file. The command line, tuning and the studies use this."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from aleator.aur.aur import AUR
from aleator.aur.joint import Joint
from aleator.data.tail import Tail
from aleator.errors import AleatorError, require, unknown_name
from aleator.models import MODELS
from aleator.models.base import Model
from aleator.recommender import Recommender
from aleator.uncertainty import ESTIMATORS
from aleator.words import RecipeName

AUTO = "auto"  # the name that compares more models than the default does
MORE = ("ease", "graph_filter", "lightgcn", "multvae")  # models that it compares beside those of the default
ALONE = "mf"  # the model without uncertainty, if none is named
MOST = 1 << 20  # bytes of a config file


def parse_settings(config: Path | None, settings: list[str] | None) -> dict[str, Any]:
    """Settings as a nested dict, from a TOML file and from `name=value` texts. The texts win over the file."""
    found = {} if config is None else _read_config(config)
    for setting in settings or []:
        name, equals, text = setting.partition("=")
        require(bool(equals) and all(name.split(".")), f"'{setting}' is not a setting", "write it as name=value")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):  # no TOML, a number of too many digits, or brackets in brackets
            value = text
        where = found
        *tables, last = name.split(".")
        for table in tables:
            where = where.setdefault(table, {})
            require(
                isinstance(where, dict),
                f"'{setting}' sets an option of something that is not a table",
                "check its name",
            )
        where[last] = value
    return found


def _read_config(path: Path) -> dict[str, Any]:
    """The options of a TOML file."""
    require(path.is_file(), f"'{path}' cannot be read: there is no such file", "give a TOML file")
    require(path.stat().st_size <= MOST, f"'{path}' has more than {MOST:,} bytes", "give a TOML file of options")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise AleatorError(f"'{path}' cannot be read ({error})", "give a TOML file") from None


def build(
    model: str | None,
    settings: dict[str, Any],
    *,
    with_uncertainty: bool,
    recipe: RecipeName,
    estimator: str | None = None,
    **common: Any,
) -> Recommender:
    """Make an AUR, or a bare model without uncertainty.

    With uncertainty, None is the default `AUR()`, which compares a few models, and "auto" compares more. Without
    uncertainty, None is MF.

    `settings` holds the options of AUR, and the tables `model`, `estimator` and `joint`. `joint = true` is joint training
    with its default options. The `common` options (seed, device, max_epochs) are used where `settings` has none.
    """
    of_model, of_estimator, joint, options = _tables(settings)
    shared = {name: value for name, value in common.items() if value is not None}
    shared |= {name: options.pop(name) for name in ("seed", "device", "valid", "refit") if name in options}
    compared = with_uncertainty and model in (None, AUTO)
    if compared:
        require(
            not of_model, f"model.{next(iter(of_model), '')} was set but several models are compared", "name a model"
        )
        expectations = contenders(more=model == AUTO)
    else:
        require(model != AUTO, "models are compared by their blends with the uncertainty", "name a model")
        expectations = [MODELS[model or ALONE](**{"recipe": recipe, **of_model})]
    expectations = [each.with_defaults(**shared) for each in expectations]
    if not with_uncertainty:
        unused = [*options, *(f"estimator.{name}" for name in of_estimator)]
        unused += [] if joint is None else ["joint"]
        unused += [] if estimator is None else ["estimator"]
        require(not unused, f"without uncertainty the option {unused[0] if unused else ''} has no effect", "drop it")
        return expectations[0]
    if isinstance(options.get("tail"), str):
        options["tail"] = Tail.parse(options["tail"])
    if joint is not None:
        shared_epochs = {name: shared[name] for name in ("max_epochs",) if name in shared}
        options["joint"] = _joint(shared_epochs | joint)
    uncertain = ESTIMATORS[estimator or "factor"](**of_estimator).with_defaults(**shared)
    own = {name: value for name, value in shared.items() if name != "max_epochs"}
    options = {"estimator": uncertain, "recipe": recipe, **own, **options}
    return AUR(**{"contenders": expectations, **options}) if compared else AUR(expectations[0], **options)


def contenders(*, more: bool) -> list[Model]:
    """The models that the default AUR compares, or `more` of them."""
    return [*AUR().contenders, *(MODELS[name]() for name in MORE if more)]


def _tables(
    settings: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None, dict[str, Any]]:
    """The options of the model, of the estimator, of joint training (None without it), and the rest."""
    options = dict(settings)
    joint = options.pop("joint", False)
    if isinstance(joint, bool):
        joint = {} if joint else None
    for name, table in (("model", options.get("model", {})), ("estimator", options.get("estimator", {}))):
        require(isinstance(table, dict), f"'{name}' is not a table of options", f"write {name}.name=value")
    require(
        joint is None or isinstance(joint, dict),
        "'joint' is not a table of options",
        "write joint=true or joint.lr=0.001",
    )
    return options.pop("model", {}), options.pop("estimator", {}), joint, options


def _joint(options: dict[str, Any]) -> Joint:
    known = [field.name for field in fields(Joint)]
    for name in options:
        if name not in known:
            raise unknown_name("option of Joint", name, known)
    return Joint(**options)
