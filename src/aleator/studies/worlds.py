"""Simulated worlds as datasets of studies: three of different exposure skew, about equally dense; each seed its own."""

from __future__ import annotations

from aleator.data.simulate import World, simulate

WORLDS = {"world-mild": (0.5, 100), "world-middle": (1.0, 150), "world-strong": (1.5, 500)}  # skew, showings a user


def open_world(name: str, seed: int, *, quick: bool = False) -> World:
    """The world of that name and seed."""
    skew, per_user = WORLDS[name]
    size = (200, 120) if quick else (2000, 1000)
    return simulate(n_users=size[0], n_items=size[1], per_user=per_user, skew=skew, seed=seed)
