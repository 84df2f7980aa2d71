"""The main comparison: a model bare and under AUR, on one dataset, with paired tests over users.

python -m aleator.studies.main yelp2018 --recipe ours --out results
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from aleator.aur import AUR
from aleator.data.splits import Split
from aleator.evaluation.protocols import evaluate
from aleator.recommender import Recipe
from aleator.settings import build, open_split, parse_settings
from aleator.studies import record

KEY = (
    ("overall", "recall@20"),
    ("overall", "recall@50"),
    ("tail_absolute", "recall@20"),
    ("tail_absolute", "recall@50"),
    ("tail_relative", "recall@20"),
    ("tail_relative", "recall@50"),
)


def compare(
    split: Split,
    settings: dict[str, Any],
    *,
    recipe: Recipe = "ours",
    seed: int = 0,
    device: str = "auto",
    out: Path | None = None,
    study: str = "main",
) -> str:
    """Fit MF and MF-AUR, evaluate both under the recipe's conventions; records to `out`, a table back."""
    common = {"seed": seed, "device": device}
    model = {"model": settings.get("model", {})}
    bare = build("mf", model, with_uncertainty=False, recipe=recipe, **common)
    aur = build("mf", settings, with_uncertainty=True, recipe=recipe, **common)
    assert isinstance(aur, AUR)
    reports = {}
    for method, system in (("MF", bare), ("MF-AUR", aur)):
        start = time.perf_counter()
        system.fit(split)
        fitted = time.perf_counter()
        reports[method] = evaluate(system, split, recipe=recipe)
        chosen = (
            {"lam": aur.lam_used, "epochs": aur.estimator.log.best_epoch if aur.estimator.log else 0}
            if system is aur
            else {}
        )
        row = record.result(
            study,
            split.name or "?",
            method,
            reports[method],
            seed=seed,
            seconds=fitted - start,
            seconds_evaluating=round(time.perf_counter() - fitted, 2),
            config=system.options() | {"tail": str(system.options().get("tail"))},
            chosen=chosen,
        )
        if method == "MF-AUR":
            row["against_MF"] = [
                r for r in reports[method].compare(reports["MF"]).to_dict() if (r["protocol"], r["metric"]) in KEY
            ]
        if out is not None:
            record.append(out / study / f"{split.name}.jsonl", row)
        print(f"{method}: fitted in {fitted - start:.1f} s {chosen or ''}", flush=True)
    table = str(reports["MF-AUR"].compare(reports["MF"]))
    return f"{table}\n{reports['MF'].conventions}"


def main() -> None:
    """The command line of this study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--recipe", default="ours", choices=["ours", "paper"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", help="as in aleator fit")
    parser.add_argument("--out", type=Path, help="folder of results; nothing is written without it")
    args = parser.parse_args()
    split = open_split(args.dataset, args.data_root)
    print(
        compare(
            split, parse_settings(None, args.set), recipe=args.recipe, seed=args.seed, device=args.device, out=args.out
        )
    )


if __name__ == "__main__":
    main()
