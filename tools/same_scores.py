"""Fit every model and estimator with one seed, and tell whether two versions of the code give the same scores.

    python tools/same_scores.py fit before/      # with the code of the version before
    python tools/same_scores.py fit after/       # with this one
    python tools/same_scores.py compare before/ after/

`fit` saves each recommender as a model folder beside its scores. `compare` counts the bits that differ between both
folders. It then loads the models of the first folder with this version and compares their scores too.
Put `src` of a version on PYTHONPATH to run it, and a folder with ML-100K into ALEATOR_DATA.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import aleator as al

Make = Callable[[Any], Any]
EPOCHS: dict[str, Any] = {"max_epochs": 3}
ESTIMATOR: dict[str, Any] = {"dim": 64, "max_epochs": 4}
BARE: dict[str, Make] = {
    "mf": lambda split: al.MF(dim=32),
    "mf-adam": lambda split: al.MF(dim=16, solver="adam", **EPOCHS),
    "mf-each": lambda split: al.MF(dim=16, solver="adam", negatives="each", **EPOCHS),
    "mf-shared": lambda split: al.MF(dim=16, solver="adam", negatives="shared", **EPOCHS),
    "mf-isotonic": lambda split: al.MF(dim=16, calibrate="isotonic"),
    "mf-linear": lambda split: al.MF(dim=16, calibrate="linear"),
    "ips": lambda split: al.IPS(dim=16, clip=0.05),
    "ips-adam": lambda split: al.IPS(dim=16, solver="adam", **EPOCHS),
    "bpr": lambda split: al.BPR(dim=16, **EPOCHS),
    "zerosum": lambda split: al.ZeroSum(dim=16, **EPOCHS),
    "zerosum-pos2neg2": lambda split: al.ZeroSum(dim=16, regulariser="pos2neg2", **EPOCHS),
    "macr": lambda split: al.MACR(dim=16, **EPOCHS),
    "macr-lightgcn": lambda split: al.MACR(dim=16, backbone="lightgcn", **EPOCHS),
    "lightgcn": lambda split: al.LightGCN(dim=16, **EPOCHS),
    "multvae": lambda split: al.MultVAE(hidden=32, dim=16, dropout=0.3, kl=0.1, **EPOCHS),
    "fism": lambda split: al.FISM(dim=32, **EPOCHS),
    "ue": lambda split: al.UE(dim=32, **EPOCHS),
    "pmf": lambda split: al.PMF(dim=16, **EPOCHS),
    "expomf": lambda split: al.ExpoMF(dim=16, max_epochs=2),
    "ease": lambda split: al.EASE(),
    "itemknn": lambda split: al.ItemKNN(),
    "graph-filter": lambda split: al.GraphFilter(),
    "popularity": lambda split: al.Popularity(),
    "random": lambda split: al.Random(),
    "paper-mf": lambda split: al.MF(dim=8, recipe="paper", **EPOCHS),
    "graft-factors": lambda split: al.graft(factors(split)),
    "graft-isotonic": lambda split: al.graft(factors(split), calibrate="isotonic"),
    "graft-similarities": lambda split: al.graft(similarities(split)),
    "graft-table": lambda split: al.graft(table(split)),
    "graft-function": lambda split: al.graft(function(split)),
}


def uncertain(model: Make, estimator: Any = None, joint: dict[str, Any] | None = None, **options: Any) -> Make:
    """An AUR on a model of `BARE`."""

    def make(split: Any) -> Any:
        made = estimator or al.FactorEstimator(**ESTIMATOR)
        if joint is None:
            return al.AUR(model(split), estimator=made, **options)
        if hasattr(al, "Joint"):
            return al.AUR(model(split), estimator=made, joint=al.Joint(**joint), **options)
        old: dict[str, Any] = {"joint": True}
        old |= {"joint_epochs" if name == "max_epochs" else f"joint_{name}": value for name, value in joint.items()}
        return al.AUR(model(split), estimator=made, **old, **options)

    return make


def everything() -> dict[str, Make]:
    """What is fitted, by name."""
    factor = al.FactorEstimator
    made = dict(BARE)
    made |= {f"aur-{name}": uncertain(model) for name, model in BARE.items() if not name.startswith("paper")}
    mf = BARE["mf"]
    made |= {
        "aur-spectral": uncertain(mf, factor(dim=32, init="spectral", max_epochs=4)),
        "aur-tanh": uncertain(mf, factor(activation="tanh", history_dropout=0.3, **ESTIMATOR)),
        "aur-elu-whole": uncertain(mf, factor(activation="elu", self_exclude=False, **ESTIMATOR)),
        "aur-sampled": uncertain(mf, factor(sampled_items=100, **ESTIMATOR)),
        "aur-sampled-relu": uncertain(mf, factor(sampled_items=100, activation="relu", **ESTIMATOR)),
        "aur-row-adam": uncertain(mf, factor(sampled_items=20, batch_size=2, dim=16, max_epochs=1)),
        "aur-mlp": uncertain(mf, al.MLPEstimator(hidden=32, max_epochs=3)),
        "aur-loo": uncertain(mf, residuals="loo"),
        "aur-cross-fit": uncertain(mf, residuals="cross-fit"),
        "aur-no-refit": uncertain(mf, refit=False, select="overall"),
        "aur-alpha": uncertain(mf, alpha=3.0, gamma=0.01, lam=0.5),
        "aur-joint-mf": uncertain(mf, joint={"max_epochs": 2}),
        "aur-joint-lightgcn": uncertain(BARE["lightgcn"], joint={"max_epochs": 2, "weights": "model"}),
        "aur-joint-multvae": uncertain(BARE["multvae"], joint={"max_epochs": 2}),
        "aur-paper": uncertain(BARE["paper-mf"], factor(dim=32, max_epochs=2), recipe="paper"),
    }
    return made


def factors(split: Any) -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    data = split.train
    left = np.linalg.svd(data.csr.toarray(), full_matrices=False)
    noise = 0.01 * draw.normal(size=(data.n_items, 12))
    return left[0][:, :12] * left[1][:12], left[2][:12].T + noise


def similarities(split: Any) -> Any:
    pairs = split.train.csr.astype(np.float32)
    return (pairs.T @ pairs).tocsr()


def table(split: Any) -> Any:
    import polars as pl

    data = split.train
    scores = factors(split)[0] @ factors(split)[1].T
    best = np.argsort(-scores, axis=1)[:, :60]
    users = np.repeat(np.arange(data.n_users), 60)
    columns = {
        "user_id": data.users.decode(users),
        "item_id": data.items.decode(best.ravel()),
        "score": scores[users, best.ravel()],
    }
    return pl.DataFrame(columns)


def function(split: Any) -> Callable[[Any], Any]:
    x, y = factors(split)
    return lambda ids: x[split.train.users.encode(ids)] @ y.T


def worlds() -> Iterator[tuple[str, Any]]:
    """ML-100K, and a simulated world whose pairs have weights."""
    load = vars(al).get("load_dataset") or vars(al)["load"]
    yield "ml-100k", load("ml-100k").carve(0.1, 0)
    world = al.simulate(n_users=300, n_items=200, per_user=120, skew=0.8, seed=1)
    yield "world", world.interactions.split(valid=0.1, test=0.2, seed=0)


def scores_of(recommender: Any) -> Any:
    """Scores of some users and newcomers, and their lists."""
    data = recommender.fitted
    some = data.users.decode(np.arange(0, data.n_users, max(data.n_users // 40, 1))).tolist()
    items = data.items.decode(np.arange(0, data.n_items, max(data.n_items // 12, 1))).tolist()
    new = {"one": items[:1], "two": items[3:5], "many": items}
    return np.concatenate([recommender.score(who).float().cpu().numpy() for who in (some, new)])


def fit(out: Path, wanted: list[str]) -> None:
    """Fit everything, and write scores and model folders."""
    for world, split in worlds():
        for name, make in everything().items():
            target = out / world / name
            if (wanted and name not in wanted) or (target / "scores.npy").exists():
                continue
            start = time.perf_counter()
            made = make(split).fit(split)
            target.mkdir(parents=True, exist_ok=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made.save(target / "model")
            np.save(target / "scores.npy", scores_of(made))
            print(f"{world} {name}: {time.perf_counter() - start:.1f} s", flush=True)


def differ(a: Any, b: Any) -> str:
    """Nothing where both are the same to the bit."""
    if a.shape == b.shape and np.array_equal(a.view(np.uint32), b.view(np.uint32)):
        return ""
    if a.shape != b.shape:
        return f"shapes {a.shape} and {b.shape}"
    share = (a.view(np.uint32) != b.view(np.uint32)).mean()
    return f"{share:.1%} of the scores differ, by up to {np.nanmax(np.abs(a - b)):.2g} (spread {np.nanstd(a):.2g})"


def compare(before: Path, after: Path) -> int:
    """Say what differs; the number of differences."""
    found = total = 0
    for file in sorted(before.glob("*/*/scores.npy")):
        name, old = str(file.parent.relative_to(before)), np.load(file)
        new = after / name / "scores.npy"
        problems = {"fitted anew": differ(old, np.load(new)) if new.exists() else "not fitted"}
        if "function" not in name:  # a grafted function is not saved
            problems["loaded"] = differ(old, scores_of(al.load_model(file.parent / "model")))
        total += len(problems)
        for how, problem in problems.items():
            if problem:
                found += 1
                print(f"{name}, {how}: {problem}")
    print(f"{total - found} of {total} comparisons are the same to the bit")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("fit")
    one.add_argument("out", type=Path)
    one.add_argument("names", nargs="*", help="fit these alone")
    two = verbs.add_parser("compare")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.verb == "fit":
        fit(given.out, given.names)
    else:
        sys.exit(min(compare(given.before, given.after), 1))


if __name__ == "__main__":
    main()
