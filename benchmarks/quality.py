"""Figures and seconds of MF-AUR, beside those of a slow and plain reference.

    python benchmarks/quality.py --dataset yelp2018 [--data-root FOLDER] [--json FILE]

MF-AUR has a fixed setting, so that nothing is compared. The reference minimises the same objective by autograd, in
float32, with all items and 256 users in a batch. It has the same initial parameters. Its learning rate is lower by the
square root of the ratio of the batch sizes. All else is the same, including the choices on validation and the refit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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


def main() -> None:
    parser = arguments(__doc__)
    args = parser.parse_args()
    split = open_data(args)
    estimators = al.FactorEstimator(init="spectral"), PlainEstimator(init="spectral")
    ours, theirs = (al.AUR(al.MF(), estimator=each, device=args.device, **SETTING) for each in estimators)
    fast, _ = timed(lambda: ours.fit(split), 2)  # the first run also loads and compiles kernels
    slow, _ = timed(lambda: theirs.fit(split), 2)
    rows = [Row("fit MF-AUR", fast, slow, against="plain autograd, float32, 256 users a batch")]
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
