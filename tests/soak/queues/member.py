"""A member of a share group in a process of its own, so that it can be killed: tells what it is given, and what it says.

Its argument is JSON: `settings` (librdkafka's), `plan` (a GroupPlan's fields), `topic`, `seed`. It prints lines of JSON, each with the
time by the machine's monotonic clock. SIGTERM: it closes, and leaves the group with that.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, ShareConsumer

from tests.soak.history import NotOurs, origin_of
from tests.soak.queues.plan import POLL_RECORDS_MAX, STALL_S, GroupPlan

POLL_WAIT_S: Final = 0.5
COMMIT_WAIT_S: Final = 30.0
TROUBLE_INTERVAL_S: Final = 0.5
"""A client that has no connection says so dozens of times a second."""


class ShareMember:
    """`since_s`: what the next poll returns was acquired after this."""

    def __init__(self, settings: Mapping[str, Any], plan: GroupPlan, topic: str, random: Random) -> None:
        self.is_leaving = False
        self._plan = plan
        self._topic = topic
        self._random = random
        self._since_s = time.monotonic()
        self._troubled_s = 0.0
        self._consumer = ShareConsumer(
            {
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": POLL_RECORDS_MAX,
                "group.id": plan.name,
                "error_cb": self._on_error,
                **settings,
            }
        )
        self._consumer.set_acknowledgement_commit_callback(self._on_answer)

    def run(self) -> None:
        """Raises KafkaException."""
        self._consumer.subscribe([self._topic])
        tell("joining")
        while not self.is_leaving:
            self._turn()
        tell("leaving")
        self._consumer.close()
        tell("left")

    def _turn(self) -> None:
        messages = list(self._consumer.poll(POLL_WAIT_S))
        at_s = time.monotonic()
        given = [message for message in messages if self._is_record(message)]
        if not given:
            return
        choices: dict[str, list[tuple[int, int]]] = {}
        records = []
        for message in given:
            place = place_of(message)
            try:
                origin = origin_of(place[0], message.value() or b"")
            except NotOurs as damage:
                tell("damaged", text=f"offset {place[1]}: {damage}")
                continue
            records.append((*place, message.delivery_count(), *origin))
            choices.setdefault(self._plan.choice(self._random, origin), []).append(place)
        tell("given", at_s=at_s, since_s=self._since_s, records=records)
        self._since_s = at_s
        if self._random.random() < self._plan.stalled:
            tell("stalls")
            time.sleep(STALL_S)
        tell("deciding", choices=choices)
        for choice, places in choices.items():
            for partition, offset in places:
                kind = AcknowledgeType[choice.upper()]
                self._consumer.acknowledge_offset(self._topic, partition, offset, kind)
        try:
            self._consumer.commit_sync(COMMIT_WAIT_S)
        except KafkaException as error:  # the answers are told one by one, as they come
            self._trouble(str(error))

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is not None:
            self._on_error(error)
        return error is None

    def _on_answer(self, offsets: Mapping[Any, set[int]], error: KafkaException | None) -> None:
        places = [(one.partition, offset) for one, its_offsets in offsets.items() for offset in sorted(its_offsets)]
        tell("answered", places=places, error_code=None if error is None else error.args[0].code())

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            tell("fatal", text=str(error))
        self._trouble(str(error))

    def _trouble(self, text: str) -> None:
        now_s = time.monotonic()
        if now_s - self._troubled_s > TROUBLE_INTERVAL_S:
            self._troubled_s = now_s
            tell("trouble", text=text)


def place_of(message: Message) -> tuple[int, int]:
    """Partition and offset."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    return partition, offset


def tell(event: str, **details: Any) -> None:
    """One write: who reads it never sees the lines of a killed member mixed up."""
    line = json.dumps({"event": event, "s": time.monotonic(), **details})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> None:
    given = json.loads(arguments[0])
    plan = GroupPlan(**given["plan"])
    member = ShareMember(given["settings"], plan, given["topic"], Random(given["seed"]))

    def leave(_signal: int, _frame: object) -> None:
        member.is_leaving = True

    signal.signal(signal.SIGTERM, leave)
    member.run()


if __name__ == "__main__":
    main(sys.argv[1:])
