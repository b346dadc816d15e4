"""Sets the kernel's scheduling of this process, which matters when the processors are busy (sched(7))."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import structlog

THIS_THREAD: Final = 0
THIS_PROCESS: Final = 0

NICENESS_MAX: Final = 19
AUTOGROUP: Final = Path("/proc/self/autogroup")
"""The niceness of all processes of a session together, beside other sessions; not there where the kernel has none."""

log = structlog.get_logger("bmq.cli")


def run_in_batches() -> None:
    """Use SCHED_BATCH from now on: when a request wakes this process, it does not preempt running processes.

    On idle processors that adds no wait. On busy ones, a server that preempts handles requests one by one. A server that is
    woken a little later finds several requests, and handles them with one packet to the DataNodes and one turn of the loop.

    Holds for this thread and all that it starts. A policy set on purpose (`chrt`, systemd's `CPUSchedulingPolicy`) is kept.
    Does nothing on systems without scheduling policies.
    """
    if not hasattr(os, "SCHED_BATCH"):
        return
    try:
        if os.sched_getscheduler(THIS_THREAD) == os.SCHED_OTHER:
            os.sched_setscheduler(THIS_THREAD, os.SCHED_BATCH, os.sched_param(0))
    except OSError as error:
        log.warning("no_batch_scheduling", reason=str(error))


def run_when_idle() -> None:
    """Use SCHED_IDLE from here on, or where there is none the lowest priority.

    A niceness of 19 is not enough beside servers: under SCHED_BATCH a server that is woken does not preempt a process of
    any niceness, so its clients would wait for the end of this one's slice. One under SCHED_IDLE gives way at once.

    But where Linux groups processes by session, both count inside of the group alone, and each session has an equal share
    of a busy processor. So a process with a session of its own lowers that as well.
    """
    os.nice(NICENESS_MAX)
    _lower_own_session()
    if not hasattr(os, "SCHED_IDLE"):
        return
    try:
        os.sched_setscheduler(THIS_THREAD, os.SCHED_IDLE, os.sched_param(0))
    except OSError as error:
        log.warning("no_idle_scheduling", reason=str(error))


def _lower_own_session() -> None:
    if os.getsid(THIS_PROCESS) != os.getpid():
        return  # it is others' session too
    try:
        AUTOGROUP.write_text(str(NICENESS_MAX))
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("session_scheduling_failed", reason=str(error))
