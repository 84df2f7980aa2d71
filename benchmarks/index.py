"""Lists from faiss, usearch, LanceDB and Qdrant against the exact lists of recommend, at three lams from one export.

    python benchmarks/index.py [--model FOLDER] [--dataset ml-100k] [--k 50] [--asked 300] [--json FILE]

`--model` is the folder of a fitted model that has vectors. Without it, MF is fitted on a simulated world (or on
`--dataset`), and an estimator is trained for one epoch. `aleator.export` writes each target once. The indexes that are
not exported so (graphs, cells) are built from the exported vectors by the library itself.

Each index is asked for the k best unseen items of random users, one user at a time. It filters what the user has seen
if it can, and otherwise it is asked for more items. ours is the time for all of them at the middle lam. The reference
is the time of our own exact lists, one user at a time too.

recall       the mean share of the exact list that the index returns, at lam 0, 0.5 and 1. An item counts too if its
             score equals the last one of the exact list, up to 1e-6 of the spread of the user's scores
same lists   the share of users whose list is the exact one place by place, up to such ties, over the three lams
build        seconds to build the index, without the vectors
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import Row, arguments, open_data, peer, show, timed
from numpy.typing import NDArray

import aleator as al
from aleator.batches import Users
from aleator.recommender import Recommender

LAMS = (0.0, 0.5, 1.0)
TIE = 1e-6  # of the spread of a user's scores
LINKS, BUILDING = 32, 256  # links of an item in a graph of faiss, and candidates that are looked at to find them
Numbers = NDArray[np.int64]
Search = Callable[[NDArray[np.float32], Numbers, int], Any]  # (vector, rows that were seen, k) -> rows


def make(args: Any) -> al.AUR:
    """An AUR whose estimator was trained for one epoch only."""
    model = al.MF(dim=args.dim, l2=0.003)
    estimator = al.FactorEstimator(dim=args.estimator_dim, max_epochs=1, init="spectral")  # nothing races
    knobs: dict[str, Any] = {"lam": 0.5, "residuals": "in-sample", "unobserved": "constant", "device": args.device}
    return al.AUR(model, estimator=estimator, **knobs).fit(open_data(args))


class Asked(NamedTuple):
    """The users who are asked for, and their exact lists at one lam."""

    vectors: NDArray[np.float32]  # [n, dim]
    seen: list[Numbers]  # rows of the items of each history
    lists: list[Numbers]  # rows of the exact lists, the best first
    scores: NDArray[np.float64]  # [n, rows] inner products, -inf for an item that was seen
    seconds: float  # that the exact lists took


def ask(model: Recommender, who: torch.Tensor, k: int) -> Asked:
    """The exact lists of users. A row is the place of an item among the trained ones."""
    users = model.histories.batch(who)
    made = model.vectors(users)
    row = np.cumsum(made.trained) - 1
    trained = torch.from_numpy(made.trained).to(model.torch_device)
    alone = [users.part(place, place + 1) for place in range(len(users))]

    def top(user: Users) -> Numbers:
        ((_, items),) = model.top(user, k, seen=user, candidates=[trained])
        found: Numbers = items[items >= 0].cpu().numpy()
        return found

    top(alone[0])  # what is prepared once
    seconds, items = timed(lambda: [row[top(user)] for user in alone])
    seen = [row[part] for part in np.split(users.item.cpu().numpy(), np.cumsum(users.size.cpu().numpy())[:-1])]
    scores = made.user_vectors.astype(np.float64) @ made.item_vectors[made.trained].T.astype(np.float64)
    for scored, hidden in zip(scores, seen, strict=True):
        scored[hidden] = -np.inf
    return Asked(made.user_vectors, seen, items, scores, seconds)


def agreement(asked: Asked, found: Sequence[Any]) -> tuple[float, float]:
    """The recall, and the share of lists that are the exact ones."""
    recalls, same = [], []
    for scores, exact, rows in zip(asked.scores, asked.lists, found, strict=True):
        tie = TIE * scores[np.isfinite(scores)].std()
        theirs, wanted = scores[np.asarray(rows, np.int64)], scores[exact]
        recalls.append((theirs >= wanted[-1] - tie).sum() / len(exact))
        same.append(len(theirs) == len(exact) and bool((np.abs(theirs - wanted) <= tie).all()))
    return float(np.mean(recalls)), float(np.mean(same))


def unseen(rows: Any, seen: Numbers, k: int) -> Any:
    """The first k that were not seen, for an index without filters."""
    return rows[~np.isin(rows, seen)][:k]


def by_faiss(index: Any, vector: NDArray[np.float32], seen: Numbers, k: int, **effort: int) -> Any:
    import faiss

    kinds = {"efSearch": faiss.SearchParametersHNSW, "nprobe": faiss.SearchParametersIVF}
    kind = next((kinds[name] for name in effort), faiss.SearchParameters)
    _, rows = index.search(vector[None], k, params=kind(sel=faiss.IDSelectorNot(faiss.IDSelectorBatch(seen)), **effort))
    return rows[0][rows[0] >= 0]


def faiss_indexes(model: Recommender, folder: Path) -> Iterator[tuple[str, float, Search]]:
    import faiss

    build, _ = timed(lambda: al.export(model, folder, to="faiss", users=False))
    flat = faiss.read_index(str(folder / "items.faiss"))
    yield "faiss flat, as exported", build, partial(by_faiss, flat)
    vectors = flat.reconstruct_n(0, flat.ntotal)
    graph = faiss.IndexHNSWFlat(flat.d, LINKS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = BUILDING
    seconds, _ = timed(lambda: graph.add(vectors))
    for effort in (64, 256, 1024):
        yield f"faiss HNSW, efSearch {effort}", seconds, partial(by_faiss, graph, efSearch=effort)


def usearch_indexes(model: Recommender, folder: Path) -> Iterator[tuple[str, float, Search]]:
    from usearch.index import Index

    build, _ = timed(lambda: al.export(model, folder, to="usearch", users=False))
    graph = Index.restore(str(folder / "items.usearch"))

    def search(vector: NDArray[np.float32], seen: Numbers, k: int, exact: bool) -> Any:
        return unseen(graph.search(vector, k + len(seen), exact=exact).keys.astype(np.int64), seen, k)

    yield "usearch HNSW, as exported", build, partial(search, exact=False)
    yield "usearch exact, as exported", build, partial(search, exact=True)


def lancedb_indexes(model: Recommender, folder: Path) -> Iterator[tuple[str, float, Search]]:
    import lancedb
    from lancedb.index import HnswFlat, IvfFlat

    build, _ = timed(lambda: al.export(model, folder, to="lancedb", users=False))
    table = lancedb.connect(folder / "lancedb").open_table("items")
    ids = table.to_arrow()["item_id"].to_pylist()
    row = {name: place for place, name in enumerate(ids)}

    def search(vector: NDArray[np.float32], seen: Numbers, k: int, **effort: int) -> Any:
        asked = table.search(vector, vector_column_name="vector").distance_type("dot").limit(k)
        if len(seen):
            left_out = ", ".join(
                f"'{ids[place]}'" if isinstance(ids[place], str) else str(ids[place]) for place in seen
            )
            asked = asked.where(f"item_id NOT IN ({left_out})", prefilter=True)
        for name, value in effort.items():
            asked = getattr(asked, name)(value)
        return [row[name] for name in asked.select(["item_id", "_distance"]).to_arrow()["item_id"].to_pylist()]

    yield "LanceDB scanned, as exported", build, search
    cells = max(int(len(ids) ** 0.5), 1)
    more, _ = timed(lambda: table.create_index("vector", config=IvfFlat(distance_type="dot", num_partitions=cells)))
    for share, part in (("a quarter", 4), ("half", 2)):
        yield (
            f"LanceDB IVF_FLAT, {share} of {cells} cells",
            build + more,
            partial(search, nprobes=max(cells // part, 1)),
        )
    graph = HnswFlat(distance_type="dot", num_partitions=1, m=LINKS, ef_construction=BUILDING)
    more, _ = timed(lambda: table.create_index("vector", config=graph))
    for effort in (256, 1024):
        yield f"LanceDB HNSW, ef {effort}", build + more, partial(search, ef=effort)


def qdrant_indexes(model: Recommender, folder: Path) -> Iterator[tuple[str, float, Search]]:
    from qdrant_client import QdrantClient, models

    build, _ = timed(lambda: al.export(model, folder, to="qdrant", users=False))
    client = QdrantClient(path=str(folder / "qdrant"))

    def search(vector: NDArray[np.float32], seen: Numbers, k: int) -> Any:
        left_out = models.Filter(must_not=[models.HasIdCondition(has_id=seen.tolist())])
        found = client.query_points("items", query=vector, query_filter=left_out, limit=k, with_payload=False)
        return [point.id for point in found.points]

    yield "Qdrant local, as exported", build, search


TARGETS = {
    "faiss": faiss_indexes,
    "usearch": usearch_indexes,
    "lancedb": lancedb_indexes,
    "qdrant_client": qdrant_indexes,
}


def search_all(search: Search, asked: Asked, k: int) -> list[Any]:
    return [search(vector, seen, k) for vector, seen in zip(asked.vectors, asked.seen, strict=True)]


def measure(name: str, build: float, search: Search, asked: dict[float, Asked], k: int) -> Row:
    """One index at all lams."""
    found, seconds = {}, {}
    for lam, users in asked.items():
        search(users.vectors[0], users.seen[0], k)  # what is loaded on first use
        seconds[lam], lists = timed(partial(search_all, search, users, k))
        found[lam] = agreement(users, lists)
    middle = list(asked)[len(asked) // 2]
    more = {f"recall at {lam:g}": recall for lam, (recall, _) in found.items()}
    same = float(np.mean([share for _, share in found.values()]))
    speed = len(asked[middle].vectors) / seconds[middle]
    more |= {"same lists": same, "users/s": speed, "build, s": build}
    return Row(name, seconds[middle], asked[middle].seconds, "our exact lists", more=more)


def main() -> None:
    parser = arguments(__doc__, users=2000, items=1000)
    parser.add_argument("--model", type=Path, help="folder of a fitted model that has vectors; it brings its own data")
    parser.add_argument("--estimator-dim", type=int, default=128, help="of the estimator that is fitted here")
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--asked", type=int, default=300, help="users who are asked for")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    args = parser.parse_args()
    model = al.load_model(args.model, args.device) if args.model else make(args)
    known = (model.histories.host_size > 0).nonzero().squeeze(1)
    who = known[torch.randperm(len(known), generator=torch.Generator().manual_seed(0))[: args.asked]].sort().values
    turned = {lam: model.at(lam) for lam in LAMS} if isinstance(model, al.AUR) else {1.0: model}
    asked = {lam: ask(at, who, args.k) for lam, at in turned.items()}
    rows = []
    for library in args.targets:
        if peer(library) is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for name, build, search in TARGETS[library](model, Path(folder)):
                rows.append(measure(name, build, search, asked, args.k))
    data = {"users": len(who), "items": int((model.fitted.popularity > 0).sum())}
    data["dim"] = model.vectors([]).item_vectors.shape[1]
    show("index", rows, args.json, k=args.k, model=str(args.model or "fitted here"), data=data)


if __name__ == "__main__":
    main()
