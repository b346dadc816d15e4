"""The loop over the parts of a run."""

from __future__ import annotations

import signal
from dataclasses import dataclass

import pytest

from bench.findings import Findings
from bench.measured_parts import measured_parts

pytestmark = pytest.mark.campaign("unit")


@dataclass(frozen=True, slots=True)
class Parts:
    parts: tuple[str, ...]
    sides: tuple[str, ...] = ()


def test_a_part_that_fails_is_noted_and_cleaned_up_and_the_others_are_run() -> None:
    done: list[str] = []

    def fail() -> None:
        raise OSError("no disk")

    findings = Findings()
    took = measured_parts(
        Parts(("a", "b")), findings, {"a": fail, "b": lambda: done.append("b")}, clean=lambda: done.append("clean")
    )
    assert done == ["clean", "b"] and list(took) == ["a", "b"]
    assert findings.failures == {"a": ["OSError: no disk"]}


def test_a_part_that_takes_longer_than_its_limit_is_ended() -> None:
    findings = Findings()
    measured_parts(Parts(("slow",)), findings, {"slow": signal.pause}, limit_s=lambda _: 0.01)
    assert findings.failures == {"slow": ["PartTimedOut: slow took longer than 0.01 s"]}
