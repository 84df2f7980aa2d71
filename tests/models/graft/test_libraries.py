"""Models of other libraries, live. A library that is not installed is skipped."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import aleator as al

N_USERS, N_ITEMS, K = 80, 50, 5


@pytest.fixture(scope="module")
def split() -> al.Split:
    data = al.simulate(n_users=N_USERS, n_items=N_ITEMS, per_user=200, seed=2).interactions
    names = {"user": [f"u{n}" for n in data.user], "item": [f"i{n}" for n in data.item]}
    return al.read(names).split(valid=0.1, test=0.2, seed=0)


@pytest.fixture(scope="module")
def frame(split: al.Split) -> pd.DataFrame:
    data = split.train
    return pd.DataFrame({"user_id": data.users.decode(data.user), "item_id": data.items.decode(data.item)})


def orders(grafted: al.Model, users: list[str], items: list[str]) -> list[list[str]]:
    scores = grafted.score(users, items)
    return [[items[i] for i in row[:K]] for row in scores.argsort(1, descending=True).tolist()]


def others(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame of a shop that knows neither u0 nor i0, but a stranger and a novelty."""
    names = {"u0": "stranger", "i0": "novelty"}
    return frame.replace(names)


def check_counts(grafted: Any, split: al.Split, fate: str) -> None:
    """Whether a graft of a model of `others` counts the ids that one side alone has, and tells their fate."""
    made = grafted.fit(split)
    n_users, n_items = split.train.n_users, split.train.n_items
    assert made.reconciled["users"] == {"both": n_users - 1, "only_data": 1, "only_model": 1}
    assert made.reconciled["items"]["only_data"] == n_items - made.reconciled["items"]["both"] > 0
    assert made.reconciled["items"]["only_model"] == 1
    assert f"graft: 1 of {n_users} users of the data are unknown to the model and {fate}" in made.notes
    assert bool(made.score(["u0", "u1"]).isfinite().all())


FOLDED, SHARE = "are served by their history", "get each item's share of the users"


class TestLensKit:
    @pytest.fixture
    def dataset(self, frame: pd.DataFrame) -> Any:
        reason = "LensKit is not installed: pip install lenskit"
        return pytest.importorskip("lenskit.data", reason=reason).from_interactions_df(frame)

    @pytest.mark.parametrize("name", ["als", "knn"])
    def test_a_pipeline_lists_the_same_items(self, split: al.Split, dataset: Any, name: str) -> None:
        from lenskit import score
        from lenskit.als import ImplicitMFScorer
        from lenskit.knn import ItemKNNScorer
        from lenskit.pipeline import topn_pipeline

        scorer = ImplicitMFScorer(embedding_size=8) if name == "als" else ItemKNNScorer(max_nbrs=9, feedback="implicit")
        pipeline = topn_pipeline(scorer)
        pipeline.train(dataset)
        grafted = al.graft(pipeline, check=name == "als").fit(split)
        users, items = list(dataset.users.ids())[:9], list(dataset.items.ids())
        for user, found in zip(users, orders(grafted, users, items), strict=True):
            theirs = score(pipeline, user, items).scores()
            mine = theirs[[items.index(item) for item in found]]
            np.testing.assert_allclose(mine, np.sort(theirs[~np.isnan(theirs)])[::-1][:K], rtol=1e-5)

    @pytest.mark.parametrize("whole", [False, True])
    def test_ids_that_one_side_alone_has(self, split: al.Split, frame: pd.DataFrame, whole: bool) -> None:
        data = pytest.importorskip("lenskit.data", reason="LensKit is not installed: pip install lenskit")
        from lenskit.als import ImplicitMFScorer
        from lenskit.pipeline import topn_pipeline

        scorer = ImplicitMFScorer(embedding_size=8)
        trained = topn_pipeline(scorer) if whole else scorer
        trained.train(data.from_interactions_df(others(frame)))
        check_counts(al.graft(trained), split, SHARE if whole else FOLDED)

    def test_a_scorer_of_factors_is_saved_with_the_model(self, split: al.Split, dataset: Any, tmp_path: Path) -> None:
        from lenskit.als import ImplicitMFScorer

        scorer = ImplicitMFScorer(embedding_size=8)
        with pytest.raises(al.AleatorError, match="no user factors"):
            al.graft(scorer)
        scorer.train(dataset)
        grafted = al.graft(scorer, calibrate="none").fit(split)
        users, items = list(scorer.users.ids()), list(scorer.items.ids())
        expected = torch.from_numpy(scorer.user_embeddings @ scorer.item_embeddings.T).float()
        torch.testing.assert_close(grafted.score(users, items), expected)
        grafted.save(tmp_path / "m")
        assert torch.equal(al.load_model(tmp_path / "m").score(users), grafted.score(users))


