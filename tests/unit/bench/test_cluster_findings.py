"""What fails is noted and keeps nothing else from being measured; what takes too long is ended; what is measured again."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from bench.cluster.criteria import PAIRS
from bench.cluster.findings import REASON_CHARACTERS_MAX, Findings
from bench.cluster.stage import PartTimedOut, time_limit

pytestmark = pytest.mark.unit

EARLIER: dict[str, Any] = {
    "parts": {"move": {"bmq": {"a": 1}, "kafka": {"a": 2}}, "scale": {"bmq": {"a": 3}}},
    "pairs": [{"order": ["bmq", "kafka"]}],
    "failures": {"move": ["bmq: stuck", "kafka: stuck"], "scale": ["bmq: stuck"]},
}


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
    more = findings.rounds("kill9_broker", "bmq", 3)
    more({"gap_s": 0.4})
    assert findings.parts == {"kill9_broker": {"bmq": {"wanted": 3, "rounds": [{"gap_s": 0.3}, {"gap_s": 0.4}]}}}


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


def test_only_what_is_measured_again_is_left_out() -> None:
    kept = Findings.without(EARLIER, ["move"], ["bmq"])
    assert kept.parts == {"move": {"kafka": {"a": 2}}, "scale": {"bmq": {"a": 3}}}
    assert kept.failures == {"move": ["kafka: stuck"], "scale": ["bmq: stuck"]}
    assert kept.pairs == EARLIER["pairs"]


def test_a_failure_that_names_no_side_goes_with_what_it_was_about() -> None:
    out_of_time = EARLIER | {
        "failures": {PAIRS: ["PartTimedOut: it took longer", "bmq_separate: x"], "move": ["kafka: stuck", "no disk"]}
    }
    assert Findings.without(out_of_time, [PAIRS], ["bmq", "kafka"]).failures == {"move": ["kafka: stuck", "no disk"]}
    assert Findings.without(out_of_time, ["move"], ["bmq"]).failures == {
        PAIRS: ["PartTimedOut: it took longer", "bmq_separate: x"],
        "move": ["kafka: stuck"],
    }


def test_pairs_are_measured_all_together() -> None:
    kept = Findings.without(EARLIER, [PAIRS], ["bmq", "kafka"])
    assert kept.pairs == [] and kept.parts == EARLIER["parts"] and kept.failures == EARLIER["failures"]
