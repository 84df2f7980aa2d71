"""UE: the architecture of the uncertainty estimator, used as a model of the expectation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from aleator.models.fism import FISM
from aleator.options import Among, Ranges


@dataclass(kw_only=True, eq=False, repr=False)
class UE(FISM):
    """An ablation of the AUR paper: an estimator's architecture and weights, but no uncertainty (Wang et al., 2023).

    It scores as FISM does, without biases. In training, an observed item stays in the history in its own loss, so the
    model learns to repeat the history. Use FISM for recommendations.
    """

    dim: int = 1024  # dimensions of z and q

    excludes_itself: ClassVar[bool] = False
    paper_ranges: ClassVar[Ranges] = {"alpha": Among(1.0, 2.0, 3.0, 4.0, 5.0)}
    paper: ClassVar[dict[str, Any]] = {
        "alpha": 1.0,
        "weight_decay": 0.0,
        "lr": 1e-4,
        "batch_size": 32,
        "max_epochs": 1000,
        "check_every": 2,
    }

    @classmethod
    def restored(cls, *args: Any, **options: Any) -> Self:
        """A UE of a model folder. In old folders it has an option of the training that scores do not depend on."""
        options.pop("self_exclude", None)
        return super().restored(*args, **options)
