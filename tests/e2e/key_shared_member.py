"""A member of a share group in a process of its own: prints what it is given, and what it accepts, one JSON line each.

Arguments: bootstrap servers, group, topic. Each line: key, offset, the loop's clock (monotonic, the same for all processes),
and the event: "given" once a poll has returned the record, "accepting" before its acknowledgement is sent, "accepted" when those
of all records of the poll were answered (it names the last one). SIGTERM: it leaves.
"""

from __future__ import annotations

import json
import signal
import sys
import time

from confluent_kafka import AcknowledgeType, ShareConsumer

WAIT_S = 30.0
WORK_S = 0.002
"""Of one record."""


def main(bootstrap: str, group: str, topic: str) -> None:
    is_leaving = False

    def leave(_signal: int, _frame: object) -> None:
        nonlocal is_leaving
        is_leaving = True

    signal.signal(signal.SIGTERM, leave)
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 40,
        }
    )
    consumer.subscribe([topic])
    while not is_leaving:
        messages = [one for one in consumer.poll(0.2) if not one.error()]
        for message in messages:
            tell("given", message)
        for message in messages:
            time.sleep(WORK_S)
            tell("accepting", message)
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        if messages:
            failed = [str(error) for error in consumer.commit_sync(WAIT_S).values() if error]
            tell("accepted", messages[-1])
            for text in failed:
                print(json.dumps({"event": "refused", "text": text}), flush=True)
    consumer.close()


def tell(event: str, message: object) -> None:
    line = {
        "event": event,
        "key": message.key().decode(),  # type: ignore[attr-defined]
        "offset": message.offset(),  # type: ignore[attr-defined]
        "s": time.monotonic(),
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
