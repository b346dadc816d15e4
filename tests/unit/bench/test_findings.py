"""What fails is noted and keeps nothing else from being measured; what is measured again takes nothing away."""

from __future__ import annotations

import signal
import time

import pytest

from bench.findings import REASON_CHARACTERS_MAX, Findings
from bench.time_limit import PartTimedOut, time_limit

pytestmark = pytest.mark.campaign("unit")


def test_a_failure_is_noted_for_each_part_it_concerns() -> None:
    findings = Findings()
    with findings.attempt(["metadata", "shard_replay"], "kafka"):
        raise AssertionError("no Java")
    assert findings.failures == {
        "metadata": ["kafka: AssertionError: no Java"],
        "shard_replay": ["kafka: AssertionError: no Java"],
    }
    findings.failed("metadata", "x" * 2 * REASON_CHARACTERS_MAX)
    assert len(findings.failures["metadata"][1]) == REASON_CHARACTERS_MAX


def test_rounds_that_were_measured_stay_when_the_next_fails() -> None:
    findings = Findings()
    done = findings.rounds("kill9_broker", "bmq", 3)
    with findings.attempt(["kill9_broker"], "bmq"):
        done({"gap_s": 0.3})
        raise OSError("gone")
    assert findings.parts == {"kill9_broker": {"bmq": {"wanted": 3, "rounds": [{"gap_s": 0.3}]}}}


def test_a_part_that_is_out_of_time_does_not_go_on_with_the_other_side() -> None:
    findings = Findings()
    with pytest.raises(PartTimedOut), findings.attempt(["move"], "bmq"):
        raise PartTimedOut("move took longer than 1 s")
    assert findings.failures == {}


def test_a_block_is_ended_when_its_time_is_up_and_only_then() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(PartTimedOut, match=r"naps took longer than 0\.05 s"), time_limit(0.05, "naps"):
        time.sleep(30)
    with time_limit(30, "nothing"):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_what_is_measured_again_is_put_aside_with_all_that_was_known_of_it() -> None:
    findings = Findings.of(
        {
            "parts": {"move": {"bmq": {"a": 1}, "kafka": {"a": 2}}, "scale": {"bmq": {"a": 3}}},
            "failures": {"move": ["kafka: stuck"], "move/detail": ["a detail"], "moved": ["another part"]},
            "measured": {"move": {"revision": "abc"}, "scale": {"revision": "abc"}},
            "superseded": [{"part": "scale", "samples": {"bmq": {"a": 0}}}],
        }
    )
    findings.supersede(["move", "drain"])
    assert findings.parts == {"scale": {"bmq": {"a": 3}}}
    assert findings.failures == {"moved": ["another part"]}
    assert findings.measured == {"scale": {"revision": "abc"}}
    assert findings.superseded == [
        {"part": "scale", "samples": {"bmq": {"a": 0}}},
        {
            "part": "move",
            "samples": {"bmq": {"a": 1}, "kafka": {"a": 2}},
            "failures": ["kafka: stuck", "a detail"],
            "measured": {"revision": "abc"},
        },
    ]
