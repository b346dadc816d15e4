"""A process that is to run for a share of the time does, whatever it does."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.aio.duty_pauses import pause_after
from bmq.server.duty_cycle import REST_MAX_S
from testing.patience import Patience

pytestmark = pytest.mark.unit

# Works under each share in turn; says what part of its work and its pauses was work. Time that it waits for a processor
# is neither, so a busy machine changes nothing.
RUNNING = """
import sys, time
from bmq.server.duty_cycle import DutyCycle
share, paused_s, sleep = 1.0, 0.0, time.sleep
def pause(asked_s):
    global paused_s
    sleep(asked_s)
    paused_s += asked_s
time.sleep = pause
DutyCycle(lambda: share).begin()
for share in map(float, sys.argv[1:]):
    paused_s, began_s = 0.0, time.process_time()
    while time.process_time() < began_s + 0.2:
        sum(range(1_000))
    worked_s = time.process_time() - began_s
    print(worked_s / (worked_s + paused_s))
"""


@given(st.floats(0.0, 10.0), st.floats(0.01, 1.0))
def test_work_is_its_share_of_work_and_rest(ran_s: float, share: float) -> None:
    rest_s = pause_after(ran_s, share, REST_MAX_S)
    assert 0 <= rest_s <= REST_MAX_S
    if rest_s < REST_MAX_S:
        assert ran_s == pytest.approx(share * (ran_s + rest_s))


def test_a_process_takes_no_more_than_its_share_and_all_of_the_time_again_when_it_may() -> None:
    done = subprocess.run(
        (sys.executable, "-c", RUNNING, "0.1", "0.5", "1.0"),
        check=True,
        capture_output=True,
        text=True,
        timeout=Patience(60).limit_s,
    )
    tenth, half, whole = map(float, done.stdout.split())
    # The last turn of work has no pause yet.
    assert tenth == pytest.approx(0.1, abs=0.03)
    assert half == pytest.approx(0.5, abs=0.1)
    assert whole == 1.0
