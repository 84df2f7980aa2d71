"""Each index returns the exact lists of the model that it was made from, at every lam, to everybody."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import aleator as al
from aleator.recommender import Recommender

from .conftest import UNTRAINED, aur_on, taken

Search = Callable[[NDArray[np.float32], list[Any], int], list[Any]]  # (vector, ids to leave out, k) -> ids
K = 10


def by_faiss(folder: Path) -> Search:
    faiss = pytest.importorskip("faiss", reason="needs the extra index")
    index, ids = faiss.read_index(str(folder / "items.faiss")), pl.read_parquet(folder / "items.parquet")["item_id"]
    assert index.metric_type == faiss.METRIC_INNER_PRODUCT

    def search(vector: NDArray[np.float32], seen: list[Any], k: int) -> list[Any]:
        rows = faiss.IDSelectorBatch(np.flatnonzero(ids.is_in(seen)))
        _, found = index.search(vector[None], k, params=faiss.SearchParameters(sel=faiss.IDSelectorNot(rows)))
        listed: list[Any] = ids[found[0].tolist()].to_list()
        return listed

    return search


def by_usearch(folder: Path) -> Search:
    usearch = pytest.importorskip("usearch.index", reason="needs the extra index")
    index, ids = usearch.Index.restore(folder / "items.usearch"), pl.read_parquet(folder / "items.parquet")["item_id"]

    def search(vector: NDArray[np.float32], seen: list[Any], k: int) -> list[Any]:
        found = ids[index.search(vector, k + len(seen)).keys.tolist()].to_list()
        return [name for name in found if name not in seen][:k]

    return search


def by_lancedb(folder: Path) -> Search:
    lancedb = pytest.importorskip("lancedb", reason="needs the extra index")
    table = lancedb.connect(folder / "lancedb").open_table("items")

    def search(vector: NDArray[np.float32], seen: list[Any], k: int) -> list[Any]:
        left_out = ", ".join(f"'{name}'" if isinstance(name, str) else str(name) for name in seen)
        asked = table.search(vector, vector_column_name="vector").distance_type("dot").limit(k)
        found: list[Any] = asked.where(f"item_id NOT IN ({left_out})", prefilter=True).to_arrow()["item_id"].to_pylist()
        return found

    return search


def by_qdrant(folder: Path) -> Search:
    qdrant = pytest.importorskip("qdrant_client", reason="needs the extra index")
    models, client = qdrant.models, qdrant.QdrantClient(path=str(folder / "qdrant"))

    def search(vector: NDArray[np.float32], seen: list[Any], k: int) -> list[Any]:
        left_out = models.Filter(must_not=[models.FieldCondition(key="item_id", match=models.MatchAny(any=seen))])
        found = client.query_points("items", query=vector, query_filter=left_out, limit=k)
        return [point.payload["item_id"] for point in found.points]

    return search


INDEXES = {"faiss": by_faiss, "usearch": by_usearch, "lancedb": by_lancedb, "qdrant": by_qdrant}


@pytest.fixture(scope="module", params=INDEXES)
def target(request: pytest.FixtureRequest) -> str:
    module = {"qdrant": "qdrant_client"}.get(request.param, request.param)
    pytest.importorskip(module, reason="needs the extra index")
    return str(request.param)


def assert_same_list(model: Recommender, vector: NDArray[np.float32], found: list[Any], wanted: list[Any]) -> None:
    """Item by item, except for items whose scores are equal up to 1e-6 of the spread."""
    made = model.vectors([])
    scores = made.item_vectors.astype(np.float64) @ vector
    ours, theirs = (scores[model.fitted.items.encode(ids)] for ids in (found, wanted))
    assert len(set(found)) == len(found) == len(wanted)
    assert np.abs(ours - theirs).max() <= 1e-6 * scores.std()


def test_one_index_gives_the_exact_lists_at_every_lam(aur: al.AUR, target: str, tmp_path: Path) -> None:
    """Graphs too: on so few items they find all."""
    told = al.export(aur, tmp_path / "index", to=target)  # type: ignore[arg-type]
    search = INDEXES[target](tmp_path / "index")
    everyone = aur.fitted.users.ids.tolist()[:20]
    for lam in (0.0, 0.4, 1.0):
        vectors = aur.vectors(everyone, lam=lam)
        lists = aur.recommend(everyone, k=K, lam=lam)
        for user, vector in zip(everyone, vectors.user_vectors, strict=True):
            wanted = lists.filter(pl.col("user_id") == user)["item_id"].to_list()
            assert_same_list(aur, vector, search(vector, taken(aur, user), K), wanted)
    history = taken(aur, everyone[3])[:2]
    wanted = aur.recommend({"new": history}, k=K, lam=0.4)["item_id"].to_list()
    vector = aur.user_vector(history, lam=0.4)
    assert_same_list(aur, vector, search(vector, history, K), wanted)
    assert told["metric"] == "inner product"
    assert told["versions"].keys() == {"aleator", target}
    al.check_export(tmp_path / "index", aur)


def graft(data: al.Interactions) -> Any:
    """Factors that follow the histories."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(data.n_users, 5)) + 0.3, draw.normal(size=(data.n_items, 5)) + 0.3
    y += 0.2 * (data.csr.T @ x) / (1 + np.asarray(data.csr.sum(0)).T)
    ids = {"users": data.users.ids.tolist(), "items": data.items.ids.tolist()}
    return al.graft((x, y), check=False, **ids)


