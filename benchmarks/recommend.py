"""`recommend` as people call it: all users in one frame, against implicit, and one user at a time.

    python benchmarks/recommend.py [--dataset yelp2018 | --users 6000 --items 3500] [--models MF MF-AUR FISM-AUR]
        [--jobs all one] [--k 50] [--folder FOLDER] [--json FILE]

Models are fitted once: MF by ALS, and AUR on MF and on FISM (the default's usual winner). The estimator is trained for
one epoch, and nothing races. `--folder` keeps them for other runs. What the vectors look like matters for speed, because
bounds skip most items.

all   `model.recommend(users, k)` for all users: the whole call, with ids in and a frame out. implicit's recommend gets
      the factors of an MF, leaves out what was seen too, and returns arrays. faiss and usearch search the same vectors as
      ours exactly, for the k best of `--sample` users, without leaving anything out. Our lists are compared with all
      scores, for a sample of users.
one   `model.recommend([user], 20)`, in milliseconds: the median, and the 99th percentile as p99. cold is the first call
      after `load_model`. A newcomer has the history of a known user. busy is beside a process that keeps a core busy,
      against no such process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Row, arguments, one_blas_thread, open_data, peer, seconds, show, timed
from numpy.typing import NDArray

import aleator as al
from aleator.recommender import Recommender

TOLERANCE = 1e-4  # of scores: sums in float32
LISTED, WARM = 20, 50  # items of the lists of one user, and calls that are not counted
KNOBS: dict[str, Any] = {  # nothing races, and nothing is chosen
    "lam": 0.4,
    "residuals": "in-sample",
    "unobserved": "constant",
    "discount": 0,
    "prior": 0,
    "refit": False,
    "valid": 0.01,
}


def make(name: str, args: Any) -> Recommender:
    """A model, whose estimator was trained for one epoch only."""
    model: al.Model = al.FISM(max_epochs=6) if name.startswith("FISM") else al.MF(dim=args.dim, l2=0.003)
    if not name.endswith("AUR"):
        return model.with_defaults(device=args.device).fit(open_data(args))
    estimator = al.FactorEstimator(dim=args.estimator_dim, max_epochs=1, init="spectral")
    return al.AUR(model, estimator=estimator, device=args.device, **KNOBS).fit(open_data(args))


def kept(name: str, args: Any, folder: Path) -> Path:
    """The folder of a fitted model."""
    place = folder / name
    if not place.exists():
        make(name, args).save(place)
    return place


def check(model: Recommender, frame: Any, k: int, n: int = 200) -> None:
    """Stop the benchmark if the lists of some users are not those of all scores. Items whose scores agree may differ."""
    data = model.fitted
    index = torch.randperm(data.n_users, generator=torch.Generator().manual_seed(0))[:n]
    users = model.histories.batch(index)
    with torch.no_grad():
        scores = model.score_block(users)
    scores[:, torch.from_numpy(data.popularity == 0)] = -torch.inf
    scores[users.row, users.item] = -torch.inf
    wanted = scores.topk(k).values.double().numpy()
    lists = dict(frame.select("user_id", "item_id").rows_by_key("user_id", unique=False))
    for name, row, best in zip(data.users.decode(index.numpy()).tolist(), scores, wanted, strict=True):
        items = data.items.encode([item[0] if isinstance(item, tuple) else item for item in lists.get(name, [])])
        found = row[torch.from_numpy(items)].double().numpy()
        best = best[np.isfinite(best)]
        if len(found) != len(best) or len(set(items)) < len(best) or not np.allclose(found, best, TOLERANCE, TOLERANCE):
            raise SystemExit(f"the list of user {name} is not that of all scores")


def by_implicit(model: al.MF, threads: int) -> Callable[..., Any] | None:
    """implicit's recommend with the factors of `model`, for dense ids of users and k."""
    if peer("implicit") is None:
        return None
    from implicit.cpu.als import AlternatingLeastSquares

    seen = model.fitted.csr
    with one_blas_thread():
        als = AlternatingLeastSquares(factors=model.dim, num_threads=threads)
    als.user_factors, als.item_factors = model.table.users.cpu().numpy(), model.table.items.cpu().numpy()

    def recommend(users: NDArray[np.int64], k: int) -> Any:
        with one_blas_thread():
            return als.recommend(users, seen[users], N=k)

    return recommend


