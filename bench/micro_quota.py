"""What clients with a quota of 1 MB/s get of one server: librdkafka as producer and consumer, and Kafka's perf tool.

    python -m bench.micro_quota [--server bmq|kafka] [--from-s 30] [--until-s 90]

All run at once, each with a client id and a quota of its own. Measured is from 30 s to 90 s: before, the first burst
passes. Bytes are those of the records' values and some 10 for each record's head; the quota counts whole requests.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from testing.java import CONFIGS, PRODUCER_PERFORMANCE, java_command, run_tool
from testing.processes import dying_with_us
from testing.servers import BmqServer, KafkaServer, Server

QUOTA: Final = 1_000_000
VALUE: Final = bytes(1_000)
RECORD_BYTES: Final = len(VALUE) + 10
KINDS: Final = ("rdkafka-produce", "rdkafka-consume", "java-produce")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=("bmq", "kafka"), default="bmq")
    parser.add_argument("--from-s", type=float, default=30)
    parser.add_argument("--until-s", type=float, default=90)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        server: Server = BmqServer(data) if chosen.server == "bmq" else KafkaServer(data, {})
        server.start()
        try:
            _measure(server, chosen.from_s, chosen.until_s)
        finally:
            server.close()


def _measure(server: Server, from_s: float, until_s: float) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    for made in admin.create_topics([NewTopic(kind, 1, 1) for kind in KINDS]).values():
        made.result(timeout=30)
    _produce(server, "rdkafka-consume", client_id="filler", until_s=0, count=int(1.5 * QUOTA * until_s / RECORD_BYTES))
    for kind in KINDS:
        limits = f"producer_byte_rate={QUOTA},consumer_byte_rate={QUOTA}"
        run_tool(
            CONFIGS, "--bootstrap-server", server.bootstrap, "--alter", "--entity-type", "clients",
            "--entity-name", kind, "--add-config", limits,
        )  # fmt: skip
    began_s = time.monotonic()
    taken: list[int] = []
    threads = [
        threading.Thread(target=_produce, args=(server, "rdkafka-produce"), kwargs={"until_s": began_s + until_s}),
        threading.Thread(target=_consume, args=(server, "rdkafka-consume", began_s + until_s, taken)),
    ]
    for thread in threads:
        thread.start()
    arguments = (
        *("--bootstrap-server", server.bootstrap, "--topic", "java-produce", "--record-size", str(len(VALUE))),
        *("--num-records", "100000000", "--throughput", "-1", "--command-property", "client.id=java-produce"),
    )
    tool = subprocess.Popen(
        dying_with_us(java_command(PRODUCER_PERFORMANCE, arguments)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    watcher = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "watcher", "client.id": "watcher"})
    counts = []
    for at_s in (from_s, until_s):
        time.sleep(max(began_s + at_s - time.monotonic(), 0))
        ends = {kind: watcher.get_watermark_offsets(TopicPartition(kind, 0))[1] for kind in KINDS}
        counts.append({**ends, "rdkafka-consume": len(taken)})
    tool.kill()
    tool.wait()
    for thread in threads:
        thread.join()
    watcher.close()
    for kind in KINDS:
        rate = (counts[1][kind] - counts[0][kind]) * RECORD_BYTES / (until_s - from_s)
        print(f"{server.name} {kind}: {rate / 1e6:.3f} MB/s, {100 * (rate / QUOTA - 1):+.1f} %", flush=True)


def _produce(server: Server, topic: str, *, until_s: float, client_id: str = "", count: int = 2**31) -> None:
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "client.id": client_id or topic,
            "queue.buffering.max.kbytes": 16_384,
            "message.timeout.ms": 300_000,
        }
    )
    for _ in range(count):
        if until_s and time.monotonic() > until_s:
            break
        while True:
            try:
                producer.produce(topic, VALUE, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
                if until_s and time.monotonic() > until_s:
                    break
    if until_s:
        producer.purge()
    producer.flush(60)


def _consume(server: Server, topic: str, until_s: float, taken: list[int]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "client.id": topic,
            "group.id": topic,
            "queued.max.messages.kbytes": 2_048,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    while time.monotonic() < until_s:
        taken.extend(1 for message in consumer.consume(500, timeout=0.2) if not message.error())
    consumer.close()


if __name__ == "__main__":
    main()
