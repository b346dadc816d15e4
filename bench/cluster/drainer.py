"""One consumer that drains a topic from offset 0, again and again; a process of its own.

    python -m bench.cluster.drainer BOOTSTRAP TOPIC BEGIN END

Begins as soon as it can and ends at END; both times are of the system's monotonic clock, which all
processes share. Prints a JSON line: the records it read between BEGIN and END, the passes it finished, and its errors.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

BATCH_RECORDS_MAX: Final = 5_000
POLL_S: Final = 0.1
METADATA_WAIT_S: Final = 30.0


def main() -> None:
    bootstrap, topic, begin, end = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
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
    records = passes = errors = ended = 0
    while (now := time.monotonic()) < end:
        for message in consumer.consume(BATCH_RECORDS_MAX, timeout=POLL_S):
            error = message.error()
            if error is None:
                records += now >= begin
            elif error.name() == "_PARTITION_EOF":
                ended += 1
            else:
                errors += 1
        if ended == len(partitions):
            passes, ended = passes + 1, 0
            consumer.assign(assignment)
    consumer.close()
    print(json.dumps({"records": records, "passes": passes, "errors": errors}), flush=True)


if __name__ == "__main__":
    main()
