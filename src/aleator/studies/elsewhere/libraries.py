"""The libraries: how each fits its model, which is then grafted.

A library is imported where its model is fitted. Each function takes the training pairs, the options of the graft, the
seed and options of the library, of which `factors` is the number of dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aleator.data.interactions import Interactions
from aleator.models.graft import graft
from aleator.models.graft.base import Grafted


@dataclass(frozen=True)
class Library:
    """What fits a model."""

    name: str  # of the module
    fit: Callable[..., Grafted]
    package: str = "'aleator[graft]'"  # what installs it

    @property
    def installed(self) -> bool:
        return util.find_spec(self.name) is not None

    @property
    def version(self) -> str:
        """Its name and version."""
        return f"{self.name} {metadata.version(self.name)}"


def implicit_als(data: Interactions, about: dict[str, Any], seed: int, **options: Any) -> Grafted:
    from implicit.cpu.als import AlternatingLeastSquares

    return _implicit(AlternatingLeastSquares(**options, random_state=seed), data, about)


def implicit_bpr(data: Interactions, about: dict[str, Any], seed: int, **options: Any) -> Grafted:
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    return _implicit(BayesianPersonalizedRanking(**options, random_state=seed), data, about)


def _implicit(model: Any, data: Interactions, about: dict[str, Any]) -> Grafted:
    model.fit(data.csr, show_progress=False)
    return graft(model, **about)


def lenskit_als(
    data: Interactions,
    about: dict[str, Any],
    seed: int,
    *,
    factors: int = 64,
    weight: float = 40,
    regularization: float = 0.1,
) -> Grafted:
    from lenskit.als import ImplicitMFScorer
    from lenskit.data import from_interactions_df
    from lenskit.training import TrainingOptions

    scorer = ImplicitMFScorer(embedding_size=factors, weight=weight, regularization=regularization)
    scorer.train(from_interactions_df(_frame(data)), TrainingOptions(rng=seed))
    return graft(scorer, **about)


def cornac_bpr(
    data: Interactions,
    about: dict[str, Any],
    seed: int,
    *,
    factors: int = 64,
    iterations: int = 100,
    learning_rate: float = 0.05,
    regularization: float = 0.003,
) -> Grafted:
    from cornac.data import Dataset
    from cornac.models import BPR

    frame = _frame(data)
    rows = [(user, item, 1.0) for user, item in zip(frame.user_id, frame.item_id, strict=True)]
    options = {"learning_rate": learning_rate, "lambda_reg": regularization}
    model = BPR(k=factors, max_iter=iterations, **options, seed=seed).fit(Dataset.from_uir(rows, seed=seed))
    return graft(model, **about)


def rectools_svd(data: Interactions, about: dict[str, Any], seed: int, *, factors: int = 64) -> Grafted:
    from rectools.dataset import Dataset
    from rectools.models import PureSVDModel

    dataset = Dataset.construct(_frame(data).assign(weight=1.0, datetime="2020-01-01"))
    model = PureSVDModel(factors=factors, random_state=seed).fit(dataset)
    return graft((model, dataset), **about)


def spark_als(
    data: Interactions,
    about: dict[str, Any],
    seed: int,
    *,
    factors: int = 64,
    alpha: float = 10.0,
    regularization: float = 0.05,
) -> Grafted:
    """Spark takes whole numbers as ids, so it gets dense ids. The graft names them."""
    from pyspark.ml.recommendation import ALS
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.config(map={"spark.ui.enabled": "false"}).getOrCreate()
    als = ALS(rank=factors, alpha=alpha, regParam=regularization, implicitPrefs=True, userCol="user", itemCol="item")
    with TemporaryDirectory() as folder:
        try:
            pairs = spark.createDataFrame(_frame(data, user=data.user, item=data.item).assign(rating=1.0))
            als.setSeed(seed).fit(pairs).save(f"{folder}/als")
        finally:
            spark.stop()
        return graft(Path(folder) / "als", users=data.users.ids, items=data.items.ids, **about)


def _frame(data: Interactions, **columns: Any) -> Any:
    """A frame of these columns; by default the ids of all pairs."""
    import pandas as pd

    ids = {"user_id": data.users.decode(data.user), "item_id": data.items.decode(data.item)}
    return pd.DataFrame(columns or ids)


LIBRARIES = {
    "implicit-als": Library("implicit", implicit_als),
    "implicit-bpr": Library("implicit", implicit_bpr),
    "lenskit-als": Library("lenskit", lenskit_als),
    "cornac-bpr": Library("cornac", cornac_bpr),
    "rectools-svd": Library("rectools", rectools_svd, "rectools"),
    "spark-als": Library("pyspark", spark_als, "pyspark"),
}
