"""Hostile requests, in a short form of what tools/attack_service.py does; and the examples of the documentation."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

import aleator as al
from aleator.serving.served import Served
from tests.serving.conftest import SETTINGS, listening

PAGE = Path(__file__).parents[2] / "docs" / "service.md"


def test_random_requests_get_an_answer_that_is_right_or_a_refusal(attack: Any, address: str, model: al.AUR) -> None:
    counted = attack.fuzz(address, model, 300, seed=7)
    assert counted.wrong == {}
    assert counted.compared > 20
    assert {200, 400, 404, 405, 415, 422} <= counted.statuses.keys()


def test_the_attack_sees_what_comes_through(attack: Any, address: str, model: al.AUR) -> None:
    assert attack.fuzz(address, model.at(0.0), 60, seed=1).wrong


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fits", "does-not-fit"])
def test_the_document_of_the_service_says_what_it_does(address: str, mode: GenerationMode) -> None:
    """All checks of Schemathesis but one: what fits the schemas may name ids that the model has not."""
    for found in schemathesis.openapi.from_url(f"{address}/openapi.json").get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query):
            continue

        @settings(max_examples=5, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
        @given(case=operation.as_strategy(generation_mode=mode))
        def agrees(case: Any) -> None:
            case.call_and_validate(excluded_checks=[positive_data_acceptance])

        agrees()


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_curl_examples_of_the_page_run(tmp_path: Path) -> None:
    data = al.simulate(n_users=300, n_items=200, seed=0).interactions
    al.AUR(al.EASE(), lam=0.5, estimator=al.FactorEstimator(dim=8, max_epochs=2)).fit(data).save(tmp_path / "m")
    (block,) = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    with listening(Served.load(tmp_path / "m", SETTINGS), SETTINGS) as address:
        first, *lines = block.splitlines()
        assert first.startswith("ADDRESS=http://")  # of a server on the usual port; here it is another
        for line in lines:
            line = line.replace("curl -s", "curl -s --fail-with-body")
            ran = subprocess.run(
                ["bash", "-c", line], env=os.environ | {"ADDRESS": address}, capture_output=True, text=True, check=False
            )
            assert ran.returncode == 0, f"{line}: {ran.stdout}"
            assert ran.stdout.startswith("{")
