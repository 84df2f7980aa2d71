"""Records made by hand, for tests of what is shown."""

from __future__ import annotations

from typing import Any, cast

from aleator.studies.records import PairedTest, Record


def record(**known: Any) -> Record:
    """A record with these keys; the others have some value."""
    machine = {"cores": 2, "device": "no GPU", "processor": "x86_64"}
    made = {
        "study": "main",
        "dataset": "some",
        "recipe": "ours",
        "tail": "popularity <= 5",
        "empty": "skip",
        "method": "MF",
        "seed": 0,
        "metrics": {},
        "config": {},
        "seconds": 1.0,
        "machine": machine,
        "versions": {"torch": "2.6"},
        "command": "aleator reproduce",
    }
    return cast(Record, made | known)


def paired_test(mean: float | None, p: float | None, baseline: float | None = 0.05) -> PairedTest:
    """A test of the overall Recall@20."""
    return {"protocol": "overall", "metric": "recall@20", "mean": mean, "baseline": baseline, "p": p}


def against(*tests: PairedTest) -> dict[str, Any]:
    """What a record says of its tests against MF."""
    return {"method": "MF", "tests": list(tests)}
