"""Brokers with many partitions are restarted in turn, under a producer and a consumer group."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException

from bench.cluster.faults import make_topic
from bench.cluster.sides import Side
from bench.cluster.steady import SteadyLoad

MANY: Final = "many"
FEW: Final = "few"
FEW_PARTITIONS: Final = 12
SEGMENT_BYTES: Final = 2 * 1024 * 1024
"""An open block reserves its whole size on its DataNodes, and the NameNode counts as many blocks as are being written again, in
the size of the next one: 900 of the default size would fill this machine's disk."""
ENVIRONMENT: Final = {"BMQ_KAFKA": json.dumps({"offsets.topic.segment.bytes": str(SEGMENT_BYTES)})}
# With twice as much, two cores have no time left: records wait for seconds though nobody restarts anything.
MANY_RATE: Final = 150.0
FEW_RATE: Final = 150.0
CAUGHT_UP_S: Final = 0.5
CALM_S: Final = 2.0
WATCH_S: Final = 2.0
FLOW_WAIT_S: Final = 120.0
JOIN_WAIT_S: Final = 20.0
KEPT_MAX: Final = 20


class GroupReader:
    """A consumer of a group that reads the topics in a thread and counts the errors it is given."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        self.errors: list[str] = []
        self.records = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "restart-readers",
                "auto.offset.reset": "earliest",
                "error_cb": lambda error: None,
                "log_level": 0,
            }
        )
        self._topics = topics
        self._finish = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group-reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finish.set()
        self._thread.join(JOIN_WAIT_S)

    def _run(self) -> None:
        self._consumer.subscribe(self._topics)
        while not self._finish.is_set():
            try:
                for message in self._consumer.consume(500, timeout=0.2):
                    error = message.error()
                    if error is None:
                        self.records += 1
                    elif error.code() != KafkaError._PARTITION_EOF:
                        self.errors.append(error.str())
            except KafkaException as error:
                self.errors.append(str(error))
        self._consumer.close()


def measure(
    side: Side, brokers: int, partitions_per_broker: int, done: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Restart so many brokers, one after the other; `done` is given each. The client errors of all of it.

    A topic of many partitions says what a record may have to wait anywhere; one of a few, each with a dense stream, how
    long a partition acknowledges nothing.
    """
    partitions = partitions_per_broker * len(side.broker_ids)
    make_topic(side, partitions, topic=MANY, segment_bytes=str(SEGMENT_BYTES))
    make_topic(side, FEW_PARTITIONS, topic=FEW, segment_bytes=str(SEGMENT_BYTES))
    with (
        SteadyLoad(side.bootstrap, MANY, partitions, MANY_RATE) as many,
        SteadyLoad(side.bootstrap, FEW, FEW_PARTITIONS, FEW_RATE) as few,
        GroupReader(side.bootstrap, [MANY, FEW]) as reader,
    ):
        many.wait_until_flowing(timeout_s=FLOW_WAIT_S)
        few.wait_until_flowing()
        for node_id in side.broker_ids[:brokers]:
            side.wait_whole()
            # What waited while hundreds of partitions were opened, or moved back, is not what this restart costs.
            many.wait_until_caught_up(CAUGHT_UP_S, timeout_s=FLOW_WAIT_S)
            time.sleep(CALM_S)
            owned = sum(owner == node_id for owner in side.owners(MANY).values())
            calm_s = many.seen.longest_wait_s(time.monotonic() - CALM_S, time.monotonic())
            began = time.monotonic()
            side.nodes[node_id].stop()
            stopped = time.monotonic()
            side.nodes[node_id].start()
            started = time.monotonic()
            side.wait_whole()
            many.wait_until_flowing(timeout_s=FLOW_WAIT_S)
            few.wait_until_flowing()
            time.sleep(WATCH_S)
            ended = time.monotonic()
            gap_s = few.seen.gaps(began, ended)["gap_s"]
            waited_s = round(many.seen.longest_wait_s(began, ended), 4)
            done(
                {
                    "broker": node_id,
                    "owned": owned,
                    "stop_s": round(stopped - began, 3),
                    "start_s": round(started - stopped, 3),
                    "whole_s": round(ended - WATCH_S - started, 3),
                    "calm_wait_s": round(calm_s, 4),
                    "few_gap_s": gap_s,
                    "many_longest_wait_s": waited_s,
                    "gap_s": max(gap_s, waited_s),
                }
            )
        many.finish()
        few.finish()
        return {
            "partitions": partitions,
            "client_errors": len(many.failed) + len(few.failed) + len(reader.errors),
            "producer_errors": [*many.failed, *few.failed][:KEPT_MAX],
            "consumer_errors": reader.errors[:KEPT_MAX],
            "consumed": reader.records,
            "loads": [many.facts(), few.facts()],
        }
