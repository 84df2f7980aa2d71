"""ModelCache: keeps what models learned, for several fits on the same pairs."""

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


@dataclass(frozen=True)
class _Kept:
    about: dict[str, Any]
    tensors: dict[str, Tensor]
    seconds: float


@dataclass
class ModelCache:
    """Keeps what models learned, by their class, options, pairs and epochs. Give it to `fit`.

    The same options, pairs and seed give the same tensors. A later fit takes them from the cache. Grafted models are
    never kept.
    """

    everything: bool = False  # keep also models without a training log, which are quick to fit again
    saved: float = 0.0  # seconds of fitting that the cache saved
    _kept: dict[str, _Kept] = field(default_factory=dict)

    def fit_pairs(
        self, model: Model, data: Interactions, held_out: HeldOut | None = None, epochs: int | None = None
    ) -> None:
        """`Model.fit_pairs`, or take over the result of the same fit."""
        if model.frozen:
            model.fit_pairs(data, held_out, epochs)
            return
        options = model.options(), model.chosen if held_out is None else None  # an earlier choice holds, or a new one
        about = [type(model).__name__, options, data.fingerprint, epochs, held_out and held_out.fingerprint]
        key = json.dumps(about, default=str)
        if key in self._kept:
            kept = self._kept[key]
            model.data = data
            model.unpack(copy.deepcopy(kept.about), kept.tensors)
            self.saved += kept.seconds
            return
        start = time.perf_counter()
        model.fit_pairs(data, held_out, epochs)
        if self.everything or model.log is not None:
            learned, tensors = model.pack()
            self._kept[key] = _Kept(copy.deepcopy(learned), tensors, time.perf_counter() - start)
