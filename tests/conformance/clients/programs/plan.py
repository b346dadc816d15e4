"""What every client does, and how it says what came of it. Pure but for the last line that a program prints.

A program is called with BOOTSTRAP NAME BASE_MS: names begin with NAME, points in time are told from BASE_MS. It prints one
JSON object: by step what came of it. A step that a client has no means for is left out.
What Apache Kafka shows only a moment after it was done (a new topic, a changed setting) is asked for until it is there.

create topic    two partitions and a setting; made again: the error's name
produce         idempotent: three records with each codec, into partition 0, times BASE_MS + offset; one into partition 1
consume         a member of a group reads all and commits; one more record; the next member reads that one alone
newer group     the same records by a member of a KIP-848 group
transaction     committed with an offset, aborted, committed; read at both isolation levels
offsets         earliest, latest, at a time, behind the last time
configs         a topic's setting before and after it is altered
delete records  two of partition 0; where it begins then
groups          listed, described, deleted
delete topic    gone: the error's name of who asks for it
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

PARTITIONS: Final = 2
RECORDS_PER_CODEC: Final = 3
RETENTION_MS: Final = {"before": "72000000", "after": "36000000"}
TRANSACTIONS: Final = ((True, ("first", "second")), (False, ("third", "fourth")), (True, ("fifth",)))
"""Whether it is committed, and its values."""
TRANSACTIONAL_OFFSET: Final = 5
DELETED_BEFORE: Final = 2
ASKED_TIME: Final = 4
WAIT_S: Final = 60.0
POLL_INTERVAL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Given:
    """A program's arguments."""

    bootstrap: str
    name: str
    base_ms: int

    @property
    def topic(self) -> str:
        return self.name

    @property
    def transactional_topic(self) -> str:
        return f"{self.name}-transactions"

    @property
    def group(self) -> str:
        return f"{self.name}-group"

    def time_since_base(self, timestamp_ms: int) -> int:
        """-1 stays what it is: none."""
        return timestamp_ms - self.base_ms if timestamp_ms >= 0 else timestamp_ms


def given(arguments: list[str]) -> Given:
    bootstrap, name, base_ms = arguments[1:]
    return Given(bootstrap, name, int(base_ms))


def settled(ask: Callable[[], Any], is_there: Callable[[Any], bool]) -> Any:
    """The first answer that is as it should be; the last one when none is in time."""
    deadline = time.monotonic() + WAIT_S
    while not is_there(answer := ask()) and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
    return answer


def tell(outcome: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(outcome) + "\n")
