"""Simulated worlds as datasets of studies. The three differ in exposure skew and are about equally dense."""

from __future__ import annotations

from dataclasses import dataclass

from aleator.data.simulate import World, simulate


@dataclass(frozen=True)
class Exposure:
    """How a world shows items to users."""

    skew: float
    per_user: int  # showings


WORLDS = {
    "world-mild": Exposure(skew=0.5, per_user=100),
    "world-middle": Exposure(skew=1.0, per_user=150),
    "world-strong": Exposure(skew=1.5, per_user=500),
}


def open_world(name: str, seed: int, *, quick: bool = False) -> World:
    """The world of that name. Each seed gives another one."""
    shown = WORLDS[name]
    n_users, n_items = (200, 120) if quick else (2000, 1000)
    return simulate(n_users=n_users, n_items=n_items, per_user=shown.per_user, skew=shown.skew, seed=seed)
