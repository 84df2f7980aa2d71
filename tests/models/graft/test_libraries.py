"""Models of other libraries, live. A library that is not installed is skipped."""

from __future__ import annotations

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
        users, items = list(model.uid_map)[:9], list(model.iid_map)
        for user, found in zip(users, orders(grafted, users, items), strict=True):
            theirs = np.asarray(model.score(model.uid_map[user]))
            mine = theirs[[model.iid_map[item] for item in found]]
            np.testing.assert_allclose(mine, np.sort(theirs)[::-1][:K], rtol=1e-4)


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

    def test_an_onnx_file_scores_as_the_module(self, split: al.Split, network: Network, tmp_path: Path) -> None:
        onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx")
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime")
        from onnx import TensorProto, helper, numpy_helper

        x, y = network.users.weight.numpy(), network.items.weight.numpy().T.copy()
        graph = helper.make_graph(
            [helper.make_node("Gather", ["x", "rows"], ["own"]), helper.make_node("MatMul", ["own", "y"], ["scores"])],
            "scores",
            [helper.make_tensor_value_info("rows", TensorProto.INT64, ["n"])],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", y.shape[1]])],
            [numpy_helper.from_array(x, "x"), numpy_helper.from_array(y, "y")],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(made, tmp_path / "m.onnx")
        users = split.train.users.ids.tolist()
        grafted = al.graft(tmp_path / "m.onnx", users=users[::-1]).fit(split)
        torch.testing.assert_close(grafted.score(users), al.graft(network, users=users[::-1]).fit(split).score(users))
        (tmp_path / "bad.onnx").write_bytes(b"garbage")
        with pytest.raises(al.AleatorError, match="cannot be read as ONNX"):
            al.graft(tmp_path / "bad.onnx", users=users)