def exact_indexes(model: Recommender, users: NDArray[np.int64], k: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Searches of exact flat indexes for the k best of users, without leaving anything out."""
    made = model.vectors(model.histories.batch(torch.from_numpy(users)))
    asked, items = made.user_vectors, np.ascontiguousarray(made.item_vectors[made.trained])
    if peer("faiss") is not None:
        import faiss

        faiss.omp_set_num_threads(torch.get_num_threads())
        index = faiss.IndexFlatIP(items.shape[1])
        index.add(items)
        yield "faiss flat, nothing left out", lambda: index.search(asked, k)
    if peer("usearch") is not None:
        from usearch.index import MetricKind, search

        threads = torch.get_num_threads()
        yield (
            "usearch exact, nothing left out",
            lambda: search(items, asked, k, MetricKind.IP, exact=True, threads=threads),
        )


def of_all(name: str, model: Recommender, implicit: float | None, args: Any) -> list[Row]:
    """Rows of `recommend` for all users in one call. `implicit` are the seconds of implicit."""
    n_users, rows = model.fitted.n_users, []
    who = model.fitted.users.decode(np.arange(n_users)).tolist()
    ours, frame = timed(lambda: model.recommend(who, k=args.k), args.repeats)
    check(model, frame, args.k)

    def row(against: str, theirs: float) -> Row:
        speed = {"users/s": n_users / ours, "theirs": n_users / theirs}
        return Row(f"all users, {name}", ours, theirs, against, more=speed)

    if implicit is not None:
        rows.append(row("implicit, MF", implicit))
    sample = np.random.default_rng(0).permutation(n_users)[: args.sample]
    for against, search in exact_indexes(model, sample, args.k) if len(sample) else ():
        rows.append(row(against, seconds(search, args.repeats) * n_users / len(sample)))
    return rows or [Row(f"all users, {name}", ours, more={"users/s": n_users / ours})]


@contextmanager
def busy() -> Iterator[None]:
    """Inside, another process keeps a core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def latency(call: Callable[[int], Any], calls: int) -> tuple[float, float]:
    """The median and the 99th percentile of the seconds of calls, in milliseconds."""
    taken = []
    for number in range(WARM + calls):
        start = time.perf_counter()
        call(number)
        taken.append(1000 * (time.perf_counter() - start))
    median, late = np.percentile(taken[WARM:], [50, 99]).tolist()
    return median, late


def of_one(name: str, place: Path, implicit: float | None, args: Any) -> list[Row]:
    """Rows of `recommend` for one user at a time. `implicit` is the median of implicit."""
    model = al.load_model(place, args.device)
    data = model.fitted
    index = np.random.default_rng(0).permutation(np.flatnonzero(np.diff(data.csr.indptr)))
    who = data.users.decode(index).tolist()
    histories = [data.items.decode(data.csr[place].indices).tolist() for place in index[: WARM + args.calls]]
    cold, _ = timed(lambda: model.recommend(who[:1], k=LISTED))

    def known(number: int) -> Any:
        return model.recommend([who[number % len(who)]], k=LISTED)

    def newcomer(number: int) -> Any:
        return model.recommend({"someone new": histories[number % len(histories)]}, k=LISTED)

    warm, late = latency(known, args.calls)
    new, late_new = latency(newcomer, args.calls)
    with busy():
        beside, late_beside = latency(known, args.calls)
    row = partial(Row, unit="ms")
    return [
        row(f"one user, {name}", warm, implicit, "implicit, MF" if implicit else "", more={"p99": late}),
        row(f"one user, {name}, newcomer", new, warm, "one user", more={"p99": late_new}),
        row(f"one user, {name}, busy", beside, warm, "one user", more={"p99": late_beside}),
        row(f"one user, {name}, cold", 1000 * cold, warm, "one user"),
    ]


def main() -> None:
    parser = arguments(__doc__, users=6000, items=3500, repeats=3)
    parser.add_argument("--models", nargs="+", default=["MF", "MF-AUR", "FISM-AUR"], help="MF, MF-AUR, FISM-AUR")
    parser.add_argument("--jobs", nargs="+", default=["all", "one"], help="all, one")
    parser.add_argument("--folder", type=Path, help="keeps the fitted models")
    parser.add_argument(
        "--estimator-dim", type=int, default=1024, help="dimensions of the estimator that is fitted here"
    )
    parser.add_argument("--k", type=int, default=50, help="items of the lists of all users")
    parser.add_argument("--sample", type=int, default=1000, help="users whom exact indexes are asked for; 0 asks none")
    parser.add_argument("--calls", type=int, default=500, help="calls for one user")
    args = parser.parse_args()
    with ExitStack() as stack:
        folder = args.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        factors = al.load_model(kept("MF", args, folder), args.device)
        assert isinstance(factors, al.MF)
        theirs, everyone = by_implicit(factors, torch.get_num_threads()), np.arange(factors.fitted.n_users)
        of_them: dict[str, float | None] = {"all": None, "one": None}
        if theirs is not None and "all" in args.jobs:
            of_them["all"] = seconds(partial(theirs, everyone, args.k), args.repeats)
        if theirs is not None and "one" in args.jobs:
            of_them["one"], _ = latency(lambda number: theirs(everyone[[number % len(everyone)]], LISTED), args.calls)
        rows = []
        for name in args.models:
            place = kept(name, args, folder)
            if "all" in args.jobs:
                rows += of_all(name, al.load_model(place, args.device), of_them["all"], args)
            if "one" in args.jobs:
                rows += of_one(name, place, of_them["one"], args)
    data = factors.fitted
    about = {"name": args.dataset, "users": data.n_users, "items": data.n_items, "pairs": len(data)}
    show("recommend", rows, args.json, data=about)


if __name__ == "__main__":
    main()
