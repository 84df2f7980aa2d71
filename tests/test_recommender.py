"""What every recommender does at its edge: external ids, lists as frames, newcomers by their history, model folders.

Each test runs for a bare model and for an AUR.
"""

from __future__ import annotations

import copy
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import aleator as al
from aleator.batches import Users
from aleator.checkpoint import folder as writing
from aleator.ranking.scan import Scan, available
from aleator.recommender import Recommender, as_split
from tests.folders import files_of, manifest_of, put_manifest, tensors_of

Make = Callable[[], Recommender]
COLUMNS = ["user_id", "item_id", "rank", "score", "popularity", "tail"]


def make_ease() -> Recommender:
    return al.EASE(l2=5.0)


def make_aur() -> Recommender:
    return al.AUR(al.MF(dim=8, iterations=3), estimator=al.FactorEstimator(dim=8, max_epochs=2, lr=0.01), lam=0.5)


@pytest.fixture(scope="module", params=[make_ease, make_aur], ids=["EASE", "AUR"])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


@pytest.fixture(scope="module")
def recommender(make: Make, split: al.Split) -> Recommender:
    """Fitted on pairs with integers as ids; tests must not change it."""
    return make().fit(split)


def named(data: al.Interactions) -> dict[str, list[str]]:
    """The pairs with texts as ids, and one more for each user, so that every item has one."""
    everyone = np.arange(80)
    user, item = np.r_[data.user, everyone], np.r_[data.item, everyone % 50]
    return {"user_id": [f"u{u}" for u in user], "item_id": [f"i{i:02}" for i in item]}


@pytest.fixture(scope="module")
def with_names(make: Make, split: al.Split) -> Recommender:
    """Fitted on data with texts as ids, of no frame, with titles."""
    data = al.read(named(split.everything)).with_titles({"i03": "The third", "i04": "The fourth"})
    return make().fit(data)


class TestUsers:
    def test_ids_come_back_as_dense_places_with_their_histories(self, with_names: Recommender) -> None:
        data = with_names.fitted
        users = with_names.users(["u7", "u3"])
        assert data.users.decode(users.index.numpy()).tolist() == ["u7", "u3"]
        for place, name in enumerate(["u7", "u3"]):
            mine = data.user == data.users.encode([name])[0]
            assert sorted(users.item[users.row == place].tolist()) == sorted(data.item[mine].tolist())

    def test_newcomers_are_nobody_with_a_history(self, with_names: Recommender) -> None:
        users = with_names.users({"new": ["i02", "i01", "i01"], "other": ["i05"]})
        assert users.index.tolist() == [-1, -1]
        assert users.size.tolist() == [2, 1]
        assert with_names.fitted.items.decode(users.item.numpy()).tolist() == ["i01", "i02", "i05"]

    def test_a_batch_stays_as_it_is_and_is_named_by_its_ids(self, with_names: Recommender) -> None:
        users = with_names.users(["u1", "u2"])
        assert with_names.users(users) is users
        assert with_names.recommend(users, k=2).equals(with_names.recommend(["u1", "u2"], k=2))
        assert with_names.recommend(with_names.users({"new": ["i01"]}), k=2)["user_id"].to_list() == [None, None]

    def test_unknown_users_are_refused_by_name(self, with_names: Recommender) -> None:
        for use in (with_names.recommend, with_names.score):
            with pytest.raises(al.AleatorError, match=r"unknown user 'nobody' and 1 more.*such as 'u0'"):
                use(["u0", "nobody", "nothing"])

    @pytest.mark.parametrize("users", ["u0", 5])
    def test_one_user_in_place_of_a_list_is_an_error_of_ours(self, with_names: Recommender, users: Any) -> None:
        with pytest.raises(al.AleatorError, match="users is"):
            with_names.recommend(users)

    def test_users_may_come_as_any_iterable(self, with_names: Recommender) -> None:
        ids = ["u1", "u2"]
        expected = with_names.recommend(ids, k=3)
        given: list[Any] = [tuple(ids), np.array(ids), pd.Series(ids), pl.Series(ids), iter(ids)]
        for users in given:
            assert with_names.recommend(users, k=3).equals(expected)

    def test_a_history_of_partly_unknown_items_is_served_and_one_of_only_unknown_items_refused(
        self, with_names: Recommender
    ) -> None:
        known = with_names.recommend({"new": ["i01", "i02"]}, k=5)
        assert with_names.recommend({"new": ["i02", "what", "i01", "i01"]}, k=5).equals(known)
        with pytest.raises(al.AleatorError, match="none of the 2 items in the history of 'new' is known"):
            with_names.recommend({"new": ["what", "ever"]})
        with pytest.raises(al.AleatorError, match="none of the 0 items"):
            with_names.recommend({"new": []})

    def test_a_history_given_as_one_text_is_refused_rather_than_read_letter_by_letter(
        self, with_names: Recommender
    ) -> None:
        history: Any = "i01"
        with pytest.raises(al.AleatorError, match="the history of 'new' is 'i01'"):
            with_names.recommend({"new": history}, k=1)

    def test_a_repeated_user_is_served_twice(self, recommender: Recommender) -> None:
        assert recommender.recommend([4, 4], k=3)["user_id"].to_list() == [4] * 6


