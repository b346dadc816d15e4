"""The members of a share group, each a process: killed or asked to close by dice, and started again; what they tell is kept."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any, Final

from testing.processes import REPOSITORY, dying_with_us
from tests.soak.history import Origin, Sightings
from tests.soak.load import JOIN_TIMEOUT_S, Client
from tests.soak.queues.ledger import QueueLedger
from tests.soak.queues.plan import KILL_SHARE, TOPIC, Choice, GroupPlan
from tests.soak.queues.record import Delivery

READ_WAIT_S: Final = 0.1
READ_BYTES_MAX: Final = 1 << 20
CLOSE_WAIT_S: Final = 90.0
"""A member that closes waits for a server that is away for its socket's timeout, and more than once."""

CLOSED: Final = (0, -signal.SIGTERM)
"""Exit codes of one that was asked to close; the second one had not begun yet."""


class Story:
    """What one process of a member tells, taken into the ledger of its group. No I/O."""

    def __init__(self, name: str, ledger: QueueLedger, sightings: Sequence[Sightings]) -> None:
        self._name = name
        self._ledger = ledger
        self._sightings = sightings
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Bytes as they came; the line of a member that was killed may end anywhere. Raises ValueError, KeyError: no line of a member's."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, told: Mapping[str, Any]) -> None:
        at_s: float = told["s"]
        match told["event"]:
            case "given":
                for partition, offset, number, producer, sequence in told["records"]:
                    problem = self._sightings[partition].add(offset, Origin(producer, sequence))
                    if problem:
                        self._ledger.damaged(problem)
                    delivery = Delivery(self._name, told["since_s"], told["at_s"], number)
                    self._ledger.given((partition, offset), delivery)
            case "deciding":
                for choice, places in told["choices"].items():
                    self._ledger.deciding(self._name, at_s, Choice(choice), map(tuple, places))
            case "answered":
                self._ledger.answered(self._name, at_s, map(tuple, told["places"]), told["error_code"])
            case "trouble" | "leaving":
                self._ledger.troubled(self._name, at_s)
            case "damaged" | "fatal":
                self._ledger.damaged(f"{self._name}: {told['text']}")
            case "stalls":
                self._ledger.count("stalls")


class CrewMember(Client):
    """One place in a group, taken by a process after the other. `ends`: how often those were killed, or closed.

    The last one is closed in order, so that what it said last is answered.
    """

    end_wait_s = CLOSE_WAIT_S + JOIN_TIMEOUT_S

    def __init__(
        self,
        plan: GroupPlan,
        number: int,
        seed: int,
        settings: Mapping[str, Any],
        ledger: QueueLedger,
        sightings: Sequence[Sightings],
        directory: Path,
    ) -> None:
        super().__init__(f"{plan.name} {number}")
        self.ends: Counter[str] = Counter()
        self._plan = plan
        self._seed = f"{seed} {self._name}"
        self._random = Random(self._seed)
        self._settings = settings
        self._ledger = ledger
        self._sightings = sightings
        self._log_file = directory / f"{plan.name}-{number}.log"
        self._told_file = directory / f"{plan.name}-{number}.jsonl"
        self._started_count = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._story: Story
        self._member = ""
        self._ends_s = 0.0
        self._is_closing = False

    def step(self) -> None:
        if self._process is None:
            self._begin()
        self._listen()
        if self._process is not None and not self._is_closing and time.monotonic() > self._ends_s:
            if self._random.random() < KILL_SHARE:
                self._kill()
            else:
                self._ask_to_close()

    def _run(self) -> None:
        """The process lives no longer than the thread that started it."""
        super()._run()
        try:
            self._end()
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")

    def _end(self) -> None:
        if self._process is not None and not self._is_closing:
            self._ask_to_close()
        while self._process is not None:
            self._listen()

    def _begin(self) -> None:
        """In the thread of all steps: the process dies with the thread that started it."""
        self._started_count += 1
        name = f"{self._name}.{self._started_count}".replace(" ", "-")
        given = {
            "settings": {**self._settings, "client.id": name},
            "plan": asdict(self._plan),
            "topic": TOPIC,
            "seed": f"{self._seed} {self._started_count}",
        }
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(
                dying_with_us([sys.executable, "-m", "tests.soak.queues.member", json.dumps(given)]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=REPOSITORY,
                start_new_session=True,
            )
        self._story = Story(name, self._ledger, self._sightings)
        self._member = name
        self._is_closing = False
        self._ends_s = time.monotonic() + self._random.uniform(*self._plan.life_s)

    def _listen(self) -> None:
        """Take what it tells; nothing more comes of one that has ended."""
        process = self._process
        assert process is not None and process.stdout is not None
        if select.select([process.stdout], [], [], READ_WAIT_S)[0]:
            data = os.read(process.stdout.fileno(), READ_BYTES_MAX)
            if data:
                self._take(data)
            else:
                self._note_end(process.wait())
        elif self._is_closing and time.monotonic() > self._ends_s:
            self.fail(f"{self._member} did not close within {CLOSE_WAIT_S:g} s")
            self._kill()

    def _take(self, data: bytes) -> None:
        with self._told_file.open("ab") as told:
            told.write(data)
        self._story.take(data)

    def _note_end(self, code: int) -> None:
        if self._is_closing and code in CLOSED:
            self._ended("closed")
            return
        self._ended("failed")
        self.fail(f"{self._member} ended by itself with {code}: see {self._log_file}")

    def _ask_to_close(self) -> None:
        assert self._process is not None
        self._ledger.troubled(self._member, time.monotonic())
        self._process.send_signal(signal.SIGTERM)
        self._is_closing = True
        self._ends_s = time.monotonic() + CLOSE_WAIT_S

    def _kill(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        self._ledger.troubled(self._member, time.monotonic())
        self._process.kill()
        self._process.wait()
        self._take(self._process.stdout.read())
        self._ended("killed")

    def _ended(self, how: str) -> None:
        assert self._process is not None and self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        self.ends[how] += 1
        self._ledger.troubled(self._member, time.monotonic())
