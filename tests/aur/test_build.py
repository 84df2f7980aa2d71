"""Recommenders from settings: what a config file and `--set` mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import aleator as al
from aleator.aur.build import build, parse_settings
from aleator.recommender import Recommender


def aur(settings: dict[str, Any], model: str | None = "mf", **more: Any) -> al.AUR:
    made = build(model, settings, with_uncertainty=True, **{"recipe": "ours", **more})
    assert isinstance(made, al.AUR)
    return made


def bare(settings: dict[str, Any], model: str | None = "mf", **more: Any) -> Recommender:
    return build(model, settings, with_uncertainty=False, **{"recipe": "ours", **more})


class TestParse:
    def test_values_are_those_of_toml_and_texts_otherwise(self) -> None:
        texts = ["alpha=2", "refit=false", "model.dim=64", "model.solver=adam", "tail=mass:0.4", "estimator.lr='auto'"]
        assert parse_settings(None, texts) == {
            "alpha": 2,
            "refit": False,
            "model": {"dim": 64, "solver": "adam"},
            "tail": "mass:0.4",
            "estimator": {"lr": "auto"},
        }

    def test_settings_win_over_the_file_and_leave_the_rest_of_its_tables(self, tmp_path: Path) -> None:
        config = tmp_path / "run.toml"
        config.write_text("alpha = 3\n[model]\ndim = 8\nmu = 0.2\n")
        expected = {"alpha": 3, "model": {"dim": 16, "mu": 0.2}, "joint": True}
        assert parse_settings(config, ["model.dim=16", "joint=true"]) == expected
        assert parse_settings(config, None) == {"alpha": 3, "model": {"dim": 8, "mu": 0.2}}
        assert parse_settings(None, None) == {}

    @pytest.mark.parametrize("text", ["alpha", "=2", ""])
    def test_what_is_no_setting_is_refused(self, text: str) -> None:
        with pytest.raises(al.AleatorError, match=f"'{text}' is not a setting.*name=value"):
            parse_settings(None, [text])

    def test_an_option_of_an_option_is_refused(self) -> None:
        with pytest.raises(al.AleatorError, match="not a table"):
            parse_settings(None, ["alpha=2", "alpha.beta=3"])

    @pytest.mark.parametrize("content", [b"alpha = ", b"\xff\xfe"])
    def test_a_file_that_is_no_toml_is_refused(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / "run.toml").write_bytes(content)
        with pytest.raises(al.AleatorError, match="cannot be read"):
            parse_settings(tmp_path / "run.toml", None)

    def test_a_file_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(al.AleatorError, match="cannot be read"):
            parse_settings(tmp_path / "none.toml", None)


class TestBuild:
    def test_tables_reach_their_parts(self) -> None:
        made = aur({"alpha": 2.0, "tail": "mass:0.4", "model": {"dim": 16}, "estimator": {"dim": 32}})
        assert (made.alpha, made.tail) == (2.0, al.Tail.mass(0.4))
        assert made.model.options()["dim"] == 16
        assert made.estimator.options()["dim"] == 32

    def test_names_choose_the_classes(self) -> None:
        made = aur({}, "ease", estimator="mlp")
        assert isinstance(made.model, al.EASE)
        assert isinstance(made.estimator, al.MLPEstimator)
        assert type(bare({}, "lightgcn")) is al.LightGCN

    def test_without_a_name_models_are_compared(self) -> None:
        made = aur({"alpha": 2.0}, None, seed=3, max_epochs=5)
        assert [type(model) for model in made.contenders] == [type(model) for model in al.AUR().contenders]
        assert {model.seed for model in made.contenders} == {3}
        assert made.contenders[0].options()["max_epochs"] == 5
        assert (made.alpha, made.seed) == (2.0, 3)
        assert type(bare({"model": {"dim": 4}}, None)) is al.MF

    def test_auto_compares_more(self) -> None:
        few, many = (made.contenders for made in (aur({}, None), aur({}, "auto")))
        kinds = [type(model) for model in many]
        assert kinds[: len(few)] == [type(model) for model in few]
        assert set(kinds[len(few) :]) == {al.EASE, al.GraphFilter, al.LightGCN, al.MultVAE}

    def test_options_of_a_model_need_its_name(self) -> None:
        for model in (None, "auto"):
            with pytest.raises(al.AleatorError, match=r"model.dim was set but several models are compared"):
                aur({"model": {"dim": 4}}, model)
        with pytest.raises(al.AleatorError, match="name a model"):
            bare({}, "auto")

    def test_common_options_hold_for_all_parts_where_nothing_else_was_set(self) -> None:
        made = aur({"seed": 4, "model": {"seed": 9}}, seed=1, device="cpu", max_epochs=None)
        assert (made.seed, made.model.seed, made.estimator.seed) == (4, 9, 4)
        assert made.device == made.model.device == made.estimator.device == "cpu"
        alone = bare({"valid": 0.2}, seed=3)
        assert (alone.valid, alone.seed) == (0.2, 3)

    @pytest.mark.parametrize(
        ("settings", "told"),
        [
            ({"alhpa": 2.0}, r"unknown option of AUR 'alhpa'.*'alpha'"),
            ({"model": {"dmi": 8}}, r"unknown option of MF 'dmi'.*'dim'"),
            ({"estimator": {"dmi": 8}}, r"unknown option of FactorEstimator 'dmi'.*'dim'"),
            ({"joint": {"l": 0.1}}, r"unknown option of Joint 'l'"),
            ({"model": 3}, "'model' is not a table"),
            ({"estimator": "mlp"}, "'estimator' is not a table"),
            ({"joint": "yes"}, "'joint' is not a table.*joint=true"),
        ],
    )
    def test_unknown_names_and_things_that_are_no_tables_are_refused(self, settings: Any, told: str) -> None:
        with pytest.raises(al.AleatorError, match=told):
            aur(settings)

    def test_unknown_classes_are_refused(self) -> None:
        with pytest.raises(al.AleatorError, match=r"unknown model 'mff'.*'mf'"):
            aur({}, "mff")
        with pytest.raises(al.AleatorError, match=r"unknown .*'factr'.*'factor'"):
            aur({}, estimator="factr")

    def test_the_settings_stay_as_they_are(self) -> None:
        settings: dict[str, Any] = {"joint": {"lr": 0.01}, "tail": "mass:0.4", "seed": 3, "model": {"dim": 4}}
        before = {name: dict(value) if isinstance(value, dict) else value for name, value in settings.items()}
        aur(settings, max_epochs=5)
        assert settings == before


class TestWithoutUncertainty:
    @pytest.mark.parametrize(
        ("settings", "name"),
        [
            ({"alpha": 2.0}, "alpha"),
            ({"estimator": {"dim": 8}}, "estimator.dim"),
            ({"joint": True}, "joint"),
            ({"joint": {"lr": 0.1}}, "joint"),
        ],
    )
    def test_options_of_the_uncertainty_are_refused(self, settings: Any, name: str) -> None:
        with pytest.raises(al.AleatorError, match=f"without uncertainty the option {name} has no effect"):
            bare(settings)

    def test_so_is_an_estimator(self) -> None:
        with pytest.raises(al.AleatorError, match="the option estimator has no effect"):
            bare({}, estimator="factor")

    def test_joint_false_is_no_option(self) -> None:
        assert isinstance(bare({"joint": False}), al.MF)


class TestJoint:
    def test_true_is_joint_training_with_its_defaults(self) -> None:
        assert aur({"joint": True}).joint == al.Joint()
        assert aur({"joint": {}}).joint == al.Joint()

    def test_false_or_nothing_is_none(self) -> None:
        assert aur({"joint": False}).joint is None
        assert aur({}).joint is None

    def test_a_table_has_its_options(self) -> None:
        assert aur({"joint": {"lr": 0.01, "weights": "model"}}).joint == al.Joint(lr=0.01, weights="model")

    def test_the_common_epochs_hold_unless_the_table_has_its_own(self) -> None:
        assert aur({"joint": True}, max_epochs=3).joint == al.Joint(max_epochs=3)
        assert aur({"joint": {"max_epochs": 7}}, max_epochs=3).joint == al.Joint(max_epochs=7)


class TestCommonEpochs:
    def test_they_do_nothing_to_mf_by_als_and_are_not_refused(self) -> None:
        """`--max-epochs` is offered to all parts: a part that trains in no epochs leaves it."""
        made = aur({}, max_epochs=3)
        assert made.estimator.options()["max_epochs"] == 3
        assert "max_epochs" not in made.model.options()
        assert bare({}, max_epochs=3).options() == bare({}).options()

    def test_they_hold_for_mf_by_adam(self) -> None:
        assert bare({"model": {"solver": "adam"}}, max_epochs=3).options()["max_epochs"] == 3

    def test_given_by_name_they_are_refused_where_they_do_nothing(self) -> None:
        with pytest.raises(al.AleatorError, match="option max_epochs of MF has no effect"):
            bare({"model": {"max_epochs": 3}})


class TestRecipePaper:
    def test_it_reaches_all_parts_and_its_options_give_way_to_those_that_are_set(self) -> None:
        made = aur({"model": {"lr": 0.01}}, recipe="paper")
        paper = al.MF(recipe="paper")
        assert (made.recipe, made.model.recipe) == ("paper", "paper")
        assert made.model.options()["lr"] == 0.01
        kept = {name: value for name, value in al.MF.paper.items() if name != "lr"}
        assert {name: getattr(made.model, name) for name in kept} == kept
        assert made.model.options() | {"lr": 0} == paper.options() | {"lr": 0}
        assert made.floor == al.AUR.paper["floor"]

    def test_a_learning_rate_is_refused_for_als_alone(self) -> None:
        with pytest.raises(al.AleatorError, match="option lr of MF has no effect"):
            aur({"model": {"lr": 0.01}})
