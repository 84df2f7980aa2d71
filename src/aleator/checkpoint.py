"""A fitted recommender on disk: a folder with `manifest.json` and `tensors.safetensors`, written whole or not at all.

Loading runs no code: the manifest is JSON and the tensors are safetensors.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from aleator.data.attributes import Attribute
from aleator.data.interactions import Array, Interactions
from aleator.data.vocabulary import Vocabulary
from aleator.errors import AleatorError, require

FORMAT = 4
_AGAIN = "give a folder that was written by save"
Path_ = str | os.PathLike[str]


def write(folder: Path_, manifest: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write to a temporary folder beside the target, then rename it. An earlier model in the target is replaced."""
    target = Path(folder)
    check_target(target)
    text = json.dumps({"format": FORMAT, **manifest}, indent=1, sort_keys=True)
    made = old = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, made / "tensors.safetensors")
        (made / "manifest.json").write_text(text + "\n")
        made.chmod(0o755)
        (made / "tensors.safetensors").chmod(0o644)
        old = made.with_name(made.name + ".old")
        if target.exists():
            target.rename(old)
        made.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise AleatorError(
            f"the model could not be saved to '{target}' ({error})", "make room there or save to another place"
        ) from None
    finally:
        if old is not None and old.exists() and not target.exists():
            os.replace(old, target)  # it was stopped between the two renames
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def check_target(folder: Path_) -> None:
    """Refuse a place where no model can be written. Callers ask before a long training, not after it."""
    target = Path(folder)
    if target.exists():
        require(
            _is_model(target) or (target.is_dir() and not any(target.iterdir())),
            f"'{target}' exists and is not a model folder",
            "save to another place",
        )
    above = next(parent for parent in target.absolute().parents if parent.exists())
    writable = above.is_dir() and os.access(above, os.W_OK)
    require(writable, f"nothing can be written below '{above}'", "save to another place")


def _is_model(folder: Path) -> bool:
    """Whether a folder holds a model and nothing else. Replacing it then loses no other files."""
    try:
        ours = "format" in json.loads((folder / "manifest.json").read_text())
        return ours and {file.name for file in folder.iterdir()} <= {"manifest.json", "tensors.safetensors"}
    except (OSError, ValueError, TypeError):
        return False


def read_manifest(folder: Path_) -> dict[str, Any]:
    """The manifest of a folder, as it was written."""
    source = Path(folder)
    require((source / "manifest.json").is_file(), f"'{source}' is not a model folder", _AGAIN)
    try:
        manifest: dict[str, Any] = json.loads((source / "manifest.json").read_text())
        written = manifest["format"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise damaged(folder, error) from None
    known = written in range(1, FORMAT + 1)
    require(known, f"'{source}' has format {written}", f"this version of aleator reads formats 1 to {FORMAT}")
    return manifest


def upgrade(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest of any format as one of the present format, with the same meaning."""
    for step in (_to_2, _to_3, _to_4)[manifest["format"] - 1 :]:
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


_NOTHING_CHOSEN: dict[str, Any] = {"chosen": {}, "tried": []}


def _options_of_3(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    return options | {"frequency": False} if kind in ("MF", "IPS") else options


def read(folder: Path_) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The manifest of a folder in the present format, and its tensors."""
    manifest = read_manifest(folder)
    try:
        return upgrade(manifest), load_file(Path(folder) / "tensors.safetensors")
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(folder, error) from None


def damaged(folder: Path_, error: Exception) -> AleatorError:
    """The error for a folder that cannot be understood."""
    return AleatorError(f"'{folder}' is damaged or foreign ({type(error).__name__}: {error})", _AGAIN)


def pack_data(data: Interactions) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Interactions as a dict for JSON and as tensors: histories, ids, titles and attributes, which serving needs."""
    tensors = {
        "data.indptr": torch.from_numpy(data.csr.indptr.astype(np.int64)),
        "data.item": torch.from_numpy(data.csr.indices.astype(np.int32)),
        **_pack_ids("data.users", data.users.ids),
        **_pack_ids("data.items", data.items.ids),
    }
    if data.weight is not None:
        tensors["data.weight"] = torch.from_numpy(data.csr.data.astype(np.float32))
    if data.titles is not None:
        tensors |= _pack_ids("data.titles", data.titles)
    for number, attribute in enumerate(data.attributes.values()):
        tensors[f"data.attribute.{number}.item"] = torch.from_numpy(attribute.item)
        tensors |= _pack_ids(f"data.attribute.{number}", attribute.values)
    about = {
        "users": data.n_users,
        "items": data.n_items,
        "pairs": len(data),
        "fingerprint": data.fingerprint,
        "frame": data.frame,
        "attributes": list(data.attributes),
    }
    return about, tensors


def unpack_data(about: dict[str, Any], tensors: dict[str, Tensor]) -> Interactions:
    """The interactions that `pack_data` packed, with their rows in the order of the ids."""
    indptr = tensors["data.indptr"].numpy()
    weight = tensors.get("data.weight")
    return Interactions(
        np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr)),
        tensors["data.item"].numpy(),
        Vocabulary(_unpack_ids("data.users", tensors)),
        Vocabulary(_unpack_ids("data.items", tensors)),
        weight=None if weight is None else weight.numpy(),
        titles=_unpack_ids("data.titles", tensors)
        if "data.titles" in tensors or "data.titles.text" in tensors
        else None,
        attributes={  # folders of older versions have none
            name: Attribute(
                tensors[f"data.attribute.{number}.item"].numpy(), _unpack_ids(f"data.attribute.{number}", tensors)
            )
            for number, name in enumerate(about.get("attributes", []))
        },
        frame=about.get("frame"),
    )


def _pack_ids(name: str, ids: Array) -> dict[str, Tensor]:
    if ids.dtype.kind != "T":
        try:
            return {name: torch.from_numpy(ids)}
        except TypeError:
            raise AleatorError(f"ids of type {ids.dtype} cannot be saved", "make the ids integers or strings") from None
    texts = [text.encode() for text in ids.tolist()]
    ends = np.cumsum([len(text) for text in texts])
    joined = np.frombuffer(b"".join(texts), np.uint8).copy()
    return {f"{name}.text": torch.from_numpy(joined), f"{name}.end": torch.from_numpy(ends.astype(np.int64))}


def _unpack_ids(name: str, tensors: dict[str, Tensor]) -> Array:
    if name in tensors:
        return tensors[name].numpy()
    joined, ends = tensors[f"{name}.text"].numpy().tobytes(), tensors[f"{name}.end"].tolist()
    starts = [0, *ends[:-1]]
    return np.array([joined[a:b].decode() for a, b in zip(starts, ends, strict=True)], np.dtypes.StringDType())
