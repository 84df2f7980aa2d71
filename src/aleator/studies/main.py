"""The main comparison: a model bare and under AUR, on one dataset, with paired tests over users.

python -m aleator.studies.main yelp2018 --model lightgcn --recipe ours --out results
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from aleator.aur import AUR
from aleator.data.splits import Split
from aleator.evaluation.protocols import evaluate
from aleator.evaluation.report import Report
from aleator.recommender import Recipe, Recommender
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
PAPER_NAMES = {"mf": "MF", "lightgcn": "LGCN", "multvae": "VAE", "zerosum": "PopBias", "ips": "IPS", "macr": "MACR"}
PAPER_NAMES |= {"expomf": "ExpoMF", "pmf": "PMF", "bpr": "MF-BPR", "ue": "UE", "ease": "EASE", "itemknn": "ItemKNN"}
PAPER_NAMES |= {"graph_filter": "GraphFilter", "popularity": "Popularity", "random": "Random"}


def systems(
    model: str,
    settings: dict[str, Any],
    *,
    recipe: Recipe,
    seed: int,
    device: str = "auto",
    estimator: str | None = None,
    bare: bool = True,
    uncertain: bool = True,
) -> dict[str, Recommender]:
    """A model bare, and under AUR, by the names of the paper."""
    common: dict[str, Any] = {"recipe": recipe, "seed": seed, "device": device}
    name, made = PAPER_NAMES.get(model, model), dict[str, Recommender]()
    if bare:
        made[name] = build(model, {"model": settings.get("model", {})}, with_uncertainty=False, **common)
    if uncertain:
        suffix = ("-M" if estimator == "mlp" else "") + ("-J" if settings.get("joint") else "")
        made[f"{name}-AUR{suffix}"] = build(model, settings, with_uncertainty=True, estimator=estimator, **common)
    return made


def compare(
    split: Split,
    methods: dict[str, Recommender],
    *,
    conventions: Recipe = "ours",
    seed: int = 0,
    out: Path | None = None,
    study: str = "main",
) -> dict[str, Report]:
    """Fit each, evaluate it under a recipe's tail and policy, and test it against the first; records to `out`."""
    reports: dict[str, Report] = {}
    for method, system in methods.items():
        start = time.perf_counter()
        system.fit(split)
        fitted = time.perf_counter()
        reports[method] = evaluate(system, split, recipe=conventions)
        row = record.result(
            study,
            split.name or "?",
            method,
            reports[method],
            seed=seed,
            seconds=fitted - start,
            chosen_on="validation" if system.recipe == "ours" else "test",
            seconds_evaluating=round(time.perf_counter() - fitted, 2),
            config=system.options() | {"tail": str(system.options().get("tail"))},
            chosen=_chosen(system),
        )
        first = next(iter(reports))
        if method != first:
            tests = reports[method].compare(reports[first]).to_dict()
            row[f"against_{first}"] = [r for r in tests if (r["protocol"], r["metric"]) in KEY]
        if out is not None:
            record.append(out / study / f"{split.name}.jsonl", row)
        values = " ".join(f"{reports[method].mean(*key):.4f}" for key in KEY)
        print(f"{method}: fitted in {fitted - start:.1f} s {row['chosen'] or ''} {values}", flush=True)
    return reports


def _chosen(system: Recommender) -> dict[str, Any]:
    """What validation (or, in recipe paper, the test part) chose."""
    if not isinstance(system, AUR):
        log = getattr(system, "log", None)
        return {} if log is None else {"epochs": log.best_epoch}
    logs = {"model_epochs": system.model.log, "epochs": system.estimator.log, "joint_epochs": system.log}
    return {"lam": system.lam_used} | {name: log.best_epoch for name, log in logs.items() if log is not None}


def main() -> None:
    """The command line of this study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--model", default="mf")
    parser.add_argument("--estimator")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--recipe", default="ours", choices=["ours", "paper"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", help="as in aleator fit")
    parser.add_argument("--config", type=Path, help="as in aleator fit")
    parser.add_argument("--study", default="main", help="the folder of results that it belongs to")
    parser.add_argument("--out", type=Path, help="folder of results; nothing is written without it")
    args = parser.parse_args()
    split = open_split(args.dataset, args.data_root)
    methods = systems(
        args.model,
        parse_settings(args.config, args.set),
        recipe=args.recipe,
        seed=args.seed,
        device=args.device,
        estimator=args.estimator,
    )
    reports = list(
        compare(split, methods, conventions=args.recipe, seed=args.seed, out=args.out, study=args.study).values()
    )
    print(f"{reports[1].compare(reports[0])}\n{reports[0].conventions}")


if __name__ == "__main__":
    main()
