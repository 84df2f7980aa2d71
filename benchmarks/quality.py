"""Seconds from archive to the saved default AUR, and figures of MF-AUR beside those of a slow and plain reference.

    python benchmarks/quality.py --dataset yelp2018 [--data-root FOLDER] [--json FILE]

The default AUR runs in fresh processes, with all that it compares. The first has no compiled kernels yet ("cold"), the
next ones have them ("warm"). Measured are the wall time from the start of Python until the model is on disk, and within
it the seconds from archive to model.

MF-AUR has a fixed setting, so that nothing is compared. The reference minimises the same objective by autograd, in
float32, with all items and 256 users in a batch. It has the same initial parameters. Its learning rate is lower by the
square root of the ratio of the batch sizes. All else is the same, including the choices on validation and the refit.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common import Row, arguments, describe, open_data, show, timed
from torch import Tensor
from torch.nn import functional as F

import aleator as al
from aleator.batches import Histories, Users
from aleator.training.loop import Loop, trainable
from aleator.training.stop import Stop
from aleator.uncertainty import Objective
from aleator.uncertainty.base import Expectation

KEY = (("overall", "recall@20"), ("overall", "ndcg@20"), ("tail_absolute", "recall@50"), ("tail_relative", "recall@50"))
SETTING: dict[str, Any] = {"residuals": "in-sample", "unobserved": "model"}  # fixed, so that both train the same
_JOB = """
import sys, time, json
start = time.perf_counter()
import aleator as al
from aleator.data.opening import open_split
loaded = time.perf_counter()
model = al.AUR(device=sys.argv[3]).fit(open_split(sys.argv[1], sys.argv[2] or None))
model.save(sys.argv[4])
print(json.dumps([loaded - start, time.perf_counter() - loaded]))
"""


@dataclass(kw_only=True, eq=False, repr=False)
class PlainEstimator(al.FactorEstimator):
    """The estimator in the simplest way: dense masks, autograd, float32, all items."""

    def learn(
        self,
        histories: Histories,
        expectation: Expectation,
        objective: Objective,
        stop: Stop,
    ) -> None:
        self.z, self.q = self._start(histories, expectation, objective, True)

        def loss(users: Users, draw: torch.Generator) -> Tensor:
            with torch.no_grad():
                r = expectation.score_block(users)
            taken = (users.row, users.item)
            y = torch.zeros_like(r).index_put_(taken, torch.ones((), device=r.device))
            summed = F.embedding_bag(users.item, self.z, users.size.cumsum(0) - users.size, mode="sum")
            product, own = summed @ self.q.T, (self.z * self.q).sum(1)
            left = (users.size - 1).clamp_min(1).rsqrt()[:, None]  # an observed item does not count in its own history
            s = torch.where(y > 0, (product - own) * left, product * users.size.rsqrt()[:, None])
            # this is 1 / (e^s + floor), in a form that cannot overflow
            precision = torch.sigmoid(math.log(objective.floor) - s) / objective.floor
            return (precision * (r - y).square() + objective.beta * s + objective.gamma * s.square()).sum()

        loop = Loop(
            max_epochs=self.max_epochs,
            batch_size=256,
            lr=7e-5,  # 2e-4 at 2,000 users
            device=histories.device,
            patience=5,
            tolerance=0.01,
            exact=True,
            seed=self.seed,
            label="plain estimator",
        )
        with trainable(self.parameters()):
            self.log = loop.minimise(loss, self.parameters(), histories, stop)


def from_archive(args: Any, folder: Path) -> tuple[float, float, float]:
    """Seconds of a fresh process in all, of its imports, and from archive to model."""
    command = [sys.executable, "-c", _JOB, args.dataset, str(args.data_root or ""), args.device, str(folder)]
    start = time.perf_counter()
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    wall = time.perf_counter() - start
    imports, job = json.loads(ran.stdout.splitlines()[-1])
    return wall, imports, job


def main() -> None:
    parser = arguments(__doc__)
    args = parser.parse_args()
    rows, split = [], open_data(args)
    if args.dataset != "simulated":
        with tempfile.TemporaryDirectory() as folder:
            for name in ("cold", "warm", "warm again"):
                wall, imports, job = from_archive(args, Path(folder) / "model")
                more = {"of it imports": imports, "archive to model": job}
                rows.append(Row(f"default AUR, fresh process, {name}", wall, more=more))
    estimators = al.FactorEstimator(init="spectral"), PlainEstimator(init="spectral")
    ours, theirs = (al.AUR(al.MF(), estimator=each, device=args.device, **SETTING) for each in estimators)
    fast, _ = timed(lambda: ours.fit(split), 2)  # the first run also loads and compiles kernels
    slow, _ = timed(lambda: theirs.fit(split), 2)
    rows.append(Row("fit MF-AUR", fast, slow, against="plain autograd, float32, 256 users a batch"))
    reports = [al.evaluate(model, split).to_dict() for model in (ours, theirs)]
    evaluating, _ = timed(lambda: al.evaluate(ours, split), 3)
    rows.append(Row("evaluate, three protocols at 20 and 50", evaluating))
    for protocol, metric in KEY:
        mine, reference = (report[protocol][metric] for report in reports)
        rows.append(Row(f"{protocol} {metric}", mine, reference, against="the same", unit="test"))
    chosen = {
        name: {"lam": model.lam_used, "epochs": model.estimator.log.best_epoch if model.estimator.log else 0}
        for name, model in (("ours", ours), ("plain", theirs))
    }
    show("quality", rows, args.json, dataset=describe(split, args.dataset), chosen=chosen)


if __name__ == "__main__":
    main()
