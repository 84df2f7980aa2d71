"""Peak memory and seconds of an epoch of an estimator whose tables hardly fit, by AdamW and by the lean optimizer.

    python benchmarks/huge.py [--items 1_000_000 --dim 1024 --users 100_000 --pairs 5_000_000 --optimizers lean]

An AUR is fitted with a small MF and a given lam: no race, and no refit. Only a small share of the pairs is held out,
since ranking a large catalogue for many users takes longer than an epoch. Each fit runs in a fresh process. "ours" is the
largest resident set of the process. "tables" are z and q alone, and "needed" is what the fit is asked to fit into. Where
that is more than is free, the fit is refused, and the table says so. With --device cuda, memory is that of the GPU, and
the pairs are in memory.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import MB, Row, peak_memory, show
from on_disk import drawn, watched, write_world

import aleator as al
from aleator.device import free_memory


def estimator(args: argparse.Namespace, optimizer: str) -> al.FactorEstimator:
    options: dict[str, Any] = {"dim": args.dim, "optimizer": optimizer, "max_epochs": args.epochs}
    if args.sampled_items is not None:
        options["sampled_items"] = args.sampled_items
    return al.FactorEstimator(init="spectral", device=args.device, **options)


def world(args: argparse.Namespace, place: Path) -> al.Interactions:
    """The pairs: from disk, or in memory if a GPU takes them all anyway."""
    if args.device == "cpu":
        return al.read(place / "world", on_disk=place / "cache")
    user, item = (np.concatenate(ids) for ids in zip(*drawn(args.users, args.items, args.pairs), strict=True))
    return al.Interactions.of(user, item)


def work(optimizer: str, folder: str, options: dict[str, Any]) -> dict[str, Any]:
    """Fit in this process."""
    args, place, told = argparse.Namespace(**options), Path(folder), dict[str, Any]()
    torch.set_num_threads(args.threads)
    data = world(args, place)
    made = estimator(args, optimizer)
    device = torch.device(args.device)
    told |= {"needed": made.bytes_needed(data.n_items, device, checked=True), "free": free_memory(device)}
    told |= {"users": data.n_users, "items": data.n_items, "pairs": len(data)}
    if told["needed"] > told["free"]:
        return told
    model = al.MF(dim=16, l2=0.003, iterations=2)
    given: dict[str, Any] = {"residuals": "in-sample", "unobserved": "constant", "lam": 0.5, "refit": False}
    given["valid"] = args.valid
    aur = al.AUR(model, estimator=made, device=args.device, **given)
    with watched(told):
        aur.fit(data)
    log = aur.estimator.log
    assert log is not None
    told |= {"epoch": min(log.seconds), "metric": log.rows[-1]["metric"]}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        told["on_device"] = torch.cuda.max_memory_allocated()
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=4_000)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=200_000, help="rows of the world; repeated pairs are dropped")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=2, help="number of epochs; the fastest counts")
    parser.add_argument(
        "--sampled-items", type=int, help="items that a batch is trained on; by default as many as suit"
    )
    parser.add_argument("--valid", type=float, default=1e-3, help="share of the pairs that is held out")
    parser.add_argument("--optimizers", nargs="+", choices=("adam", "lean"), default=["adam", "lean"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--folder", type=Path, help="keep the world here; a later run goes on from there")
    parser.add_argument("--json", type=Path, help="append the figures to this file as one line of JSON")
    args = parser.parse_args()
    options = {name: value for name, value in vars(args).items() if name not in ("folder", "json", "optimizers")}
    rows, about, own = list[Row](), dict[str, int](), 8 * args.dim / MB
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) if args.folder is None else args.folder
        if args.device == "cpu" and not (place / "world").exists():
            write_world(place / "world", args.users, args.items, args.pairs)
        for optimizer in args.optimizers:
            peak = peak_memory(work, optimizer=optimizer, folder=str(place), options=options)
            told = peak.result
            about = {name: told[name] for name in ("users", "items", "pairs")}
            more = {"tables": own * told["items"], "needed": told["needed"] / MB}
            if "epoch" not in told:
                rows.append(Row(f"{optimizer}, refused", told["free"] / MB, unit="MB free", more=more))
                continue
            size = told["on_device"] / MB if "on_device" in told else peak.megabytes
            more |= {"anonymous": told["anonymous"] / MB, "s an epoch": told["epoch"], "s": told["seconds"]}
            rows.append(Row(optimizer, size, more["tables"], "z and q", "MB", more | {"metric": told["metric"]}))
    show("huge", rows, args.json, world=about | {"dim": args.dim})


if __name__ == "__main__":
    main()
