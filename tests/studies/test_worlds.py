"""Simulated worlds as datasets."""

from __future__ import annotations

from aleator.studies.worlds import WORLDS, open_world


def test_each_seed_is_another_world_and_the_same_seed_the_same() -> None:
    for name in WORLDS:
        first, again, other = (open_world(name, seed, quick=True).interactions.fingerprint for seed in (0, 0, 1))
        assert first == again != other
