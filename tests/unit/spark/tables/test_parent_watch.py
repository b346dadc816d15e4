"""A job ends with its parent: in order once it runs, by force before."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from bmq.spark.tables.parent_watch import ParentWatch

pytestmark = pytest.mark.unit

WAIT_S = 60.0


def test_a_job_that_runs_is_stopped() -> None:
    reading, writing = os.pipe()
    stopped = threading.Event()
    killed: list[str] = []
    watch = ParentWatch(reading)

    def kill() -> None:
        killed.append("killed")

    watch.kill = kill  # type: ignore[method-assign]
    watch.stop_by(stopped.set)
    watch.start()
    os.write(writing, b"anything")
    os.close(writing)
    assert stopped.wait(WAIT_S)
    (timer,) = [each for each in threading.enumerate() if isinstance(each, threading.Timer) and each.function is kill]
    timer.cancel()
    timer.join()
    os.close(reading)
    assert killed == []


@pytest.mark.parametrize("leads", [True, False])
def test_before_that_it_is_killed_with_its_children(leads: bool) -> None:
    code = (
        "import os, time\n"
        "from bmq.spark.tables.parent_watch import ParentWatch\n"
        "child = os.fork()\n"
        "if child == 0 and not LEADS: os._exit(0)\n"
        "if child == 0:\n"
        "    while True: time.sleep(60)\n"
        "print('up', flush=True)\n"
        "ParentWatch().start()\n"
        "while True: time.sleep(60)\n"
    ).replace("LEADS", str(leads))
    job = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=leads
    )
    assert job.stdin is not None and job.stdout is not None
    with job.stdout, job.stdin:
        assert job.stdout.readline() == b"up\n"
        job.stdin.close()
        assert job.stdout.read() == b"", "the child holds standard output, and ends too"
    assert job.wait(WAIT_S) == (-9 if leads else 1)
