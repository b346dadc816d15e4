"""What a manifest says of delayed records, and what is left of it when the log lost its end or its beginning."""

from __future__ import annotations

import pytest

from bmq.log.manifest import Manifest, TimersReference
from bmq.log.recovery import timers_within

pytestmark = pytest.mark.unit


def test_a_manifest_keeps_timers_and_has_none_without() -> None:
    timers = TimersReference(replay_from=40, due_ms=-1, offset=-1)
    assert Manifest.decode(Manifest(3, 0, 40, 50, timers=timers).encode()).timers == timers
    without = Manifest(3, 0, 0, 0)
    assert Manifest.decode(without.encode()).timers is None
    assert b"timers" not in without.encode(), "an earlier release reads it"


def test_timers_stay_within_a_log_whose_loss_was_accepted() -> None:
    timers = TimersReference(40, 7, 30)
    assert timers_within(None, 0, 10) is None
    assert timers_within(timers, 10, 50) == timers
    assert timers_within(timers, 10, 35) == TimersReference(35, 7, 30)
    assert timers_within(timers, 45, 50) == TimersReference(45, 7, 30)


def test_half_messages_are_named_only_below_the_replay_offset() -> None:
    assert TimersReference(40, 7, 30, half_from=40).simplified() == TimersReference(40, 7, 30)
    timers = TimersReference(40, 7, 30, half_from=20).simplified()
    assert (timers.half_from, timers.needed_from) == (20, 20)
    assert Manifest.decode(Manifest(1, 1, 10, 50, timers=timers).encode()).timers == timers
    assert b"half_from" not in Manifest(1, 1, 10, 50, timers=TimersReference(40, 7, 30)).encode(), (
        "an earlier release reads it"
    )
    assert timers_within(timers, 25, 50) == TimersReference(40, 7, 30, half_from=25)
    assert timers_within(timers, 10, 15) == TimersReference(15, 7, 30, half_from=15)
