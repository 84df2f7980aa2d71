"""Random: scores that depend on nothing but the seed, the user, the item and the history."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import aleator as al
from aleator.batches import Users
from aleator.data.interactions import Interactions
from aleator.data.simulate import simulate
from aleator.models.random_scores import scrambled


@pytest.fixture(scope="module")
def data() -> Interactions:
    return simulate(n_users=200, n_items=90, per_user=30, skew=0.8, seed=3).interactions


def splitmix(number: int) -> int:
    """The finaliser of splitmix64 in whole numbers of any size."""
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) % 2**64
    return number ^ (number >> 31)


def test_scrambling_is_that_of_splitmix64() -> None:
    given = torch.tensor([0, 1, -1, 12345, 2**62, -(2**63)])
    expected = [splitmix(n % 2**64) for n in given.tolist()]
    assert [n % 2**64 for n in scrambled(given).tolist()] == expected


def test_random_scores_are_uniform_around_the_share_of_observed_pairs(data: Interactions) -> None:
    scores = al.Random().fit(data).score(list(range(200)))
    density = len(data) / (200 * 90)
    assert 0 < float(scores.min()) < 0.02 * density
    assert 1.98 * density < float(scores.max()) < 2 * density
    assert float(scores.mean()) == pytest.approx(density, rel=0.03)
    deciles = torch.histc(scores, 10, 0, 2 * density) / scores.numel()
    assert float((deciles - 0.1).abs().max()) < 0.01
    centred = scores - scores.mean()
    for other in (centred.roll(1, 0), centred.roll(1, 1)):  # neighbouring users, neighbouring items
        assert abs(float((centred * other).mean() / centred.square().mean())) < 0.03


def test_random_scores_stay_below_one_where_most_pairs_are_observed() -> None:
    user, item = np.nonzero(np.random.default_rng(0).random((30, 20)) < 0.8)
    scores = al.Random().fit(Interactions.of(user, item)).score(list(range(30)))
    assert float(scores.min()) > 0.5
    assert float(scores.max()) <= 1


def test_random_scores_differ_by_seed_user_item_and_history_alone(data: Interactions) -> None:
    model = al.Random(seed=1).fit(data)
    scores = model.score([3, 4])
    assert not torch.equal(scores[0], scores[1])
    assert torch.unique(scores[0]).numel() == 90
    assert not torch.equal(al.Random(seed=2).fit(data).score([3]), scores[:1])
    assert torch.equal(model.score({"x": [1, 2, 3]}), model.score({"y": [3, 1, 2]}))
    assert not torch.equal(model.score({"x": [1, 2, 3]}), model.score({"x": [1, 2]}))


def test_random_pairs_are_the_block_at_these_places(data: Interactions) -> None:
    model = al.Random().fit(data)
    known, new = model.users([3, 4]), model.users({"a": [1, 2, 3]})
    mixed = Users(
        index=torch.cat([known.index, new.index]),
        row=torch.cat([known.row, new.row + 2]),
        item=torch.cat([known.item, new.item]),
        weight=torch.cat([known.weight, new.weight]),
        size=torch.cat([known.size, new.size]),
    )
    assert torch.equal(model.raw_pairs(mixed), model.raw_block(mixed)[mixed.row, mixed.item])
    assert torch.equal(model.raw_block(mixed)[2:], model.score({"a": [1, 2, 3]}))