class TestRecTools:
    """RecTools allows numpy 2 from Python 3.13 on. Below that, its environment hands files over: docs/graft.md."""

    @pytest.fixture
    def dataset(self, frame: pd.DataFrame) -> Any:
        data = pytest.importorskip("rectools.dataset", reason="RecTools is not installed: pip install rectools")
        return data.Dataset.construct(frame.assign(weight=1.0, datetime="2020-01-01"))

    @pytest.mark.parametrize("name", ["svd", "als", "ease", "itemknn"])
    def test_a_model_lists_the_same_items(self, split: al.Split, dataset: Any, name: str) -> None:
        from implicit.als import AlternatingLeastSquares
        from implicit.nearest_neighbours import CosineRecommender
        from rectools import models

        model = {
            "svd": lambda: models.PureSVDModel(factors=8, random_state=0),
            "als": lambda: models.ImplicitALSWrapperModel(AlternatingLeastSquares(factors=8, random_state=0)),
            "ease": lambda: models.EASEModel(regularization=5.0),
            "itemknn": lambda: models.ImplicitItemKNNWrapperModel(CosineRecommender(K=9)),
        }[name]()
        with pytest.raises(al.AleatorError, match="not fitted"):
            al.graft((model, dataset))
        model.fit(dataset)
        with pytest.raises(al.AleatorError, match=r"has no ids.*\(model, dataset\)"):
            al.graft(model)
        grafted = al.graft((model, dataset), check=name in ("svd", "als")).fit(split)
        users, items = list(dataset.user_id_map.external_ids)[:9], list(dataset.item_id_map.external_ids)
        listed = model.recommend(users, dataset, k=len(items), filter_viewed=False)
        for user, found in zip(users, orders(grafted, users, items), strict=True):
            theirs = listed[listed.user_id == user].set_index("item_id")["score"]
            np.testing.assert_allclose(theirs[found], theirs.iloc[:K], rtol=1e-5)

    @pytest.mark.parametrize("name", ["PureSVDModel", "EASEModel"])
    def test_ids_that_one_side_alone_has(self, split: al.Split, frame: pd.DataFrame, name: str) -> None:
        models = pytest.importorskip("rectools.models", reason="RecTools is not installed: pip install rectools")
        from rectools.dataset import Dataset

        dataset = Dataset.construct(others(frame).assign(weight=1.0, datetime="2020-01-01"))
        model = getattr(models, name)().fit(dataset)
        grafted = al.graft((model, dataset), check=False)
        check_counts(grafted, split, FOLDED if name == "PureSVDModel" else SHARE)


