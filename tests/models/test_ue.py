"""UE: the architecture of FISM, in which an item stays in the history in its own loss."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import aleator as al
from aleator.models.ue import UE
from tests.folders import manifest_of, put_manifest

from .literal import history_of, same_gradients, squared_error
from .test_fism import score, started


@pytest.mark.parametrize("mu", [1.0, 0.3])
def test_the_loss_is_the_papers_in_value_and_gradient(mu: float) -> None:
    model = started(UE, alpha=2.5, mu=mu)
    users = model.histories.batch(torch.tensor([4, 0, 3]))

    def each(place: int, item: int, observed: bool) -> Tensor:
        return score(model, history_of(users, place), item)

    expected = squared_error(each, users, 9, mu, positive=2.5)
    same_gradients(model.loss(users, torch.Generator()), expected, model.parameters())


def test_it_knows_no_scores_without_an_item() -> None:
    model = started(UE)
    assert model.out_of_sample_pairs(model.histories.batch(torch.tensor([4, 0, 3]))) is None


def test_the_papers_recipe_is_the_plain_architecture() -> None:
    model = UE(recipe="paper", dim=4)
    assert (model.alpha, model.mu, model.weight_decay) == (1.0, 1.0, 0.0)
    assert (model.bias, model.history_dropout) == (False, 0.0)
    assert UE(recipe="paper", alpha=2.0).alpha == 2.0


@pytest.mark.parametrize("self_exclude", [True, False])
def test_a_folder_from_before_fism_had_a_name_gives_the_same_scores(
    self_exclude: bool, split: al.Split, tmp_path: Path
) -> None:
    model = UE(dim=8, max_epochs=2).fit(split)
    model.save(tmp_path / "model")
    old = manifest_of(tmp_path / "model")
    del old["options"]["history_dropout"], old["options"]["bias"]
    old["options"]["self_exclude"] = self_exclude
    put_manifest(tmp_path / "model", old)
    assert torch.equal(UE.load(tmp_path / "model").score([0, 5]), model.score([0, 5]))
