"""Top 50 of every user by MF and by AUR, against implicit's recommend and brute force in torch, in users per second.

    python benchmarks/top_k.py [--model FOLDER] [--users 20000 --items 10000] [--k 50] [--json FILE]

`--model` is the folder of a fitted AUR on MF. Without it, MF is fitted on a simulated world (or on `--dataset`), and an
estimator is trained for one epoch. All use the same factors and leave out what a user has seen.

MF     ranks by <x_u, y_i>. implicit ranks by the same scores.
AUR    ranks by lam * <x_u, y_i> / c_r + (1 - lam) * <p_u, q_i> / c_s. Its row of implicit in the table is the list of MF,
       so the ratio is the price of the uncertainty.

Brute force is one matrix product for each block of users, then torch.topk. It gets p_u for free. Our lists must be the
same, with scores that agree to 1e-4. Items may change places if their scores agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import (
    Row,
    arguments,
    assemble,
    brute_force,
    one_blas_thread,
    open_data,
    peer,
    seconds,
    show,
    timed,
    top_for_all,
)
from torch import Tensor

import aleator as al

TOLERANCE = 1e-4  # the log-variance is a long sum in float32
ScoreOf = Callable[[Tensor], Tensor]  # dense user ids [B] -> [B, n_items]
Lists = tuple[Tensor, Tensor]  # scores and items, [n_users, k] each


def make(args: Any) -> al.AUR:
    """An AUR whose estimator was trained for one epoch only."""
    model = al.MF(dim=args.dim, device=args.device).fit(open_data(args))
    return assemble(model, al.FactorEstimator(dim=args.estimator_dim), epochs=1)


def literally(model: al.AUR) -> dict[str, ScoreOf]:
    """The scores of MF and of AUR, computed from their factors by the formulas."""
    assert isinstance(model.model, al.MF)
    x, y, device = model.model.table.users, model.model.table.items, model.torch_device
    everyone = model.histories.batch(torch.arange(model.fitted.n_users))
    factors = model.estimator.factors(everyone)
    assert factors is not None
    p, q = factors
    assert model.spreads is not None
    lam, (of_r, of_s) = model.lam_used, model.spreads.shares

    def mf(index: Tensor) -> Tensor:
        return x[index.to(device)] @ y.T

    def aur(index: Tensor) -> Tensor:
        return lam * of_r * mf(index) + (1 - lam) * of_s * (p[index.to(device)] @ q.T)

    return {"MF": mf, "AUR": aur}


def check(name: str, ours: Lists, brute: Lists, score: ScoreOf, who: Tensor) -> None:
    """Stop the benchmark if our lists of the users `who` are wrong. Items may differ if their scores agree."""
    close = partial(torch.allclose, rtol=TOLERANCE, atol=TOLERANCE)
    if not close(ours[0][who], brute[0][who]):
        raise SystemExit(f"{name}: the scores of our lists differ from those of brute force")
    for user in who[(ours[1][who] != brute[1][who]).any(1)]:
        listed = ours[1][user][ours[1][user] >= 0]
        again = score(user[None])[0].cpu()[listed]
        distinct = set(listed.tolist())
        if len(distinct) < len(listed) or not close(again, brute[0][user][: len(listed)]):
            raise SystemExit(f"{name}: the list of user {int(user)} differs from that of brute force")


def by_implicit(model: al.MF, k: int) -> Callable[[], Any] | None:
    """A call of implicit's recommend for all users, with the factors of `model`."""
    if peer("implicit") is None:
        return None
    from implicit.cpu.als import AlternatingLeastSquares

    seen, everyone = model.fitted.csr, np.arange(model.fitted.n_users)
    with one_blas_thread():
        als = AlternatingLeastSquares(factors=model.dim, num_threads=torch.get_num_threads())
    als.user_factors, als.item_factors = model.table.users.cpu().numpy(), model.table.items.cpu().numpy()

    def recommend() -> Any:
        with one_blas_thread():
            return als.recommend(everyone, seen, N=k)

    return recommend


def main() -> None:
    parser = arguments(__doc__, users=20_000, items=10_000, repeats=3)
    parser.add_argument("--model", type=Path, help="folder of a fitted AUR on MF; it brings its own data")
    parser.add_argument(
        "--estimator-dim", type=int, default=1024, help="dimensions of the estimator that is fitted here"
    )
    parser.add_argument("--k", type=int, default=50)
    args = parser.parse_args()
    model = al.load_model(args.model, args.device) if args.model else make(args)
    if not isinstance(model, al.AUR) or not isinstance(model.model, al.MF):
        raise SystemExit("the model is not an AUR on MF")
    data, scores, rows = model.fitted, literally(model), []
    everyone = torch.arange(data.n_users)
    # a user without a history gets popular items, not a product of factors
    known = everyone[torch.from_numpy(np.diff(data.csr.indptr) > 0)]
    theirs = by_implicit(model.model, args.k)
    implicit_seconds = seconds(theirs, args.repeats) if theirs else None
    for name, ranked in (("MF", model.model), ("AUR", model)):
        ours, lists = timed(partial(top_for_all, ranked, args.k), args.repeats)
        brute, expected = timed(partial(brute_force, scores[name], data.csr, everyone, args.k), args.repeats)
        check(name, lists, expected, scores[name], known)
        for against, reference in (("brute force", brute), ("implicit, MF", implicit_seconds)):
            if reference is not None:
                speed = {"users/s": data.n_users / ours, "theirs": data.n_users / reference}
                rows.append(Row(f"top {args.k}, {name}", ours, reference, against, more=speed))
    about = {"users": data.n_users, "items": data.n_items, "pairs": len(data)}
    show("top_k", rows, args.json, model=str(args.model or "fitted here"), data=about, device=str(model.torch_device))


if __name__ == "__main__":
    main()
