"""Splits of pairs on disk: the same parts as in memory, from some users at a time."""

from __future__ import annotations

import copy
import json
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aleator.data.interactions import Interactions
from aleator.data.maps import Maps, Writer, starts, written
from aleator.data.vocabulary import Vocabulary

Floats = NDArray[np.float64]
Rule = Callable[[Interactions, Floats, Floats], NDArray[np.bool_]]
"""Which rows of some users are held out, from a random number for each row and one for each user."""

_PARTS = ("kept", "held")


def hold_out_on_disk(
    data: Interactions, maps: Maps, name: str, rule: Rule, rng: np.random.Generator
) -> tuple[Interactions, Interactions]:
    """The pairs that stay, and those that `rule` holds out.

    They are written into a folder inside that of the pairs, where the same split finds them again. Its name begins with
    `name`.
    """
    state = json.dumps(rng.bit_generator.state, sort_keys=True)
    folder = maps.folder / f"{name}-{zlib.crc32(state.encode()):08x}"
    # in memory, there is a draw for each row in the order of the ids, and then one for each user
    keys, draws = copy.deepcopy(rng), _advanced(copy.deepcopy(rng), len(maps))
    _advanced(rng, len(maps) + maps.n_users)
    if not folder.exists():
        with written(folder) as part:
            _write_parts(part, data, maps, rule, keys, draws)
    kept, held = (data.of_maps(Maps.open(folder / each, whole=maps)) for each in _PARTS)
    return kept, held


def _write_parts(
    folder: Path, data: Interactions, maps: Maps, rule: Rule, keys: np.random.Generator, draws: np.random.Generator
) -> None:
    size = {name: np.zeros(maps.n_users, np.int64) for name in _PARTS}
    with ExitStack() as stack:
        writers = {name: stack.enter_context(Writer(folder / name)) for name in _PARTS}
        for first, last in maps.blocks():
            rows = slice(int(maps.start[first]), int(maps.start[last]))
            columns = {name: values[rows] for name, values in maps.columns.items()}
            own = columns["user"] - np.int32(first)
            users = Vocabulary(np.arange(last - first))
            some = Interactions(own, columns["item"], users, data.items, time=columns.get("time"))
            held = rule(some, keys.random(len(own)), draws.random(last - first))
            for name, mask in zip(_PARTS, (~held, held), strict=True):
                writers[name].append({column: values[mask] for column, values in columns.items()})
                size[name][first:last] = np.bincount(own[mask], minlength=last - first)
        for name, writer in writers.items():
            writer.finish({"users": maps.n_users, "items": maps.n_items}, start=starts(size[name]))


def _advanced(rng: np.random.Generator, n: int) -> np.random.Generator:
    """The generator behind its next n draws of a float."""
    bits = rng.bit_generator
    assert isinstance(bits, np.random.PCG64)
    bits.advance(n)
    return rng