class TestScore:
    def test_items_are_asked_for_by_id_in_any_order(self, with_names: Recommender) -> None:
        data = with_names.fitted
        items = ["i07", "i00", "i07"]
        whole = with_names.score(["u3", "u1"])
        assert whole.shape == (2, data.n_items)
        part = with_names.score(["u3", "u1"], items)
        torch.testing.assert_close(part, whole[:, torch.from_numpy(data.items.encode(items))])

    def test_unknown_items_are_refused_by_name(self, with_names: Recommender) -> None:
        with pytest.raises(al.AleatorError, match="unknown item 'x'"):
            with_names.score(["u0"], ["i01", "x"])

    def test_it_records_no_gradients(self, recommender: Recommender) -> None:
        assert not recommender.score([0]).requires_grad


class TestRecommend:
    def test_the_columns(self, recommender: Recommender, with_names: Recommender) -> None:
        told = recommender.recommend([0], k=3).columns
        assert [name for name in told if name in COLUMNS] == COLUMNS
        assert with_names.recommend(["u0"], k=3).columns == [*told, "title"]

    def test_ranks_scores_and_users_are_in_order(self, recommender: Recommender) -> None:
        shown = recommender.recommend([9, 2], k=6)
        assert shown["user_id"].to_list() == [9] * 6 + [2] * 6
        assert shown["rank"].to_list() == list(range(1, 7)) * 2
        for user in (9, 2):
            mine = shown.filter(user_id=user)
            assert mine["score"].is_sorted(descending=True)
            scores = recommender.score([user], mine["item_id"].to_list())[0]
            np.testing.assert_allclose(mine["score"], scores, rtol=1e-5)

    def test_seen_items_are_left_out_unless_asked_for(self, recommender: Recommender) -> None:
        data = recommender.fitted
        for user in range(0, 80, 7):
            seen = set(data.item[data.user == user].tolist())
            assert not seen & set(recommender.recommend([user], k=50)["item_id"].to_list())
            assert seen <= set(recommender.recommend([user], k=50, filter_seen=False)["item_id"].to_list())

    def test_the_history_of_a_newcomer_is_seen_too(self, recommender: Recommender) -> None:
        history = [3, 8, 21]
        assert not set(history) & set(recommender.recommend({"new": history}, k=50)["item_id"].to_list())
        shown = recommender.recommend({"new": history}, k=50, filter_seen=False, untrained=True)
        assert set(history) <= set(shown["item_id"].to_list())

    def test_allow_and_deny(self, recommender: Recommender) -> None:
        everything = recommender.recommend([0], k=50)["item_id"].to_list()
        some = everything[3:9]
        allowed = recommender.recommend([0], k=50, allow=some)["item_id"].to_list()
        assert allowed == some  # in the order of their scores
        denied = recommender.recommend([0], k=50, deny=some)["item_id"].to_list()
        assert denied == [i for i in everything if i not in some]
        both = recommender.recommend([0], k=50, allow=some, deny=some[:2])["item_id"].to_list()
        assert both == some[2:]
        nothing = recommender.recommend([0], k=50, allow=[])
        assert nothing.columns == recommender.recommend([0], k=1).columns
        assert len(nothing) == 0
        with pytest.raises(al.AleatorError, match="unknown item 'x'"):
            recommender.recommend([0], allow=["x"])
        with pytest.raises(al.AleatorError, match="unknown item 999"):
            recommender.recommend([0], deny=[999])

    def test_items_never_trained_on_are_shown_only_if_asked_for(self, make: Make, split: al.Split) -> None:
        missing = int(np.argmax(split.everything.popularity))
        fitted = make().fit(split.everything.take(split.everything.item != missing))
        assert missing not in fitted.recommend([0], k=50)["item_id"].to_list()
        assert missing in fitted.recommend([0], k=50, untrained=True)["item_id"].to_list()

    @pytest.mark.parametrize("k", [0, -1, 51, 2.5, "ten", True])
    def test_an_impossible_k_is_refused(self, recommender: Recommender, k: Any) -> None:
        with pytest.raises(al.AleatorError, match="k is"):
            recommender.recommend([0], k=k)

    def test_the_whole_catalogue_may_be_asked_for(self, recommender: Recommender) -> None:
        shown = recommender.recommend([0], k=50, filter_seen=False, untrained=True)
        assert sorted(shown["item_id"].to_list()) == list(range(50))

    def test_nobody_gets_an_empty_frame_with_the_columns(
        self, recommender: Recommender, with_names: Recommender
    ) -> None:
        told = recommender.recommend([0], k=1).columns
        assert recommender.recommend([], k=3).columns == told
        assert with_names.recommend([], k=3).columns == [*told, "title"]
        assert with_names.recommend({}, k=3).columns == [*told, "title"]

    def test_titles_stand_beside_their_items(self, with_names: Recommender) -> None:
        shown = with_names.recommend(["u0", "u1"], k=3, filter_seen=False, allow=["i03", "i05"])
        titles = dict(zip(shown["item_id"], shown["title"], strict=True))
        assert titles == {"i03": "The third", "i05": "i05"}

    def test_memory_changes_nothing(self, recommender: Recommender) -> None:
        users = list(range(80))
        whole = recommender.recommend(users, k=10)
        for memory in (24 * 7, 24 * 333):
            part = recommender.recommend(users, k=10, memory=memory)
            assert part["item_id"].to_list() == whole["item_id"].to_list()
            np.testing.assert_allclose(part["score"], whole["score"], rtol=1e-5)

    def test_frames_come_back_as_the_kind_that_was_given(self, make: Make, split: al.Split, tmp_path: Path) -> None:
        columns = named(split.train)
        pyarrow = pytest.importorskip("pyarrow")
        for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pyarrow.table(columns)):
            fitted = make().fit(al.read(frame))
            assert type(fitted.recommend(["u0"], k=3)) is type(frame)
            fitted.save(tmp_path / "m")
            assert type(type(fitted).load(tmp_path / "m").recommend(["u0"], k=3)) is type(frame)
        assert isinstance(make().fit(al.read(columns)).recommend(["u0"], k=3), pl.DataFrame)


