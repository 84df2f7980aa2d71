"""What the contracts need to know of each model: options that make it small and quick, and whether chance is in it."""

from __future__ import annotations

from typing import Any

EPOCHS: dict[str, Any] = {"dim": 3, "lr": 0.05, "max_epochs": 40, "batch_size": 16, "check_every": 1}
DRAWN = EPOCHS | {"max_epochs": 20, "check_every": 20}
SMALL: dict[str, list[dict[str, Any]]] = {
    "bpr": [DRAWN],
    "ease": [{}, {"neighbours": 4, "l2": 30.0}],
    "expomf": [{"dim": 3, "l2": 1.0, "max_epochs": 15, "patience": 15}],
    "fism": [
        EPOCHS | {"dim": 8, "max_epochs": 15, "check_every": 15},
        EPOCHS | {"dim": 8, "max_epochs": 15, "check_every": 15, "bias": False, "history_dropout": 0.0},
    ],
    "graph_filter": [{}, {"neighbours": 4}],
    "ips": [{"dim": 3, "l2": 0.003}, {"dim": 3, "l2": "auto"}, EPOCHS | {"solver": "adam"}],
    "itemknn": [{}, {"neighbours": 4}],
    "lightgcn": [
        EPOCHS | {"dim": 8, "max_epochs": 15, "check_every": 15},
        EPOCHS | {"dim": 8, "max_epochs": 15, "check_every": 15, "l2": 1e-3, "loss": "bpr"},
        EPOCHS | {"dim": 8, "max_epochs": 15, "check_every": 15, "l2": 1e-3, "loss": "softmax"},
    ],
    "macr": [DRAWN | {"reference": 1.0}, DRAWN | {"reference": 1.0, "backbone": "lightgcn"}],
    "mf": [{"dim": 3, "l2": 0.003}, {"dim": 3, "l2": "auto"}, EPOCHS | {"solver": "adam"}],
    "multvae": [EPOCHS | {"hidden": 16, "lr": 0.03, "max_epochs": 15, "check_every": 15}],
    "pmf": [EPOCHS | {"mu": 0.3}],
    "ue": [EPOCHS | {"dim": 8, "max_epochs": 15, "check_every": 15}],
    "zerosum": [DRAWN, DRAWN | {"regulariser": "pos2neg2"}],
}
STARTS_AT_RANDOM = {  # so that other item numbers mean another start
    "bpr",
    "expomf",
    "fism",
    "ips",
    "lightgcn",
    "macr",
    "mf",
    "multvae",
    "pmf",
    "random",
    "ue",
    "zerosum",
}
DRAWS_BY_USER = {  # so that other user numbers do, by name and textual options
    "bpr",
    "expomf",
    "fism",
    "ips adam",
    "ips auto",  # pairs are held out by user
    "lightgcn",
    "lightgcn bpr",
    "lightgcn softmax",
    "macr",
    "macr lightgcn",
    "mf adam",
    "mf auto",
    "multvae",
    "pmf",
    "random",
    "ue",
    "zerosum",
    "zerosum pos2neg2",
}
