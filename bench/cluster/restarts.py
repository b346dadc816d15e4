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

IN_USE: Final = "in-use"
IDLE: Final = "idle"
SEGMENT_BYTES: Final = 2 * 1024 * 1024
"""An open block reserves its whole size on its DataNodes, and the NameNode counts as many blocks as are being written again, in
the size of the next one: 600 of the default size would fill this machine's disk."""
ENVIRONMENT: Final = {"BMQ_KAFKA": json.dumps({"offsets.topic.segment.bytes": str(SEGMENT_BYTES)})}
RATE: Final = 600.0
"""Records a second, over all partitions in use."""
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
    side: Side, restarts: int, in_use: int, idle: int, done: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Restart so many brokers, one after the other; `done` is given each. The client errors of all of it.

    `in_use` partitions are written to and read, `idle` ones stand beside them. A gap is of one partition: it has in it the
    half second that lies between two records of one partition anyway.
    """
    make_topic(side, in_use, topic=IN_USE, segment_bytes=str(SEGMENT_BYTES))
    make_topic(side, idle, topic=IDLE, segment_bytes=str(SEGMENT_BYTES))
    with (
        SteadyLoad(side.bootstrap, IN_USE, in_use, RATE) as load,
        GroupReader(side.bootstrap, [IN_USE]) as reader,
    ):
        load.wait_until_flowing(timeout_s=FLOW_WAIT_S)
        for node_id in side.broker_ids[:restarts]:
            side.wait_whole()
            # What waited while hundreds of partitions were opened, or moved back, is not what this restart costs.
            load.wait_until_caught_up(CAUGHT_UP_S, timeout_s=FLOW_WAIT_S)
            time.sleep(CALM_S)
            owned = {
                name: sum(owner == node_id for owner in side.owners(topic).values())
                for name, topic in (("owned_in_use", IN_USE), ("owned_idle", IDLE))
            }
            calm = load.seen.gaps(time.monotonic() - CALM_S, time.monotonic())
            began = time.monotonic()
            side.nodes[node_id].stop()
            stopped = time.monotonic()
            side.nodes[node_id].start()
            started = time.monotonic()
            side.wait_whole()
            load.wait_until_flowing(timeout_s=FLOW_WAIT_S)
            whole = time.monotonic()
            time.sleep(WATCH_S)
            done(
                {
                    "broker": node_id,
                    **owned,
                    "stop_s": round(stopped - began, 3),
                    "start_s": round(started - stopped, 3),
                    "whole_s": round(whole - started, 3),
                    "calm_gap_s": calm["gap_s"],
                    "calm_wait_s": calm["longest_wait_s"],
                    **load.seen.gaps(began, time.monotonic()),
                }
            )
        load.finish()
        return {
            "partitions_in_use": in_use,
            "partitions_idle": idle,
            "client_errors": len(load.failed) + len(reader.errors),
            "producer_errors": load.failed[:KEPT_MAX],
            "consumer_errors": reader.errors[:KEPT_MAX],
            "consumed": reader.records,
            "load": load.facts(),
        }
