"""What a node with many partitions uses while nobody asks for anything and retention looks through all of them."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.measure import cpu_percent, memory_mib
from testing.servers import BmqServer
from testing.wire import EARLIEST_TIMESTAMP, NONE, WireClient

NAMES: Final = tuple(f"idle-{number}" for number in range(10))
WITNESS: Final = "witness"
START_S_MAX: Final = 180.0
OTHER_FILES: Final = 2_000
_CREATE_S: Final = 180.0
_CLOSE_S: Final = 180.0
_POLL_S: Final = 1.0


class RetentionUnseen(Exception):
    """The figure would not be of what it says."""


def measure(directory: Path, partitions: int, idle_s: float, settle_s: float, check_ms: int) -> dict[str, Any]:
    """Every partition has a closed segment and one that was written just now. `check_ms`: between checks of retention,
    0: the default.

    A topic whose segment is too old from the beginning on shows that there was a check while the processor time was
    counted. Raises RetentionUnseen.
    """
    environment = {"BMQ_BROKER__RETENTION_CHECK_INTERVAL_MS": str(check_ms)} if check_ms else {}
    server = BmqServer(directory, environment)
    server.ready_timeout_s = server.stop_timeout_s = START_S_MAX
    _allow_files(partitions)
    server.start()
    try:
        _make_topics(server, partitions)
        _write(server)
        server.stop()
        server.start()  # what was open is closed now
        _write(server)
        time.sleep(settle_s)
        _write_witness(server)
        before = _witness_start(server)
        percent = cpu_percent(server.pid, idle_s)
        after = _witness_start(server)
        memory = memory_mib(server.pid)
    finally:
        server.close()
    if not before < after:
        raise RetentionUnseen(f"there was no check of retention: the first offset was {before} and is {after}")
    return {"partitions": partitions, "cpu_percent": round(percent, 3), "measured_s": idle_s, **memory}


def _allow_files(partitions: int) -> None:
    """In the embedded store each partition has its directory open, and each that is written to its segment: half of them at
    a time. Raises RetentionUnseen.
    """
    wanted = partitions + partitions // 2 + OTHER_FILES
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except (ValueError, OSError):
            raise RetentionUnseen(f"this takes {wanted} open files, and {hard} are allowed (ulimit -Hn)") from None


def _make_topics(server: BmqServer, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    for name in NAMES:
        admin.create_topics([NewTopic(name, partitions // len(NAMES), 1)])[name].result(_CREATE_S)
    admin.create_topics([NewTopic(WITNESS, 1, 1, config={"retention.ms": "1"})])[WITNESS].result(_CREATE_S)


def _write(server: BmqServer) -> None:
    """A record into each partition, in two halves, so that half as many files are open at a time."""
    half = len(NAMES) // 2
    _write_to(server, NAMES[:half])
    _wait_for_closed(server)
    _write_to(server, (*NAMES[half:], WITNESS))


def _write_to(server: BmqServer, topics: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 50})
    known = producer.list_topics(timeout=_CREATE_S).topics
    for topic in topics:
        for partition in known[topic].partitions:
            producer.produce(topic, bytes(100), partition=partition)
        producer.poll(0)
    _flush(producer)


def _wait_for_closed(server: BmqServer) -> None:
    """Segments that nobody writes to are closed after `bmq.segment.idle.close.ms`. Raises RetentionUnseen."""
    end_s = time.monotonic() + _CLOSE_S
    while _open_segments(server) > OTHER_FILES // 2:
        if time.monotonic() > end_s:
            raise RetentionUnseen(f"idle segments are still open after {_CLOSE_S:.0f} s")
        time.sleep(_POLL_S)


def _open_segments(server: BmqServer) -> int:
    found = 0
    for descriptor in Path(f"/proc/{server.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found += descriptor.readlink().suffix == ".log"
    return found


def _write_witness(server: BmqServer) -> None:
    """One more, in case that the earlier ones were checked before it counts."""
    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce(WITNESS, bytes(100), partition=0)
    _flush(producer)


def _flush(producer: Producer) -> None:
    if producer.flush(START_S_MAX):  # each partition is started for its first record
        raise RetentionUnseen("the server does not take its records")


def _witness_start(server: BmqServer) -> int:
    with WireClient(server.port, timeout_s=30) as client:
        code, offset = client.list_offsets(WITNESS, [0], EARLIEST_TIMESTAMP)[0]
    if code != NONE:
        raise RetentionUnseen(f"the witness has no first offset: error {code}")
    return offset