MODELS: dict[str, tuple[Callable[[al.Interactions], Any], int | None]] = {
    "FISM": (lambda data: al.FISM(dim=6, max_epochs=3), None),
    "MF": (lambda data: al.MF(dim=6, l2=0.003), None),
    "EASE": (lambda data: al.EASE(l2=5.0), 12),
    "MultVAE": (lambda data: al.MultVAE(hidden=16, dim=4, max_epochs=2, dropout=0.0), None),
    "Popularity": (lambda data: al.Popularity(), None),
    "graft": (graft, None),
}


@pytest.mark.parametrize("under_aur", [False, True], ids=["bare", "AUR"])
@pytest.mark.parametrize("name", MODELS)
def test_lists_of_every_kind_of_model_from_its_files_alone(
    name: str, under_aur: bool, data: al.Interactions, tmp_path: Path
) -> None:
    """From what `npy` writes: with a rank, those of the approximation."""
    make, rank = MODELS[name]
    model = aur_on(make(data)) if under_aur else make(data)
    model.fit(data)
    told = al.export(model, tmp_path / "x", to="npy", rank=rank)
    assert (told["rank"], told["model"]) == (rank, type(model).__name__)
    items, item_ids, users, user_ids = (
        np.load(tmp_path / "x" / f"{file}.npy", allow_pickle=False)
        for file in ("items/vector", "items/item_id", "users/vector", "users/user_id")
    )
    assert user_ids.tolist() == data.users.ids.tolist()
    assert len(item_ids) == 39
    scores = users.astype(np.float64) @ items.T
    if rank is None:
        everything = model.score(data.users.ids.tolist()).numpy()
        own = everything[:, data.items.encode(item_ids.tolist())]
        np.testing.assert_allclose(scores, own, atol=1e-5 * own.std(), rtol=1e-5)
    else:
        assert 0 < told["recall"] < 1
    new = model.user_vector(item_ids[:3].tolist(), rank=rank)
    np.testing.assert_allclose(new, model.vectors({"x": item_ids[:3].tolist()}, rank=rank).user_vectors[0], atol=1e-6)
    assert new.shape == (told["dim"],)
    alone = [place for place, size in enumerate(np.diff(data.csr.indptr)) if not size]
    assert alone
    popular = np.argsort(-data.popularity[data.items.encode(item_ids.tolist())], kind="stable")
    assert np.argsort(-scores[alone[0]], kind="stable").tolist() == popular.tolist()


def test_a_scan_finds_what_a_flat_index_finds_with_a_rank(data: al.Interactions, target: str, tmp_path: Path) -> None:
    ease = aur_on(al.EASE(l2=5.0)).fit(data)
    al.export(ease, tmp_path / "x", to=target, rank=12)  # type: ignore[arg-type]
    history = taken(ease, data.users.ids[4])
    vector = ease.user_vector(history, rank=12)
    found = INDEXES[target](tmp_path / "x")(vector, history, K)
    made = ease.vectors([], rank=12)
    scores = made.item_vectors @ vector
    scores[~made.trained] = -np.inf
    scores[data.items.encode(history)] = -np.inf
    assert found == data.items.decode(np.argsort(-scores, kind="stable")[:K]).tolist()


def test_ids_stand_beside_an_index_that_takes_integers_alone(aur: al.AUR, target: str, tmp_path: Path) -> None:
    al.export(aur, tmp_path / "x", to=target)  # type: ignore[arg-type]
    manifest = json.loads((tmp_path / "x" / "manifest.json").read_text())
    beside = (tmp_path / "x" / "items.parquet").exists()
    assert beside == (target in ("faiss", "usearch"))
    assert manifest["columns"] == ["item_id", "popularity", "tail", "title"]
    if beside:
        table = pl.read_parquet(tmp_path / "x" / "items.parquet")
        assert table.columns == manifest["columns"]
        trained = np.flatnonzero(aur.fitted.popularity)
        assert table["item_id"].to_list() == aur.fitted.items.decode(trained).tolist()
        assert UNTRAINED not in trained
