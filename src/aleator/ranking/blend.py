"""The blend of expectation and uncertainty that items are ranked by."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def uncertainty(log_variance: Tensor, k: float) -> Tensor:
    """sigma = sqrt(exp(s) / K), elementwise."""
    return torch.exp(0.5 * log_variance).div(math.sqrt(k))


def blend(expectation: Tensor, uncertainty: Tensor, lam: float) -> Tensor:
    """lam * r + (1 - lam) * sigma, elementwise. A high uncertainty raises an item: its zero is probably wrong."""
    if lam == 1:
        return expectation.clone()  # an infinite uncertainty times 0 would be NaN
    return lam * expectation + (1 - lam) * uncertainty
