"""Tiny worlds that many tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import settings

import aleator as al
from aleator import progress
from aleator.data.simulate import World, simulate
from aleator.uncertainty.factor import RANDOM_INIT

settings.register_profile("shared", deadline=None)  # no timed assertions: the machine is shared
settings.load_profile("shared")
torch.set_num_threads(1)  # on data this small threads only wait for each other, for minutes where cores are shared


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress without a terminal is a line every few seconds. On a slow machine, no test may see one by chance."""
    monkeypatch.setattr(progress, "_clock", lambda: 0.0)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """As many threads as it takes for sums to come out in another order, where the code lets them."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def world() -> World:
    return simulate(n_users=80, n_items=50, per_user=120, skew=0.8, seed=1)


@pytest.fixture(scope="session")
def split(world: World) -> al.Split:
    return world.interactions.split(valid=0.1, test=0.2, seed=0)


@pytest.fixture(scope="session")
def small_aur() -> Callable[..., al.AUR]:
    """Makes an AUR that is fitted in a fraction of a second; options of AUR, and of its parts by prefix."""

    def make(**options: Any) -> al.AUR:
        model: dict[str, Any] = {"dim": 8, "iterations": 5, "l2": 0.001}
        estimator: dict[str, Any] = {"dim": 16, "max_epochs": 6, "lr": 0.01, "init": RANDOM_INIT}
        rest = {}
        for name, value in options.items():
            owner, _, field = name.partition("__")
            if owner == "model" and field:
                model[field] = value
            elif owner == "estimator" and field:
                estimator[field] = value
            else:
                rest[name] = value
        if rest.get("recipe") == "paper":
            del model["iterations"]  # it is of ALS, and the paper's MF is trained by Adam
            del model["l2"]
            model["recipe"] = "paper"
        else:
            race = {} if "joint" in rest else {"residuals": "in-sample", "unobserved": "constant"}  # there is none
            rest = {**race, "discount": 0.0, "prior": 0.0} | rest
        return al.AUR(al.MF(**model), estimator=al.FactorEstimator(**estimator), **rest)

    return make


@pytest.fixture(scope="session")
def fitted_aur(small_aur: Callable[..., al.AUR], split: al.Split) -> al.AUR:
    """Fitted on the training pairs of `split`; tests must not change it."""
    return small_aur().fit(split)
