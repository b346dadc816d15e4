"""One consumer that drains a topic from offset 0, again and again, in every second window; a process of its own.

    python -m bench.cluster.drainer BOOTSTRAP TOPIC BEGIN WINDOW_S WINDOWS

From BEGIN on, of the system's monotonic clock, which all processes share. In the first window, the third and so on it is
paused. Prints a JSON line: the records it read in the windows for it, the passes it finished, and its errors.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bmq.server.scheduling import run_when_idle

BATCH_RECORDS_MAX: Final = 5_000
POLL_S: Final = 0.1
METADATA_WAIT_S: Final = 30.0


def main() -> None:
    run_when_idle()
    bootstrap, topic, begin, window_s, windows = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:6])
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "drain",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    partitions = list(consumer.list_topics(topic, timeout=METADATA_WAIT_S).topics[topic].partitions)
    assignment = [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions]
    consumer.assign(assignment)
    consumer.pause(assignment)
    is_paused = True
    records = passes = errors = ended = 0
    while (now := time.monotonic()) < begin + windows * window_s:
        is_ours = now >= begin and (now - begin) // window_s % 2 == 1
        if is_ours == is_paused:
            (consumer.resume if is_paused else consumer.pause)(assignment)
            is_paused = not is_paused
        for message in consumer.consume(BATCH_RECORDS_MAX, timeout=POLL_S):
            error = message.error()
            if error is None:
                records += is_ours
            elif error.name() == "_PARTITION_EOF":
                ended += 1
            else:
                errors += 1
        if ended == len(partitions):
            passes, ended = passes + 1, 0
            consumer.assign(assignment)
            is_paused = False
    consumer.close()
    print(json.dumps({"records": records, "passes": passes, "errors": errors}), flush=True)


if __name__ == "__main__":
    main()
