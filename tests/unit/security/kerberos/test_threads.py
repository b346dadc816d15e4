"""What waits for a KDC: in order for one server, beside all others, and not longer than the process lives."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from bmq.security.kerberos.library import in_kerberos_thread
from bmq.security.kerberos.threads import KerberosThreads

pytestmark = pytest.mark.unit

WAIT_S = 20.0
SLOW = "zookeeper/slow"


class Held:
    """Work that hangs until `go`."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.go.wait(WAIT_S)
        return "late"


def none_left(threads: KerberosThreads) -> bool:
    return all(one.thread_count == 0 and not one.has_work() and not one.busy for one in threads._services.values())


def test_work_for_one_server_holds_up_none_for_another_or_of_another_service() -> None:
    threads, held = KerberosThreads(), Held()
    slow = threads.submit("ZooKeeper", SLOW, held)
    assert held.begun.wait(WAIT_S)
    assert threads.submit("ZooKeeper", "zookeeper/other", lambda: "quick").result(WAIT_S) == "quick"
    assert threads.submit("HDFS", SLOW, lambda: "quick").result(WAIT_S) == "quick"
    assert not slow.done()
    held.go.set()
    assert slow.result(WAIT_S) == "late"


def test_work_for_one_server_is_done_in_order_and_never_at_once() -> None:
    threads, order, held = KerberosThreads(), list[int](), Held()

    def noting(number: int) -> Callable[[], None]:
        return lambda: order.append(number)

    works: list[Future[None]] = []
    first = threads.submit("HDFS", SLOW, held)
    assert held.begun.wait(WAIT_S)
    works = [threads.submit("HDFS", SLOW, noting(number)) for number in range(100)]
    assert not order and threads._services["HDFS"].thread_count == 1
    held.go.set()
    assert first.result(WAIT_S) == "late"
    for work in works:
        work.result(WAIT_S)
    assert order == list(range(100))


def test_what_is_given_up_before_it_begins_is_not_done_and_not_kept() -> None:
    threads, held = KerberosThreads(), Held()
    threads.submit("HDFS", SLOW, held)
    assert held.begun.wait(WAIT_S)
    done: list[str] = []
    for _ in range(1_000):  # tries of a KDC that does not answer
        assert threads.submit("HDFS", SLOW, lambda: done.append("never")).cancel()
    last = threads.submit("HDFS", SLOW, lambda: "asked")
    assert len(threads._services["HDFS"]._jobs[SLOW]) == 1
    held.go.set()
    assert last.result(WAIT_S) == "asked" and not done


def test_what_work_raises_is_raised_to_who_waits_and_the_next_is_done() -> None:
    def fails() -> None:
        raise SystemExit("no thread ends by that")

    threads = KerberosThreads()
    with pytest.raises(SystemExit, match="no thread ends by that"):
        threads.submit("HDFS", SLOW, fails).result(WAIT_S)
    assert threads.submit("HDFS", SLOW, lambda: 1).result(WAIT_S) == 1


def test_threads_are_bounded_for_a_service_and_end_with_their_work() -> None:
    threads, helds = KerberosThreads(threads_max=3), [Held() for _ in range(5)]
    works = [threads.submit("HDFS", f"dn/{number}", held) for number, held in enumerate(helds)]
    assert all(held.begun.wait(WAIT_S) for held in helds[:3])
    assert threads.submit("ZooKeeper", SLOW, lambda: "quick").result(WAIT_S) == "quick"
    assert not any(held.begun.is_set() for held in helds[3:])
    helds[1].go.set()
    assert helds[3].begun.wait(WAIT_S) and not helds[4].begun.is_set()
    running = [one for one in threading.enumerate() if one.name == "bmq-kerberos-HDFS"]
    for held in helds:
        held.go.set()
    assert [work.result(WAIT_S) for work in works] == ["late"] * 5
    for one in running:
        one.join(WAIT_S)
    assert none_left(threads)


def test_a_thread_that_cannot_be_started_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads, done = KerberosThreads(threads_max=1), list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                threads.submit("HDFS", "nn/a", lambda: done.append("nobody waits for it"))
    assert len(threads._services["HDFS"]._jobs["nn/a"]) == 1, "no try adds to what is kept"
    assert threads.submit("HDFS", "nn/a", lambda: "now").result(WAIT_S) == "now" and not done


def test_a_process_ends_while_the_library_hangs() -> None:
    script = """
import threading
from bmq.security.kerberos.library import in_kerberos_thread
begun = threading.Event()
def hang():
    begun.set()
    threading.Event().wait()
in_kerberos_thread("ZooKeeper", "zookeeper/slow", hang)
assert begun.wait(20)
print("over")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=WAIT_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")


def test_the_threads_are_those_of_the_process() -> None:
    names: list[str] = []
    in_kerberos_thread("HDFS", "nn/a", lambda: names.append(threading.current_thread().name)).result(WAIT_S)
    assert names == ["bmq-kerberos-HDFS"]
