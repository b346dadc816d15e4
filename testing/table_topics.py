"""A topic of orders and the table made of it, for tests of the job on Spark; and how that is started. Imports no Spark."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from testing.processes import JARS

JARS_OF_SPARK = ",".join(str(jar) for jar in sorted((JARS / "spark").glob("*.jar")))
SUBMIT_ARGUMENTS = " ".join(
    [
        "--master local[2]",
        f"--jars {JARS_OF_SPARK}",
        "--conf spark.ui.enabled=false",
        "--conf spark.driver.host=127.0.0.1",
        "--conf spark.driver.bindAddress=127.0.0.1",
        "--conf spark.sql.shuffle.partitions=2",
        "--conf spark.sql.session.timeZone=UTC",
        "--driver-memory 700m",
        "pyspark-shell",
    ]
)


def orders_form(topic: str, /, **changes: Any) -> dict[str, Any]:
    return {
        "name": "orders",
        "topic": topic,
        "format": "json",
        "fields": [
            {"name": "id", "type": "long", "required": True},
            {"name": "at", "type": "timestamp", "unit": "ms"},
            {"name": "customer", "type": "string", "path": "customer.name"},
            {"name": "key", "type": "string", "source": "key"},
        ],
        "partitioning": [{"by": "day", "field": "at"}],
        **changes,
    }


def table_command(bootstrap: str, topic: str, directory: Path, *options: str) -> list[str]:
    """The job that writes the orders of `topic`; definition, warehouse and checkpoint are in `directory`."""
    definition = directory / "definition.json"
    definition.write_text(json.dumps(orders_form(topic)))
    return [
        *(sys.executable, "-m", "bmq.spark.tables", "--definition", str(definition), "--bootstrap", bootstrap),
        *("--warehouse", str(directory / "warehouse"), "--checkpoint", str(directory / "checkpoint"), *options),
    ]


def order(number: int, **more: Any) -> bytes:
    at_ms = 1_700_000_000_000 + number * 60_000
    return json.dumps({"id": number, "at": at_ms, "customer": {"name": f"c{number % 7}"}, **more}).encode()


def produce(bootstrap: str, topic: str, values: list[bytes | None], partitions: int = 2) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number, value in enumerate(values):
        producer.produce(topic, value=value, key=f"k{number}", partition=number % partitions)
    assert producer.flush(30) == 0
