"""Hand-over: models that were fitted on another machine, as files. The machine of a study then needs no library.

`python -m aleator.studies.elsewhere` writes the files, and $ALEATOR_FITTED names their folder. A file holds data alone:
`users` and `items` [n, dim], the factors; `user` and `item` [n], their dense ids; and in the metadata the library with
its version, and which model it fitted on which pairs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from aleator.data.interactions import Interactions
from aleator.data.vocabulary import DenseIds, Vocabulary
from aleator.errors import need, parsing, require
from aleator.models.graft import graft
from aleator.models.graft.base import Grafted
from aleator.models.graft.factors import GraftedFactors
from aleator.studies.elsewhere.libraries import LIBRARIES

COMMAND = "python -m aleator.studies.elsewhere"


@dataclass(frozen=True)
class Wanted:
    """A model that a study needs."""

    name: str  # in `LIBRARIES`
    dataset: str | None
    pairs: Interactions  # that it is fitted on
    seed: int
    options: Mapping[str, Any]  # of the library

    @property
    def told(self) -> dict[str, str]:
        """What a file says of it, and what must hold for a file to be used."""
        options = json.dumps(dict(self.options), sort_keys=True)
        return {"model": self.name, "pairs": self.pairs.fingerprint, "seed": str(self.seed), "options": options}

    def graft(self, **about: Any) -> Grafted:
        """The model, from its file if it was handed over, and else fitted here. `about` are options of the graft."""
        file = _found(self.name, self.dataset, self.seed)
        return self.fit(about) if file is None else self._read(file, about)

    def fit(self, about: dict[str, Any]) -> Grafted:
        """The model, fitted here."""
        library = LIBRARIES[self.name]
        need(library.name, self.name, library.package)
        return library.fit(self.pairs, about, self.seed, **self.options)

    def hand_over(self, folder: Path) -> Path:
        """Fit the model and write its file. Returns the path."""
        made = self.fit({})
        require(isinstance(made, GraftedFactors), f"{self.name} has no factors", "fit it where the study runs")
        (x, y), file = made.source, _file(folder, self.name, self.dataset, self.seed)
        user, item = _dense(self.pairs.users, made.user_ids, len(x)), _dense(self.pairs.items, made.item_ids, len(y))
        tensors = {
            "users": x.contiguous(),
            "items": y.contiguous(),
            "user": torch.from_numpy(user),
            "item": torch.from_numpy(item),
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, file, {"library": LIBRARIES[self.name].version} | self.told)
        return file

    def _read(self, file: Path, about: dict[str, Any]) -> Grafted:
        with parsing(file, "a model that was handed over"), safe_open(file, "np") as opened:
            told = opened.metadata() or {}
            x, y, user, item = (opened.get_tensor(name) for name in ("users", "items", "user", "item"))
        for what, own in self.told.items():
            problem = f"'{file}' has {what} {told.get(what)}, and the study has {own}"
            require(told.get(what) == own, problem, f"write the file again with {COMMAND}")
        return graft((x, y), users=self.pairs.users.decode(user), items=self.pairs.items.decode(item), **about)


def at_hand(name: str, dataset: str | None, seed: int) -> bool:
    """Whether a model was handed over, or its library is installed."""
    return _found(name, dataset, seed) is not None or LIBRARIES[name].installed


def version_of(name: str, dataset: str | None, seed: int) -> str:
    """The library that fits a model, or fitted the one that was handed over, and its version."""
    file = _found(name, dataset, seed)
    if file is None:
        return LIBRARIES[name].version
    with parsing(file, "a model that was handed over"), safe_open(file, "np") as opened:
        return str(opened.metadata()["library"])


def _found(name: str, dataset: str | None, seed: int) -> Path | None:
    """The file of a model in $ALEATOR_FITTED, if there is one."""
    folder = os.environ.get("ALEATOR_FITTED")
    if not folder:
        return None
    require(Path(folder).is_dir(), f"there is no folder '{folder}'", "check ALEATOR_FITTED")
    file = _file(Path(folder), name, dataset, seed)
    return file if file.is_file() else None


def _file(folder: Path, name: str, dataset: str | None, seed: int) -> Path:
    return folder / (dataset or "unnamed") / f"{name}-{seed}.safetensors"


def _dense(vocabulary: Vocabulary, ids: Any, n: int) -> DenseIds:
    """The dense ids of a model's rows. Without ids, its rows are in their order."""
    return (np.arange(n) if ids is None else vocabulary.encode(ids)).astype(np.int32)
