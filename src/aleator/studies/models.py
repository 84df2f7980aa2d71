"""Every model on one dataset, with the options that were tuned for it; some of them under AUR too.

python -m aleator.studies.models yelp2018 --out results                         every model bare
python -m aleator.studies.models yelp2018 --uncertainty ease mf --out results   these two bare and under AUR

Options are those of `configs/DATASET/NAME.toml`, where there is such a file. `implicit-als` and `implicit-bpr` are models
of the library implicit, fitted by it and grafted.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

from aleator.aur import AUR
from aleator.data.splits import Split
from aleator.errors import need
from aleator.models import MODELS
from aleator.models.grafting import graft
from aleator.recommender import Recipe, Recommender
from aleator.settings import open_split
from aleator.studies.main import compare, systems
from aleator.uncertainty import FactorEstimator

CONFIGS = Path(__file__).parent / "configs"
GRAFTS = ("implicit-als", "implicit-bpr")


def tuned(dataset: str, model: str) -> dict[str, Any]:
    """The options that were found for a model on a dataset; none where it was not tuned there."""
    path = CONFIGS / dataset / f"{model}.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}


def grafted(
    name: str, split: Split, settings: dict[str, Any], recipe: Recipe, seed: int, device: str = "auto"
) -> dict[str, Recommender]:
    """A model of implicit, with the options of the table `graft`, bare and under AUR.

    It is fitted without the pairs that lam is chosen on; so that both know the same, the estimator is not refitted.
    """
    need("implicit", name)
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    kind = AlternatingLeastSquares if name == "implicit-als" else BayesianPersonalizedRanking
    fitted = kind(**settings.get("graft", {}), random_state=seed)
    fitted.fit((split.train if recipe == "ours" else split.everything).csr, show_progress=False)
    common: dict[str, Any] = {"seed": seed, "recipe": recipe, "device": device, "refit": False}
    options = {name: value for name, value in settings.items() if name not in ("graft", "estimator")}
    estimator = FactorEstimator(**settings.get("estimator", {}))
    aur = AUR(graft(fitted), estimator=estimator, **common, **options)
    return {name: graft(fitted, **common), f"{name}-AUR": aur}


def main() -> None:
    """The command line of this study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--model", nargs="*", help="these alone")
    parser.add_argument("--uncertainty", nargs="*", default=[], metavar="MODEL", help="these, bare and under AUR")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--recipe", default="ours", choices=["ours", "paper"])
    parser.add_argument(
        "--conventions", choices=["ours", "paper"], help="tail and policy; those of the recipe if not told"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="folder of results; nothing is written without it")
    args = parser.parse_args()
    split = open_split(args.dataset, args.data_root)
    common = {"recipe": args.recipe, "seed": args.seed}
    chosen = [*args.uncertainty, *(args.model or [])] or list(MODELS.classes)
    for name in chosen:
        settings = tuned(args.dataset, name)
        if name in GRAFTS:
            part = split.carve(0.1, args.seed) if args.recipe == "ours" else split
            methods = grafted(name, part, settings, device=args.device, **common)
        else:
            part = split
            uncertain = name in args.uncertainty
            methods = systems(name, settings, device=args.device, uncertain=uncertain, **common)
        compare(
            part, methods, conventions=args.conventions or args.recipe, seed=args.seed, out=args.out, study="models"
        )


if __name__ == "__main__":
    main()
