"""A process that is to run for a share of the time does, whatever it does."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.aio.duty_pauses import pause_after
from bmq.server.duty_cycle import REST_MAX_S

pytestmark = pytest.mark.unit

# Runs for as long as it is told under each share; says how long it took.
RUNNING = """
import sys, time
from bmq.server.duty_cycle import DutyCycle
share = 1.0
DutyCycle(lambda: share).begin()
for share in map(float, sys.argv[1:]):
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    while time.process_time() < began_cpu_s + 0.2:
        sum(range(1_000))
    print((time.process_time() - began_cpu_s) / (time.perf_counter() - began_s))
"""


@given(st.floats(0.0, 10.0), st.floats(0.01, 1.0))
def test_work_is_its_share_of_work_and_rest(ran_s: float, share: float) -> None:
    rest_s = pause_after(ran_s, share, REST_MAX_S)
    assert 0 <= rest_s <= REST_MAX_S
    if rest_s < REST_MAX_S:
        assert ran_s == pytest.approx(share * (ran_s + rest_s))


def test_a_process_takes_no_more_than_its_share_and_all_of_the_time_again_when_it_may() -> None:
    done = subprocess.run(
        (sys.executable, "-c", RUNNING, "0.1", "0.5", "1.0"), check=True, capture_output=True, text=True, timeout=60
    )
    tenth, half, whole = map(float, done.stdout.split())
    # Busy processors can only make them less.
    assert tenth < 0.15
    assert half < 0.65
    assert half > tenth
    assert whole > half
