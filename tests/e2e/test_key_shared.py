"""key_shared groups through librdkafka's share consumer: order of each key while members join, leave and are killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from testing.java import CONFIGS
from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker
from tests.e2e.test_share_groups import described, explained, group_from_the_beginning
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(240)]

MEMBER = Path(__file__).with_name("key_shared_member.py")
WAIT_S = 60
KEYS = 16
PAUSE_S = 0.05


class Given(NamedTuple):
    """A record that a member had from one time to another."""

    key: str
    offset: int
    member: int
    from_s: float
    to_s: float
    is_accepted: bool


class Member:
    """A process; its output is a file, which a kill leaves as it is."""

    def __init__(self, server: Server, group: str, topic: str, output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            arguments = [sys.executable, str(MEMBER), server.bootstrap, group, topic]
            self.process = subprocess.Popen(arguments, stdout=file, stderr=subprocess.DEVNULL)
        self._killed_s: float | None = None

    @property
    def events(self) -> list[dict[str, Any]]:
        """Whole lines: the last one of a killed process may be cut."""
        return [
            json.loads(line) for line in self._output.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")
        ]

    @property
    def accepted_count(self) -> int:
        """Asked again and again: the events are not parsed for it."""
        return self._output.read_bytes().count(b'"event": "accepting"')

    def leave(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(WAIT_S) == 0

    def kill(self) -> None:
        self._killed_s = time.monotonic()
        self.process.kill()
        self.process.wait(WAIT_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT_S)

    def given(self, number: int) -> Iterator[Given]:
        assert not [one for one in self.events if one["event"] == "refused"]
        open_ones: dict[int, dict[str, Any]] = {}
        accepting: list[Given] = []
        for one in self.events:
            match one["event"]:
                case "given":
                    open_ones[one["offset"]] = one
                case "accepting":
                    begun = open_ones.pop(one["offset"])
                    accepting.append(Given(one["key"], one["offset"], number, begun["s"], one["s"], True))
                case _:
                    yield from accepting
                    accepting = []
        assert self._killed_s is not None or not (open_ones or accepting), "a member has left with records on hand"
        for part in accepting:  # of the kill: their acknowledgements may not have been sent
            yield part._replace(is_accepted=False)
        for one in open_ones.values():
            yield Given(one["key"], one["offset"], number, one["s"], max(one["s"], self._killed_s or 0.0), False)


@contextmanager
def members(server: Server, group: str, topic: str, directory: Path) -> Iterator[list[Member]]:
    """Append to it with `join`."""
    made: list[Member] = []
    try:
        yield made
    finally:
        for one in made:
            one.close()


def key_shared_group(server: Server) -> str:
    group = group_from_the_beginning(server)
    run_tool(
        CONFIGS,
        *("--bootstrap-server", server.bootstrap, "--alter", "--entity-type", "groups", "--entity-name", group),
        *("--add-config", "bmq.share.subscription.type=key_shared"),
    )
    return group


class Feed:
    """Writes records until it is stopped: one of each key at a time, each time with another codec. Two members keep up with it."""

    def __init__(self, server: Server, topic: str) -> None:
        self._producers = [
            Producer({"bootstrap.servers": server.bootstrap, "compression.type": codec, "linger.ms": 5})
            for codec in ("none", "lz4", "zstd")
        ]
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(PAUSE_S):
            producer = self._producers[0]
            self._producers.append(self._producers.pop(0))
            for number in range(self.count, self.count + KEYS):
                producer.produce(self._topic, f"value {number}".encode(), f"key-{number * 7 % KEYS}".encode())
            if producer.flush(WAIT_S):
                return  # the count says how many were written
            self.count += KEYS


@pytest.mark.safety
def test_each_key_is_in_order_while_members_join_leave_and_are_killed(
    server: Server, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic, group = make_topic(), key_shared_group(server)
    with members(server, group, topic, tmp_path) as made:

        def join() -> None:
            made.append(Member(server, group, topic, tmp_path / f"member-{len(made)}"))

        def accepted(count: int) -> None:
            eventually(
                lambda: sum(one.accepted_count for one in made) >= count, WAIT_S, f"{count} records are accepted"
            )

        def joined(number: int) -> None:
            join()
            eventually(lambda: made[number].accepted_count >= 20, WAIT_S, f"member {number} has its share")

        join()
        join()
        with Feed(server, topic) as feed:
            accepted(100)
            joined(2)
            made[1].kill()
            joined(3)
            made[0].leave()
            more = sum(one.accepted_count for one in made[2:])
            eventually(lambda: sum(one.accepted_count for one in made[2:]) > more + 200, WAIT_S, "the others go on")
        done = eventually(
            lambda: {row[4] for row in described(server, group, "--offsets")} == {"0"}, WAIT_S, "all is consumed", 0.5
        )
        assert done
        made[2].leave()
        made[3].leave()
        found = [one for number, member in enumerate(made) for one in member.given(number)]
    killed = {one.offset for one in found if not one.is_accepted}
    assert {one.offset for one in found if one.is_accepted} | killed == set(range(feed.count))
    by_key: dict[str, list[Given]] = defaultdict(list)
    for one in found:
        by_key[one.key].append(one)
    assert len(by_key) == KEYS
    for key, parts in by_key.items():
        accepted_offsets = [
            one.offset for one in sorted(parts, key=lambda one: (one.to_s, one.offset)) if one.is_accepted
        ]
        assert accepted_offsets == sorted(set(accepted_offsets)), key
        for one in parts:
            for other in parts:
                is_apart = one.to_s <= other.from_s or other.to_s <= one.from_s
                assert one.member == other.member or is_apart, f"{one} and {other}"
    overlapping = sum(
        one.member < other.member and one.from_s < other.to_s and other.from_s < one.to_s
        for one in found
        for other in found
    )
    assert overlapping > 0, "no two members ever worked at once"
    assert explained(server, group)["subscription"] == "key_shared"
