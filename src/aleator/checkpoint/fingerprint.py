"""The fingerprint of a model: a hash of what was learned."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from torch import Tensor

from aleator.checkpoint.tensors import checksum

_PASSING = ("device", "lam", "select", "chance")  # select counts while lam is open, and chance holds at one lam


def fingerprint(about: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """A hash of what was learned: a dict for JSON, and tensors. The device and lam may change later, and do not count."""
    digest = hashlib.sha256(json.dumps(_lasting(about), sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {checksum(tensor)}".encode())
    return digest.hexdigest()[:16]


def _lasting(value: Any) -> Any:
    """A value without what changes with the device or with lam."""
    if not isinstance(value, dict):
        return value
    return {name: _lasting(part) for name, part in value.items() if name not in _PASSING}
