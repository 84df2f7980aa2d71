"""Models that are trained once for all the methods on top of them: the same options and pairs give the same tensors."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from aleator.data.interactions import Interactions
from aleator.evaluation.held_out import HeldOut
from aleator.models.base import Model


@dataclass
class Trained:
    """What a model learned, and how long that took."""

    about: dict[str, Any]
    tensors: dict[str, Tensor]
    seconds: float


@dataclass
class Memory:
    """What models learned in epochs, by their options and pairs. What is quick to make anew is not kept."""

    kept: dict[str, Trained] = field(default_factory=dict)
    saved: float = 0.0  # seconds of training that were not spent again

    def watch(self, model: Model) -> None:
        """From now on `model` takes what one of its kind has learned, and leaves what it learns."""
        learn = model.train

        def train(data: Interactions, check: HeldOut | None = None, epochs: int | None = None) -> None:
            about = [type(model).__name__, model.options(), data.fingerprint, epochs, check is not None]
            key = json.dumps(about, default=str)
            if key in self.kept:
                found = self.kept[key]
                model.data, model.map = data, None
                model.unpack(copy.deepcopy(found.about), {name: value.clone() for name, value in found.tensors.items()})
                self.saved += found.seconds
                return
            start = time.perf_counter()
            learn(data, check, epochs)
            if model.log is not None:
                learned, tensors = model.pack()
                copies = {name: value.clone() for name, value in tensors.items()}
                self.kept[key] = Trained(copy.deepcopy(learned), copies, time.perf_counter() - start)

        model.train = train  # type: ignore[method-assign]
