"""Does the uncertainty find mislabelled pairs? Worlds with known truth, of different exposure skew, over several seeds.

Among the pairs that were not observed, how well does each score order the truly liked above the others (AUROC)?

    python -m aleator.studies.worlds --out results
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

from aleator.aur import AUR
from aleator.data.simulate import World, auroc, simulate
from aleator.models import MF
from aleator.studies import record
from aleator.training.histories import pieces
from aleator.uncertainty import FactorEstimator

SCORES = ("uncertainty", "expectation", "blend", "popularity", "random")
WORLDS = {"mild": (0.5, 100), "middle": (1.0, 150), "strong": (1.5, 500)}  # skew, showings a user: about equal density


def measure(world: World, aur: AUR, pairs: int = 200_000, seed: int = 0) -> dict[str, float]:
    """AUROC of each score against the true label of unobserved pairs; `aur` was fitted on the world's interactions."""
    user, item, label = world.unobserved(pairs, seed)
    r, sigma = np.empty(pairs), np.empty(pairs)
    order = np.argsort(user, kind="stable")
    for index in pieces(torch.from_numpy(np.unique(user)), 2048):
        with torch.no_grad():
            parts = aur.parts(aur.histories.batch(index))
        rows = order[np.isin(user[order], index.numpy())]
        at = np.searchsorted(index.numpy(), user[rows])
        for target, part in zip((r, sigma), parts, strict=True):
            target[rows] = part.cpu().numpy()[at, item[rows]]
    scores = {
        "uncertainty": sigma,
        "expectation": r,
        "blend": aur.lam_used * r + (1 - aur.lam_used) * sigma,
        "popularity": world.interactions.popularity[item],
        "random": np.random.default_rng(seed).random(pairs),
    }
    return {name: auroc(label, score) for name, score in scores.items()}


def one(
    skew: float, per_user: float, seed: int, *, n_users: int = 2000, n_items: int = 1000, **options: Any
) -> dict[str, Any]:
    """One world, fitted and measured."""
    world = simulate(n_users=n_users, n_items=n_items, per_user=per_user, skew=skew, seed=seed)
    dim = int(options.pop("dim", 16))
    aur = AUR(MF(dim=dim), estimator=FactorEstimator(dim=options.pop("estimator_dim", 256)), seed=seed, **options)
    aur.fit(world.interactions)
    return {"lam": aur.lam_used, "pairs": len(world.interactions), "auroc": measure(world, aur, seed=seed)}


def interval(values: list[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % interval by Student's t."""
    half = (
        stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    )
    return float(np.mean(values)), float(half)


def run(seeds: int, out: Path | None, worlds: Mapping[str, tuple[float, float]] = WORLDS, **options: Any) -> str:
    """All worlds and seeds; a table of means with 95 % intervals."""
    lines = [f"{'world':<8}{'skew':>6}" + "".join(f"{name:>18}" for name in SCORES)]
    for name, (skew, per_user) in worlds.items():
        rows = [one(skew, per_user, seed, **options) for seed in range(seeds)]
        found = {score: interval([row["auroc"][score] for row in rows]) for score in SCORES}
        lines.append(f"{name:<8}{skew:>6.1f}" + "".join(f"{m:>10.4f} +-{h:.4f}" for m, h in found.values()))
        print(lines[-1], flush=True)
        if out is not None:
            record.append(
                out / "worlds.jsonl",
                {
                    "study": "worlds",
                    "world": name,
                    "skew": skew,
                    "per_user": per_user,
                    "seeds": rows,
                    "auroc": {s: {"mean": m, "half_width": h} for s, (m, h) in found.items()},
                    "options": options,
                    "machine": record.machine(),
                    "versions": record.versions(),
                    "command": record.command(),
                },
            )
    return "\n".join(lines)


def main() -> None:
    """The command line of this study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder of results; nothing is written without it")
    args = parser.parse_args()
    print(run(args.seeds, args.out))


if __name__ == "__main__":
    main()
