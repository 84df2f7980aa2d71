"""Every option does something: it is changed alone, and then something that a user can see must change.

What has no effect beside the other options must be refused. A new option needs a line in `OTHER`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import aleator as al
from aleator.data.simulate import simulate
from aleator.models import MODELS
from aleator.options import Configurable
from aleator.uncertainty import ESTIMATORS

TRAINED: dict[str, Any] = {"lr": 0.03, "max_epochs": 14, "batch_size": 16, "patience": 6, "check_every": 1}
FACTORS: dict[str, Any] = TRAINED | {"dim": 4}
BASE: dict[str, dict[str, Any]] = {
    "bpr": FACTORS,
    "ease": {},
    "expomf": {"dim": 4, "l2": 1.0, "max_epochs": 15, "patience": 10},
    "fism": FACTORS | {"dim": 8},
    "graph_filter": {},
    "ips": {"dim": 4},
    "itemknn": {},
    "lightgcn": FACTORS,
    "lightgcn bpr": FACTORS | {"loss": "bpr"},
    "lightgcn softmax": FACTORS | {"loss": "softmax"},
    "macr": FACTORS | {"backbone": "lightgcn", "reference": 1.0},
    "mf": {"dim": 4},
    "mf adam": FACTORS | {"solver": "adam"},
    "multvae": FACTORS | {"hidden": 8, "lr": 0.01, "dropout": 0.2, "kl": 0.1},
    "pmf": FACTORS,
    "popularity": {"calibrate": "linear"},
    "random": {"calibrate": "linear"},
    "ue": FACTORS | {"dim": 8},
    "zerosum": FACTORS,
    "factor": {"dim": 8, "max_epochs": 14, "patience": 6, "lr": 0.05, "precision": "float32"},
    "mlp": {"hidden": 8, "max_epochs": 14, "patience": 6, "lr": 0.05, "precision": "float32"},
}
OTHER: dict[str, Any] = {
    "activation": "tanh",
    "alpha": 7.0,
    "backbone": "mf",
    "batch_size": 5,
    "beta": 0.5,
    "bias": True,
    "blend": "sigma",
    "calibrate": "isotonic",
    "check_every": 4,
    "clip": 0.7,
    "contenders": [al.EASE()],
    "dim": 3,
    "draws": 3,
    "dropout": 0.6,
    "evenness": 0.4,
    "exposure": 0.5,
    "floor": 0.5,
    "frequency": False,
    "gamma": 0.1,
    "hidden": 5,
    "history_dropout": 0.3,
    "init": 0.5,
    "item_exponent": 0.1,
    "item_variance": 0.1,
    "item_weight": 3.0,
    "iterations": 1,
    "kl": 2.0,
    "l2": 7.0,
    "lam": 0.123,
    "discount": 0.4,
    "prior": 3.0,
    "layers": 1,
    "loss": "bpr",
    "lr": 0.005,
    "max_epochs": 2,
    "mu": 0.43,
    "negatives": "each",
    "neighbours": 3,
    "noise_variance": 5.0,
    "optimizer": "lean",
    "patience": 1,
    "power": 0.9,
    "precision": "bf16",
    "prior_weight": 5.0,
    "recipe": "paper",
    "reference": 5.0,
    "refit": False,
    "regulariser": "pos2neg2",
    "residuals": "loo",
    "sample": False,
    "sampled_items": 7,
    "seed": 5,
    "select": "overall",
    "self_exclude": False,
    "self_normalise": False,
    "shrink": 50.0,
    "solver": "adam",
    "tail": al.Tail.items(0.2),
    "temperature": 2.0,
    "tolerance": 0.5,
    "unobserved": "model",
    "user_exponent": 0.9,
    "user_variance": 0.1,
    "user_weight": 3.0,
    "valid": 0.4,
    "weight_decay": 7.0,
}
NO_RACE: dict[str, Any] = {"residuals": "in-sample", "unobserved": "constant"}
SPECIAL: dict[str, dict[str, Any]] = {
    "expomf": {"precision": 1.0},
    "lightgcn bpr": {"loss": "softmax"},
    "mf adam": {"solver": "als"},
}


@pytest.fixture(scope="module")
def split() -> al.Split:
    data = simulate(n_users=90, n_items=40, per_user=120, skew=0.8, seed=4).interactions
    made = data.split(valid=0.0, test=0.2, seed=0)
    return al.Split.of(made.train, made.test, name="tiny")


def cases() -> Iterator[Any]:
    for label, base in BASE.items():
        name = label.partition(" ")[0]
        kind: type[Configurable] = MODELS[name] if name in MODELS.classes else ESTIMATORS[name]
        for option in kind.option_names():
            # tests have one device; a name that is none of it is refused elsewhere. One process shares nothing out: see
            # tests/ranks
            if option not in ("device", "shard"):
                other = SPECIAL.get(label, {}).get(option, OTHER[option])
                yield pytest.param(name, base, option, other, id=f"{label} {option}")


def seen_of(made: Configurable, split: al.Split) -> tuple[Any, ...]:
    """What a user can see of a fit: scores, the course of the training, the pairs, and how it is evaluated."""
    fitted: al.Model | al.AUR
    if isinstance(made, al.Model):
        fitted = made.fit(split)
        log, scores = fitted.log, fitted.score(list(range(90)))
    else:
        assert isinstance(made, al.Estimator)
        fitted = al.AUR(al.MF(dim=4), estimator=made, refit=False, **NO_RACE).fit(split)
        log, scores = fitted.estimator.log, fitted.at(0.0).score(list(range(90)))
    report = al.evaluate(fitted, split, k=5)
    course = None if log is None else (log.best_epoch, len(log.rows), [row.get("metric") for row in log.rows])
    return np.asarray(scores).tobytes(), str(course), len(fitted.fitted), str(report.about)


@pytest.mark.parametrize(("name", "base", "option", "other"), list(cases()))
def test_an_option_of_a_part_changes_something(
    name: str, base: dict[str, Any], option: str, other: Any, split: al.Split
) -> None:
    kind: type[Configurable] = MODELS[name] if name in MODELS.classes else ESTIMATORS[name]
    if option in kind(**base).unused():
        with pytest.raises(al.AleatorError, match=f"option {option} of {kind.__name__} has no effect"):
            kind(**{**base, option: other})
        return
    before = base | ({"refit": False} if option in ("valid", "seed") and name in MODELS.classes else {})
    after = before | {option: other}
    unused = kind.restored(**after).unused()  # another solver needs other options
    after = {name: value for name, value in after.items() if name not in unused}
    assert seen_of(kind(**after), split) != seen_of(kind(**before), split)


AUR_OPTIONS = [o for o in al.AUR.option_names() if o not in ("device", "model", "estimator", "joint")]


@pytest.mark.parametrize("option", AUR_OPTIONS)
def test_an_option_of_aur_changes_something(option: str, split: al.Split) -> None:
    def seen(**options: Any) -> tuple[Any, ...]:
        adam: dict[str, Any] = {"solver": "adam", "max_epochs": 3} if option == "recipe" else {}
        model: dict[str, Any] = {} if option == "contenders" else {"model": al.MF(dim=4, **adam)}
        estimator = al.FactorEstimator(dim=8, max_epochs=20, lr=0.05, init=0.01)
        aur = al.AUR(**model, estimator=estimator, **options).fit(split)
        listed = aur.recommend([0, 1], k=10)["tail"].to_list()
        scores = [part(list(range(90))).numpy().tobytes() for part in (aur.score, aur.uncertainty, aur.expectation)]
        return scores, aur.lam_used, aur.choice, len(aur.fitted), listed

    base: dict[str, Any] = {"refit": False} if option == "valid" else {}
    base |= {"lam": 0.5} if option in ("tail", "residuals", "unobserved") else {}
    if option == "contenders":
        base["contenders"] = [al.MF(dim=4)]
    if option != "recipe":
        base = NO_RACE | base
    assert seen(**{**base, option: OTHER[option]}) != seen(**base)


@pytest.mark.parametrize("option", ["weights", "lr", "clip", "max_epochs"])
def test_an_option_of_joint_training_changes_something(option: str, split: al.Split) -> None:
    other = {"weights": "model", "lr": 0.1, "clip": 1e-4, "max_epochs": 1}

    def scores(**options: Any) -> torch.Tensor:
        joint = al.Joint(**{"max_epochs": 4, "lr": 0.01, **options})
        estimator = al.FactorEstimator(dim=8, max_epochs=1, lr=1e-4)
        model = al.LightGCN(dim=4, max_epochs=1, lr=1e-4)  # both have learned little before
        return al.AUR(model, estimator=estimator, joint=joint, lam=0.5).fit(split).score(list(range(90)))

    assert not torch.equal(scores(**{option: other[option]}), scores())
