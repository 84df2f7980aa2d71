"""Formats: what manifests of earlier versions mean today."""

from __future__ import annotations

from typing import Any

FORMAT = 5


def upgrade(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest of any format as one of the present format, with the same meaning."""
    for step in (_to_2, _to_3, _to_4, _to_5)[manifest["format"] - 1 :]:
        manifest = step(manifest)
    return manifest


def _to_2(manifest: dict[str, Any]) -> dict[str, Any]:
    """Format 2 has a table for the options of joint training."""
    options = dict(manifest["options"])
    if manifest["kind"] == "AUR":
        on = options.pop("joint")
        names = {"weights": "joint_weights", "lr": "joint_lr", "clip": "joint_clip", "max_epochs": "joint_epochs"}
        joint = {name: options.pop(old) for name, old in names.items()}
        options["joint"] = joint if on else None
    return manifest | {"format": 2, "options": options}


def _to_3(manifest: dict[str, Any]) -> dict[str, Any]:
    """Format 3 notes which options of a model were chosen. MF and IPS have an option for the scale of their penalty.

    An AUR has the linear blend and settings of the estimator. Before, it had the paper's.
    """
    options, learned = dict(manifest["options"]), dict(manifest["learned"])
    if manifest["kind"] == "AUR":
        inner = options["model"]
        options["model"] = inner | {"options": _options_of_3(inner["kind"], inner["options"])}
        ways = {"residuals": options["residuals"], "unobserved": "model"}
        options |= ways | {"blend": "sigma"}
        learned["model"] = learned["model"] | _NOTHING_CHOSEN
        del learned["curve"]  # that of another rule
        learned |= {"choice": None, "race": [], "setting": ways | {"options": []}, "spreads": None}
    else:
        options, learned = _options_of_3(manifest["kind"], options), learned | _NOTHING_CHOSEN
    return manifest | {"format": 3, "options": options, "learned": learned}


def _to_4(manifest: dict[str, Any]) -> dict[str, Any]:
    """Format 4 has a discount of popularity, and a prior for short histories."""
    options, learned = dict(manifest["options"]), dict(manifest["learned"])
    if manifest["kind"] == "AUR":
        for name in ("discount", "prior"):
            options[name] = learned[name] = 0.0
        learned |= {"choice": None, "race": [result | {"discount": 0.0} for result in learned["race"]]}
    return manifest | {"format": 4, "options": options, "learned": learned}


def _to_5(manifest: dict[str, Any]) -> dict[str, Any]:
    """Format 5 has checksums. What comes from earlier folders carries a note."""
    learned = dict(manifest["learned"])
    learned["notes"] = [*learned["notes"], _NO_CHECKSUMS]
    return manifest | {"format": 5, "learned": learned}


_NOTHING_CHOSEN: dict[str, Any] = {"chosen": {}, "tried": []}
_NO_CHECKSUMS = "loaded from a folder of an earlier version, without checksums: damage in it may go unnoticed"


def _options_of_3(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    return options | {"frequency": False} if kind in ("MF", "IPS") else options