@pytest.fixture(scope="module")
def fitted(make: Make, split: al.Split) -> Recommender:
    """User 7 is known and has no training pair."""
    return make().fit(split.everything.take(split.everything.user != 7))


@pytest.fixture(scope="module")
def many_items() -> al.Split:
    """A catalogue that is large enough to be scanned, with enough pairs that hardly any scores are equal."""
    return al.simulate(n_users=60, n_items=4200, per_user=2000, skew=0.8, seed=2).interactions.split(seed=0)


def make_mf() -> Recommender:
    return al.MF(dim=8, iterations=3, device="cpu")


def make_ue() -> Recommender:
    return al.UE(dim=8, max_epochs=2, calibrate="linear", device="cpu")


@pytest.mark.skipif(not available(), reason="this PyTorch multiplies no 8-bit integers here")
@pytest.mark.parametrize("make_factors", [make_mf, make_ue])
class TestScan:
    """On a CPU a large catalogue is scanned if scores are inner products. It gives what scoring everything gives."""

    @pytest.fixture
    def made(self, monkeypatch: pytest.MonkeyPatch) -> list[Scan]:
        """The scans that recommenders prepare, if they are made from now on."""
        found: list[Scan] = []

        class Counted(Scan):
            def __init__(self, *given: Any) -> None:
                super().__init__(*given)
                found.append(self)

        monkeypatch.setattr("aleator.recommender.Scan", Counted)
        return found

    def test_recommendations_and_figures_are_those_of_scoring_everything(
        self, make_factors: Make, many_items: al.Split, made: list[Scan], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = make_factors().fit(many_items)
        users = model.fitted.users.decode(np.arange(20)).tolist()
        scanned, report = model.recommend(users, k=7), al.evaluate(model, many_items).to_dict()
        assert len(made) == 1
        monkeypatch.setattr("aleator.recommender.available", lambda: False)
        plain = model.recommend(users, k=7)
        assert scanned["item_id"].to_list() == plain["item_id"].to_list()
        np.testing.assert_allclose(scanned["score"].to_numpy(), plain["score"].to_numpy(), rtol=1e-5, atol=1e-7)
        again = al.evaluate(model, many_items).to_dict()
        for protocol in ("overall", "tail_absolute", "tail_relative"):
            assert again[protocol] == pytest.approx(report[protocol], abs=2e-4)

    def test_newcomers_allow_lists_and_seen_items_work_as_ever(
        self, make_factors: Make, many_items: al.Split, made: list[Scan], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = make_factors().fit(many_items)
        items = model.fitted.items.decode(np.arange(50)).tolist()
        newcomers = {"new": [items[3], items[8], items[21]], "other": [items[1]]}
        asked: dict[str, Any] = {"k": 5, "allow": items[::2], "deny": [items[4]], "filter_seen": False}
        scanned = model.recommend(newcomers, **asked)
        assert len(made) == 1
        monkeypatch.setattr("aleator.recommender.available", lambda: False)
        assert scanned["item_id"].to_list() == model.recommend(newcomers, **asked)["item_id"].to_list()

    def test_what_was_prepared_is_forgotten_with_a_new_fit(
        self, make_factors: Make, many_items: al.Split, made: list[Scan]
    ) -> None:
        model = make_factors().fit(many_items)
        user = model.fitted.users.decode(np.arange(1)).tolist()
        for _ in range(2):
            model.recommend(user, k=2)
        assert len(made) == 1
        model.fit(many_items).recommend(user, k=2)
        assert len(made) == 2

    def test_a_batch_with_a_user_without_a_history_is_not_scanned(
        self, make_factors: Make, many_items: al.Split, made: list[Scan]
    ) -> None:
        everything = many_items.everything
        model = make_factors().fit(everything.take(everything.user != 0))
        users = model.fitted.users.decode(np.arange(2)).tolist()
        top = model.recommend(users, k=5)
        assert made == []
        assert top["popularity"].to_list()[:5] == sorted(model.fitted.popularity, reverse=True)[:5]


class TestWithoutHistory:
    """Whoever has no history gets each item's share of the users: nothing else is known."""

    def test_they_get_what_is_popular(self, fitted: Recommender) -> None:
        top = fitted.recommend([7], k=5)["popularity"].to_list()
        assert top == sorted(fitted.fitted.popularity, reverse=True)[:5]

    @pytest.mark.parametrize("solver", ["als", "adam"])
    def test_so_they_do_from_models_that_have_factors_for_them(self, solver: Any, split: al.Split) -> None:
        options: dict[str, Any] = {"max_epochs": 2} if solver == "adam" else {}
        model = al.MF(dim=4, solver=solver, **options).fit(split.everything.take(split.everything.user != 7))
        top = model.recommend([7], k=5)["popularity"].to_list()
        assert top == sorted(model.fitted.popularity, reverse=True)[:5]

    def test_their_scores_are_shares_and_those_of_others_stay(self, fitted: Recommender) -> None:
        share = torch.from_numpy(fitted.fitted.popularity / 80).float()
        scores = fitted.score([7, 3])
        torch.testing.assert_close(scores[0], share)
        torch.testing.assert_close(scores[1], fitted.score([3])[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(fitted.score([7], [9, 4])[0], share[[9, 4]])

    def test_users_who_are_known_to_have_a_history_are_not_looked_at(self, fitted: Recommender) -> None:
        scores, users = torch.zeros(1, 50), fitted.users([7])
        marked = Users(users.index, users.row, users.item, users.weight, users.size, trained=True)
        assert fitted.without_history(scores, marked, None) is scores
        assert not torch.equal(fitted.without_history(scores, users, None), scores)


class TestFit:
    @pytest.mark.parametrize("data", ["ratings.csv", None, [1, 2], np.eye(3)])
    def test_what_cannot_be_fitted_on_is_refused(self, make: Make, data: Any) -> None:
        with pytest.raises(al.AleatorError, match="cannot be fitted on"):
            make().fit(data)

    def test_one_user_is_refused(self, make: Make) -> None:
        with pytest.raises(al.AleatorError, match="one user"):
            make().fit(al.Interactions.of([1, 1, 1], [1, 2, 3]))

    def test_bare_interactions_are_a_split_without_a_test_part(self, split: al.Split) -> None:
        assert as_split(split) is split
        made = as_split(split.train)
        assert made.train is split.train
        assert (len(made.valid), len(made.test), made.valid_by) == (0, 0, "random")
        in_time = al.Interactions.of([1, 1, 2, 2], [1, 2, 1, 2], time=[1, 2, 3, 4])
        assert as_split(in_time).valid_by == "user_time"

    def test_the_histories_are_those_of_the_last_fit(self, make: Make, split: al.Split) -> None:
        fitted = make().fit(split.train)
        first = fitted.histories
        assert fitted.histories is first  # uploaded once
        fitted.fit(split)
        assert len(fitted.histories.item) == len(split.everything) > len(first.item)

    def test_what_is_not_fitted_says_so(self, make: Make, tmp_path: Path) -> None:
        unfitted = make()
        uses: list[Any] = [
            unfitted.recommend,
            unfitted.score,
            unfitted.similar_items,
            unfitted.vectors,
            unfitted.user_vector,
        ]
        for use in uses:
            with pytest.raises(al.AleatorError, match="not fitted"):
                use([0])
        with pytest.raises(al.AleatorError, match="not fitted"):
            unfitted.explain([0], [1])
        with pytest.raises(al.AleatorError, match="not fitted"):
            _ = unfitted.fingerprint
        with pytest.raises(al.AleatorError, match="not fitted"):
            unfitted.save(tmp_path / "m")

    @pytest.mark.parametrize(("option", "value"), [("seed", -1), ("valid", 0.0), ("valid", 1.0)])
    def test_options_out_of_range_are_refused(self, option: str, value: Any) -> None:
        for kind, given in ((al.EASE, ()), (al.AUR, (al.MF(),))):
            with pytest.raises(al.AleatorError, match=f"{option} is"):
                kind(*given, **{option: value})


class TestSaveAndLoad:
    @pytest.fixture
    def folder(self, recommender: Recommender, tmp_path: Path) -> Path:
        recommender.save(tmp_path / "m")
        return tmp_path / "m"

    def assert_refused(self, recommender: Recommender, folder: Path, match: str = "damaged or foreign") -> None:
        for load in (type(recommender).load, al.load_model):
            with pytest.raises(al.AleatorError, match=match):
                load(folder)

    def test_what_is_loaded_is_what_was_saved(self, with_names: Recommender, tmp_path: Path) -> None:
        with_names.save(tmp_path / "m")
        for loaded in (type(with_names).load(tmp_path / "m"), al.load_model(tmp_path / "m")):
            assert type(loaded) is type(with_names)
            assert torch.equal(loaded.score(["u0", "u7"]), with_names.score(["u0", "u7"]))
            assert loaded.recommend({"new": ["i01"]}, k=9).equals(with_names.recommend({"new": ["i01"]}, k=9))
            assert loaded.recommend(["u3"], k=9).equals(with_names.recommend(["u3"], k=9))
            assert loaded.fitted.fingerprint == with_names.fitted.fingerprint

    def test_saving_what_was_loaded_gives_the_same_files(
        self, recommender: Recommender, folder: Path, tmp_path: Path
    ) -> None:
        type(recommender).load(folder).save(tmp_path / "again")
        assert files_of(tmp_path / "again") == files_of(folder)

    def test_the_manifest_says_what_it_is_of(self, recommender: Recommender, folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["kind"] == type(recommender).__name__
        assert manifest["data"]["fingerprint"] == recommender.fitted.fingerprint
        assert manifest["options"]["seed"] == 0
        assert {"aleator", "torch", "numpy"} <= set(manifest["versions"])

    def test_a_folder_of_another_kind_is_refused_by_its_class(self, recommender: Recommender, folder: Path) -> None:
        kind = type(recommender).__name__
        with pytest.raises(al.AleatorError, match=f"holds an? {kind}, not an? ItemKNN"):
            al.ItemKNN.load(folder)
        put_manifest(folder, manifest_of(folder) | {"kind": "Sorcery"})
        self.assert_refused(recommender, folder, "Sorcery")

    @pytest.mark.parametrize("keep", [0, 5, 100, -1])
    def test_truncated_tensors_are_refused(self, recommender: Recommender, folder: Path, keep: int) -> None:
        whole = tensors_of(folder).read_bytes()
        tensors_of(folder).write_bytes(whole[:keep])
        self.assert_refused(recommender, folder)

    @pytest.mark.parametrize("part", ["options", "learned", "data"])
    def test_a_manifest_without_a_part_is_refused(self, recommender: Recommender, folder: Path, part: str) -> None:
        manifest = manifest_of(folder)
        del manifest[part]
        put_manifest(folder, manifest)
        self.assert_refused(recommender, folder)

    def test_no_folder_and_a_foreign_folder_are_refused(self, recommender: Recommender, tmp_path: Path) -> None:
        self.assert_refused(recommender, tmp_path / "nothing", "not a model folder")
        (tmp_path / "notes.txt").write_text("mine")
        self.assert_refused(recommender, tmp_path, "not a model folder")

    def test_tensors_of_another_model_are_refused(
        self, recommender: Recommender, folder: Path, make: Make, split: al.Split
    ) -> None:
        """The manifest has a checksum of each tensor, so it shows that the two files do not belong together."""
        other = folder.with_name("other")
        make().fit(split.train).save(other)
        shutil.copy(tensors_of(other), tensors_of(folder))
        self.assert_refused(recommender, folder)

    @pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
    def test_an_interrupted_save_leaves_the_old_model_and_nothing_else(
        self, folder: Path, with_names: Recommender, monkeypatch: pytest.MonkeyPatch, error: BaseException
    ) -> None:
        before = files_of(folder)

        def fail(file: BinaryIO, tensors: Any) -> None:
            file.write(b"half")
            raise error

        monkeypatch.setattr(writing, "write_tensors", fail)
        with pytest.raises(al.AleatorError if isinstance(error, OSError) else KeyboardInterrupt):
            with_names.save(folder)
        assert [path.name for path in folder.parent.iterdir()] == ["m"]
        assert files_of(folder) == before

    def test_nothing_but_numbers_is_in_the_folder(self, folder: Path) -> None:
        """No pickle: every file is JSON or safetensors."""
        assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", tensors_of(folder).name]
        json.loads((folder / "manifest.json").read_text(), parse_constant=lambda c: pytest.fail(f"{c} is not JSON"))


def test_an_unknown_attribute_is_refused(fitted_aur: al.AUR) -> None:
    aur = copy.copy(fitted_aur)
    with pytest.raises(al.AleatorError, match="unknown attribute of AUR 'lamda'; did you mean 'lam'"):
        aur.lamda = 0.3
    with pytest.raises(al.AleatorError, match="did you mean 'dim'"):
        al.MF().dims = 3
    with pytest.raises(al.AleatorError, match="unknown attribute of FactorEstimator 'dims'; did you mean 'dim'"):
        aur.estimator.dims = 3


def test_lam_of_a_fitted_aur_acts(fitted_aur: al.AUR) -> None:
    aur = copy.copy(fitted_aur)
    aur.lam = 0.3
    assert (aur.lam, aur.lam_used) == (0.3, 0.3)
    assert torch.equal(aur.score([3]), fitted_aur.at(0.3).score([3]))
    with pytest.raises(al.AleatorError, match="lam is 3"):
        aur.lam = 3.0
    assert aur.lam == 0.3


def test_other_options_of_a_fitted_model_are_refused(fitted_aur: al.AUR, split: al.Split) -> None:
    with pytest.raises(al.AleatorError, match="option alpha of AUR has no effect once it is fitted"):
        fitted_aur.alpha = 3.0
    model = al.MF(dim=4)
    model.dim = 3
    model.fit(split)
    assert model.table.dim == 3
    with pytest.raises(al.AleatorError, match="make a new MF with dim=5 and fit it"):
        model.dim = 5
    assert model.dim == 3


class TestFingerprint:
    def test_another_process_finds_the_same(self, recommender: Recommender, tmp_path: Path) -> None:
        recommender.save(tmp_path / "m")
        program = f"import aleator as al; print(al.load_model({str(tmp_path / 'm')!r}).fingerprint)"
        environment = {**os.environ, "PYTHONPATH": str(Path(al.__file__).parents[1]), "PYTHONHASHSEED": "7"}
        ran = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
        )
        assert ran.stdout.strip() == recommender.fingerprint

    def test_the_same_fit_has_the_same_and_another_fit_another(self, make: Make, split: al.Split) -> None:
        first = make().fit(split.train).fingerprint
        assert make().fit(split.train).fingerprint == first
        assert make().fit(split.everything).fingerprint != first

    def test_lam_changes_no_item_and_so_not_the_fingerprint(self, split: al.Split, tmp_path: Path) -> None:
        aur = al.AUR(al.MF(dim=4, iterations=2), estimator=al.FactorEstimator(dim=4, max_epochs=2)).fit(split)
        aur.save(tmp_path / "m")
        loaded = al.AUR.load(tmp_path / "m")
        loaded.lam = 0.123
        assert {aur.at(0.0).fingerprint, loaded.fingerprint} == {aur.fingerprint}

    def test_every_learned_number_counts(self, split: al.Split) -> None:
        aur = make_aur().fit(split.train)
        assert isinstance(aur, al.AUR)
        first = aur.fingerprint
        aur.estimator.tensors()["q"][3, 2] += 1e-6
        second = aur.fingerprint
        aur.prior_used = 0.25  # a number that is learned, but no tensor
        assert len({first, second, aur.fingerprint}) == 3