class TestCornac:
    @pytest.fixture
    def dataset(self, frame: pd.DataFrame) -> Any:
        data = pytest.importorskip("cornac.data", reason="Cornac is not installed: pip install cornac")
        triples = [(user, item, 1.0) for user, item in zip(frame.user_id, frame.item_id, strict=True)]
        return data.Dataset.from_uir(triples, seed=0)

    @pytest.mark.parametrize("name", ["bpr", "itemknn"])
    def test_a_model_lists_the_same_items(self, split: al.Split, dataset: Any, name: str) -> None:
        from cornac.models import BPR, ItemKNN

        model = (
            BPR(k=8, max_iter=300, learning_rate=0.05, seed=0)
            if name == "bpr"
            else ItemKNN(k=9, similarity="cosine", verbose=False)
        )
        with pytest.raises(al.AleatorError, match="not fitted"):
            al.graft(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(dataset)
        grafted = al.graft(model, check=name == "bpr", calibrate="none").fit(split)
        assert type(grafted).__name__ == ("GraftedFactors" if name == "bpr" else "GraftedFunction")
        users, items = list(model.uid_map)[:9], list(model.iid_map)
        for user, found in zip(users, orders(grafted, users, items), strict=True):
            theirs = np.asarray(model.score(model.uid_map[user]))
            mine = theirs[[model.iid_map[item] for item in found]]
            np.testing.assert_allclose(mine, np.sort(theirs)[::-1][:K], rtol=1e-4)

    def test_ids_that_one_side_alone_has(self, split: al.Split, frame: pd.DataFrame) -> None:
        data = pytest.importorskip("cornac.data", reason="Cornac is not installed: pip install cornac")
        from cornac.models import BPR

        rows = others(frame)
        triples = [(user, item, 1.0) for user, item in zip(rows.user_id, rows.item_id, strict=True)]
        model = BPR(k=8, max_iter=300, learning_rate=0.05, seed=0).fit(data.Dataset.from_uir(triples, seed=0))
        check_counts(al.graft(model), split, FOLDED)


class TestSpark:
    def test_a_folder_that_spark_wrote(self, split: al.Split, frame: pd.DataFrame, tmp_path: Path) -> None:
        """Spark numbers users and items by StringIndexer. Its labels, in their order, are the names of the numbers."""
        sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed: pip install pyspark")
        if shutil.which("java") is None:
            pytest.skip("Spark needs Java")
        from pyspark.ml.feature import StringIndexer
        from pyspark.ml.recommendation import ALS

        quiet = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
        spark = sql.SparkSession.builder.master("local[1]").config(map=quiet).getOrCreate()
        try:
            data = spark.createDataFrame(frame.assign(rating=1.0))
            index = StringIndexer(inputCols=["user_id", "item_id"], outputCols=["user", "item"]).fit(data)
            als = ALS(rank=8, maxIter=5, implicitPrefs=True, userCol="user", itemCol="item", seed=0)
            model = als.fit(index.transform(data))
            model.save(str(tmp_path / "als"))
            predicted = model.transform(index.transform(data)).toPandas()
            users, items = index.labelsArray
        finally:
            spark.stop()
        grafted = al.graft(tmp_path / "als", users=users, items=items, calibrate="none").fit(split)
        assert grafted.reconciled["users"]["both"] == len(users)
        mine = grafted.score(predicted.user_id.tolist()).numpy()
        columns = split.train.items.encode(predicted.item_id.to_numpy())
        np.testing.assert_allclose(mine[np.arange(len(mine)), columns], predicted.prediction, rtol=1e-4, atol=1e-5)


class Network(torch.nn.Module):
    """Scores by tables of users and items."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        super().__init__()
        self.users = torch.nn.Embedding(x.shape[0], x.shape[1], _weight=x, _freeze=True)
        self.items = torch.nn.Embedding(y.shape[0], y.shape[1], _weight=y, _freeze=True)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.dropout(self.users(rows)) @ self.items.weight.T
        return scores


@pytest.fixture(scope="module")
def network(split: al.Split) -> Network:
    u, s, v = np.linalg.svd(split.train.csr.toarray(), full_matrices=False)
    return Network(torch.from_numpy(u[::-1, :8] * s[:8]).float(), torch.from_numpy(v[:8].T.copy()).float())


class TestNetworks:
    def test_a_torch_module_is_asked_by_rows_and_scores_as_in_use(self, split: al.Split, network: Network) -> None:
        users = split.train.users.ids.tolist()
        network.train()
        grafted = al.graft(network, users=users[::-1], calibrate="none").fit(split)
        expected = network.users.weight.flip(0) @ network.items.weight.T
        torch.testing.assert_close(grafted.score(users), expected)
        assert network.training
        with pytest.raises(al.AleatorError, match=r"no row numbers.*users="):
            al.graft(network).fit(split)

    def test_a_module_without_a_row_for_each_user(self, split: al.Split, network: Network) -> None:
        small = Network(network.users.weight[:9], network.items.weight)
        with pytest.raises(al.AleatorError, match=r"the Network gave no scores for .* a row for each user"):
            al.graft(small, users=split.train.users.ids).fit(split)

    def test_an_onnx_file_scores_as_the_module(self, split: al.Split, network: Network, tmp_path: Path) -> None:
        users = split.train.users.ids.tolist()
        grafted = al.graft(write_onnx(tmp_path / "m.onnx", network), users=users[::-1]).fit(split)
        torch.testing.assert_close(grafted.score(users), al.graft(network, users=users[::-1]).fit(split).score(users))

    def test_onnx_files_that_are_refused(
        self, split: al.Split, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        users = split.train.users.ids.tolist()
        monkeypatch.chdir(tmp_path)  # where onnxruntime would look for weights outside of the file
        (tmp_path / "bad.onnx").write_bytes(b"garbage")
        for path, problem in (
            (tmp_path / "bad.onnx", "cannot be read as ONNX"),
            (write_onnx(tmp_path / "outside.onnx", network, outside=True), "one file with standard operators"),
            (write_onnx(tmp_path / "custom.onnx", network, domain="mine"), "one file with standard operators"),
            (write_onnx(tmp_path / "short.onnx", network, kind="INT32"), "does not take one tensor of int64"),
        ):
            with pytest.raises(al.AleatorError, match=problem):
                al.graft(path, users=users)
        one_by_one = write_onnx(tmp_path / "one.onnx", network, n=1)
        with pytest.raises(al.AleatorError, match=r"gave no scores.*for any n"):
            al.graft(one_by_one, users=users).fit(split)


def write_onnx(
    path: Path, network: Network, *, domain: str = "", kind: str = "INT64", n: int | str = "n", outside: bool = False
) -> Path:
    """The network as a file. Operators of another domain are unknown to onnxruntime."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime")
    from onnx import TensorProto, helper, numpy_helper

    x, y = network.users.weight.numpy(), network.items.weight.numpy().T.copy()
    gather = helper.make_node("Gather", ["x", "rows"], ["own"], domain=domain)
    graph = helper.make_graph(
        [gather, helper.make_node("MatMul", ["own", "y"], ["scores"])],
        "scores",
        [helper.make_tensor_value_info("rows", TensorProto.DataType.Value(kind), [n])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [n, y.shape[1]])],
        [numpy_helper.from_array(x, "x"), numpy_helper.from_array(y, "y")],
    )
    known = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    made = helper.make_model(graph, opset_imports=known, ir_version=9)
    onnx.save_model(made, path, save_as_external_data=outside, location="weights.bin", size_threshold=0)
    return path
