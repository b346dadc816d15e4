"""A process whose event loop hangs ends, and says where it hung; one that was only stopped goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from bmq.server.loop_watchdog import EXIT_CODE, LoopSilence
from bmq.server.workers import LOOK_INTERVAL_S, OWN_PAUSE_S_MAX
from testing.patience import Patience

pytestmark = pytest.mark.unit

HANG_S = 10.0
STOPPED_HANG_S = 2 * OWN_PAUSE_S_MAX

PROGRAM = """
import asyncio, sys, time
import uvloop
from bmq.server.logs import configure_logs
from bmq.server.loop_watchdog import LoopWatchdog

def callback_that_hangs():
    time.sleep(3600)

async def main():
    configure_logs("info", "json")
    watchdog = LoopWatchdog(float(sys.argv[1]), 7)
    watchdog.start()
    if sys.argv[2] == "hang":
        asyncio.get_running_loop().call_soon(callback_that_hangs)
    print("ready", flush=True)
    await asyncio.sleep(float(sys.argv[3]))
    watchdog.close()

uvloop.run(main())
"""


def run(hang_s: float, what: str, for_s: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(hang_s), what, str(for_s)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_a_loop_that_hangs_ends_its_process_with_a_line_and_its_stacks() -> None:
    output, errors = (process := run(0.2, "hang")).communicate(timeout=Patience(30).limit_s)
    assert process.returncode == EXIT_CODE
    lines = [json.loads(line) for line in (output + errors).splitlines() if line.startswith("{")]
    assert [(line["event"], line["level"], line["node_id"]) for line in lines] == [("loop_hung", "error", 7)]
    assert "callback_that_hangs" in errors


def test_a_process_that_was_stopped_goes_on() -> None:
    process = run(STOPPED_HANG_S, "work", for_s=0.5)
    process.send_signal(signal.SIGSTOP)
    time.sleep(STOPPED_HANG_S + 0.5)  # the length of the stop is what is tested
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=Patience(30).limit_s)
    assert (process.returncode, errors) == (0, "")


def test_0_watches_nothing() -> None:
    process = run(0.0, "hang")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.kill()
    process.communicate()


def look_until(silence: LoopSilence, from_s: float, to_s: float) -> float | None:
    """Looks all the time; the first finding."""
    now_s = from_s
    while now_s <= to_s:
        if (hung_s := silence.hung_s(now_s)) is not None:
            return hung_s
        now_s += LOOK_INTERVAL_S
    return None


def test_silence_counts_from_the_last_beat() -> None:
    silence = LoopSilence(HANG_S, 0.0)
    assert look_until(silence, 0.0, 9.0) is None
    silence.beat(9.0)
    assert look_until(silence, 9.0, 19.0) is None
    assert look_until(silence, 19.0, 20.0) == HANG_S + LOOK_INTERVAL_S


def test_silence_counts_anew_after_a_pause_of_the_whole_process() -> None:
    silence = LoopSilence(HANG_S, 0.0)
    assert look_until(silence, 0.0, 5.0) is None
    assert silence.hung_s(60.0) is None
    assert look_until(silence, 60.0, 70.0) is None
    assert look_until(silence, 70.0, 71.0) is not None
