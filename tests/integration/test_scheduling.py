"""How a server asks the kernel for its turns, tried in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bmq.server.scheduling import AUTOGROUP, NICENESS_MAX
from testing.patience import Patience

pytestmark = pytest.mark.campaign("workers")

POLICIES = """
import os, sys, threading
from bmq.server.process import prepare_process
from bmq.server.scheduling import THIS_THREAD
from bmq.server.settings import Settings
os.sched_setscheduler(THIS_THREAD, int(sys.argv[1]), os.sched_param(0))
prepare_process(Settings(store=sys.argv[2], scheduling=sys.argv[3]))
found = [os.sched_getscheduler(THIS_THREAD)]
later = threading.Thread(target=lambda: found.append(os.sched_getscheduler(THIS_THREAD)))
later.start()
later.join()
print(*found)
"""
HDFS = "hdfs://127.0.0.1:9000/bmq"


@pytest.mark.parametrize(
    ("before", "store", "wanted", "after"),
    [
        (os.SCHED_OTHER, HDFS, "auto", os.SCHED_BATCH),
        (os.SCHED_OTHER, "", "auto", os.SCHED_OTHER),
        (os.SCHED_OTHER, "", "batch", os.SCHED_BATCH),
        (os.SCHED_OTHER, HDFS, "normal", os.SCHED_OTHER),
        (os.SCHED_IDLE, HDFS, "auto", os.SCHED_IDLE),
    ],
    ids=["on HDFS", "embedded", "wanted", "not wanted", "given from outside"],
)
def test_the_process_and_its_later_threads_have_a_policy(before: int, store: str, wanted: str, after: int) -> None:
    command = [sys.executable, "-c", POLICIES, str(before), store, wanted]
    # An idle process may wait for the processors as long as other tests have them.
    done = subprocess.run(command, capture_output=True, text=True, timeout=Patience(200).limit_s, check=False)
    assert done.stdout.split() == [str(after), str(after)], done.stderr


WHEN_IDLE = """
import os
from bmq.server.scheduling import AUTOGROUP, THIS_THREAD, run_when_idle
run_when_idle()
print(os.sched_getscheduler(THIS_THREAD), AUTOGROUP.read_text().split()[-1] if AUTOGROUP.exists() else "none")
"""


@pytest.mark.contract
@pytest.mark.parametrize("has_own_session", [True, False])
def test_an_idle_process_lowers_its_own_session_alone(has_own_session: bool) -> None:
    before = AUTOGROUP.read_text().split()[-1] if AUTOGROUP.exists() else "none"
    done = subprocess.run(
        [sys.executable, "-c", WHEN_IDLE],
        start_new_session=has_own_session,
        capture_output=True,
        text=True,
        timeout=Patience(200).limit_s,
        check=False,
    )
    expected = str(NICENESS_MAX) if has_own_session and before != "none" else before
    assert done.stdout.split() == [str(os.SCHED_IDLE), expected], done.stderr
