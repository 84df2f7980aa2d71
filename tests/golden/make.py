"""Save small models with the version of the library that is on the path, and what they answer.

Each format of a model folder has its own version: `test_golden.py` loads all of them with today's. To add those of a new
format, run this from the root of the repository, with the name of the format:

    PYTHONPATH=src python tests/golden/make.py tests/golden/format_5

The folders of formats 1 to 4 were made by this script too, with src of the commits 90309c9, 0e89d4a, 02f934e and f81cc16.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

import aleator as al

USERS = ["u03", "u11"]
HISTORY = ["i2", "i5"]


def data() -> al.Interactions:
    """20 users and 12 items of three tastes, with text ids and weights."""
    pairs = [(u, i) for u in range(20) for i in range(12) if (u + i) % 3 == 0 or (5 * u + 7 * i) % 11 == 0]
    return al.Interactions.of(
        [f"u{u:02}" for u, _ in pairs], [f"i{i}" for _, i in pairs], weight=[1 + (u + i) % 2 for u, i in pairs]
    )


def models() -> dict[str, Any]:
    """A model with factors, one with an item-item matrix, and both parts of an AUR."""
    estimator = al.FactorEstimator(dim=4, max_epochs=3, lr=0.01)
    return {
        "mf": al.MF(dim=3, l2=0.01, device="cpu"),
        "ease": al.EASE(l2=5.0, device="cpu"),
        "aur": al.AUR(al.MF(dim=3, l2=0.01), estimator=estimator, lam=0.4, device="cpu"),
    }


def answers(model: Any) -> dict[str, Any]:
    """What a model says, as numbers that JSON holds."""
    found = {"score": model.score(USERS), "newcomer": model.score({"new": HISTORY})}
    if isinstance(model, al.AUR):
        found["uncertainty"] = model.uncertainty(USERS)
    return {name: value.double().tolist() for name, value in found.items()}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    for name, model in models().items():
        model.fit(data()).save(folder / name)
        (folder / f"{name}.json").write_text(json.dumps(answers(model), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
