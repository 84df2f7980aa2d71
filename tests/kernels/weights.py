"""Weights of observed pairs, for the tests of several kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

CPU = torch.device("cpu")
Matrix = np.ndarray[Any, Any]


def weights(n_users: int, n_items: int, seed: int = 0, *, low: float = 0.01) -> Matrix:
    """[n_users, n_items] weights of observed pairs, 0 elsewhere; user 2 has no history and user 3 has everything."""
    rng = np.random.default_rng(seed)
    made = np.where(rng.random((n_users, n_items)) < 0.3, rng.uniform(low, 3, (n_users, n_items)), 0)
    made[2] = 0
    made[3] = 1.5
    return made.astype(np.float32)
