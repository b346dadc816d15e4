"""Looks up keys in an index, and what building it costs: `python -m bench.micro_index [--records N] [--smoke]`.

A topic of records of 100 B, JSON with a key drawn by Zipf's law, spread over one day; a plain table and an index of the same
fields, which Spark writes with two tasks in batches of the same size; look-ups by key through `bmq index serve`, warm, one after
the other, each a whole request; and a scan of the topic by Spark for one key. The first batch of each job warms it and does not
count. Prints JSON, and writes .cache/bench-rough/micro_index.json. The bounds: `lookup_p50_s` at most 0.2, `lookup_p99_s` at most
1, `build_ratio`, records per second of the index to those of the table, at least 0.5.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.findings import say
from bench.runner import show_rough
from bench.spark.scanner import ENVIRONMENT, Scanner
from testing.processes import JARS, REPOSITORY, ManagedProcess, dying_with_us
from testing.servers import BmqServer, bmq_command

DATA: Final = REPOSITORY / ".cache" / "bench-index"
TOPIC: Final = "events"
PARTITIONS: Final = 4
RECORD_BYTES: Final = 100
KEYS: Final = 10_000_000
ZIPF_EXPONENT: Final = 1.1
DAY_MS: Final = 86_400_000
CHUNK: Final = 100_000
"""Records whose keys are drawn together."""
TABLE: Final = "events_table"
INDEX: Final = "events_index"
FIELDS: Final = [{"name": "k", "type": "string"}, {"name": "n", "type": "long"}]
BUILD_WAIT_S: Final = 3_000.0
QUERY_WAIT_S: Final = 60.0
WARM_LOOKUPS: Final = 50
BOUNDS: Final = {"lookup_p50_s": 0.2, "lookup_p99_s": 1.0, "build_ratio": 0.5}
_READY: Final = r"^bmq index ready http=127\.0\.0\.1:(\d+)$"


class BuildFailed(Exception):
    """A job ended with an error, or wrote something other than the topic's records."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=50_000_000)
    parser.add_argument("--batch", type=int, default=2_500_000, help="records of a batch of a job")
    parser.add_argument("--table-records", type=int, default=10_000_000, help="that the plain table takes, and no more")
    parser.add_argument("--lookups", type=int, default=2_000)
    parser.add_argument("--smoke", action="store_true", help="200,000 records: does it run?")
    chosen = parser.parse_args()
    if chosen.smoke:
        chosen.records, chosen.batch, chosen.table_records, chosen.lookups = 200_000, 40_000, 120_000, 100
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    with ExitStack() as stack:
        server = BmqServer(DATA / "server")
        stack.callback(server.close)
        server.start()
        day_ms = (time.time_ns() // 1_000_000 // DAY_MS - 1) * DAY_MS
        admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})])[TOPIC].result(30)
        result: dict[str, Any] = {"records": chosen.records, "keys": KEYS, "zipf_exponent": ZIPF_EXPONENT}
        first = min(chosen.table_records, chosen.records)
        fill(server.bootstrap, range(first), chosen.records, day_ms)
        create(server)
        result["table"] = build(server, "table", TABLE, chosen.batch, first)
        say(f"the table: {result['table']['records_per_s']:,.0f} records/s")
        fill(server.bootstrap, range(first, chosen.records), chosen.records, day_ms)
        result["index"] = build(server, "index", INDEX, chosen.batch, chosen.records)
        say(f"the index: {result['index']['records_per_s']:,.0f} records/s")
        service = ManagedProcess("index", serve_command(server), DATA / "index.log")
        stack.callback(service.kill)
        service.start()
        port = int(service.wait_for_line(_READY, 60)[1])
        result["lookups"] = lookups(port, chosen.lookups)
        result["scan"] = scan(server.bootstrap, chosen.records)
    result |= {"figures": figures(result), "bounds": BOUNDS}
    show_rough("micro_index", result)


def figures(result: dict[str, Any]) -> dict[str, float]:
    """`scan_to_lookup`: the time of a scan to that of the median look-up."""
    took = sorted(result["lookups"]["seconds"])
    p50_s = statistics.median(took)
    return {
        "lookup_p50_s": p50_s,
        "lookup_p99_s": took[len(took) * 99 // 100],
        "build_ratio": result["index"]["records_per_s"] / result["table"]["records_per_s"],
        "build_records_per_s_per_core": result["index"]["records_per_s"] / 2,
        "scan_to_lookup": result["scan"]["seconds"] / p50_s,
    }


# -- The topic ---------------------------------------------------------------------------------------------------------


def drawn_keys(count: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Ranks from 1 to KEYS by Zipf's law."""
    dice = np.random.default_rng(seed)
    found: np.ndarray[Any, np.dtype[np.int64]] = dice.zipf(ZIPF_EXPONENT, count)
    return (found - 1) % KEYS + 1


def values(numbers: range) -> Iterator[tuple[int, bytes]]:
    """Number and value of each record; the same whenever it is asked."""
    for begin in range(numbers.start, numbers.stop, CHUNK):
        some = range(begin, min(begin + CHUNK, numbers.stop))
        for number, key in zip(some, drawn_keys(len(some), begin).tolist(), strict=True):
            yield number, b'{"k":"k%d","n":%d,"p":"' % (key, number)


def fill(bootstrap: str, numbers: range, records: int, day_ms: int) -> None:
    """These of all records; their times follow one another through the day. Raises BuildFailed."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 0,
         "queue.buffering.max.messages": 500_000}
    )  # fmt: skip
    padding, end = b"." * RECORD_BYTES, b'"}'
    produce, began_s = producer.produce, time.monotonic()
    for number, head in values(numbers):
        value = head + padding[: RECORD_BYTES - len(head) - len(end)] + end
        at_ms = day_ms + DAY_MS * number // records
        while True:
            try:
                produce(TOPIC, value, partition=number % PARTITIONS, timestamp=at_ms)
                break
            except BufferError:
                producer.poll(0.05)
    if left := producer.flush(60):
        raise BuildFailed(f"{left} records were not answered")
    os.sync()  # so that what follows does not wait for these writes
    say(f"{len(numbers):,} records after {time.monotonic() - began_s:.0f} s")


# -- The jobs ----------------------------------------------------------------------------------------------------------


def create(server: BmqServer) -> None:
    """Raises BuildFailed."""
    table = {"name": TABLE, "topic": TOPIC, "format": "json", "fields": FIELDS}
    index = {"format": "json", "fields": FIELDS, "index": {"keys": [{"field": "k"}], "every": "day"}}
    (DATA / "table.json").write_text(json.dumps(table))
    (DATA / "index.json").write_text(json.dumps(index))
    for command in (
        ["table", "create", str(DATA / "table.json")],
        ["index", "create", INDEX, "--topic", TOPIC, "--ddl", str(DATA / "index.json")],
    ):
        done = subprocess.run(
            [bmq_command(), *command, "--rest", f"http://127.0.0.1:{server.rest_port}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BuildFailed(f"{' '.join(command)}: {done.stderr[-2_000:]}")


def build(server: BmqServer, kind: str, name: str, batch: int, records: int) -> dict[str, Any]:
    """Write all that the topic has now, once. Raises BuildFailed."""
    command = [
        *(bmq_command(), "spark", kind, name, "--bootstrap", server.bootstrap),
        *("--rest", f"http://127.0.0.1:{server.rest_port}", "--available-now", "--json"),
        *("--warehouse", f"file:{DATA}/warehouse", "--checkpoints", f"file:{DATA}/checkpoints"),
        *("--max-offsets-per-trigger", str(batch), "--master", "local[2]"),
        *("--jars", str(JARS / "spark"), "--conf", "spark.sql.shuffle.partitions=2"),
        *("--conf", "spark.driver.memory=4g", "--conf", "spark.driver.host=127.0.0.1"),
    ]
    environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": ENVIRONMENT["SPARK_LOCAL_IP"]}
    with (DATA / f"{kind}.log").open("w") as log:
        done = subprocess.run(
            dying_with_us(command),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=BUILD_WAIT_S,
            check=False,
            env={**os.environ, **environment},
        )
    if done.returncode != 0:
        raise BuildFailed(f"{kind}: {(DATA / f'{kind}.log').read_text()[-2_000:]}")
    return of_batches([json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"table"')], records)


def of_batches(batches: Sequence[dict[str, Any]], records: int) -> dict[str, Any]:
    """The rate of all batches but the first. Raises BuildFailed: they have not all records."""
    rows = sum(batch["rows"] for batch in batches)
    if rows != records or len(batches) < 2:
        raise BuildFailed(f"{len(batches)} batches wrote {rows} rows of {records} records")
    later = batches[1:]
    seconds = sum(batch["duration_ms"] for batch in later) / 1_000
    return {
        "batches": [{name: batch[name] for name in ("rows", "duration_ms")} for batch in batches],
        "files": batches[-1]["table_files"],
        "bytes": batches[-1]["table_bytes"],
        "records_per_s": sum(batch["rows"] for batch in later) / seconds,
    }


# -- Queries -----------------------------------------------------------------------------------------------------------


def serve_command(server: BmqServer) -> list[str]:
    return [
        *(bmq_command(), "index", "serve", "--listen", "127.0.0.1:0", "--warehouse", f"file:{DATA}/warehouse"),
        *("--bootstrap", server.bootstrap, "--rest", f"http://127.0.0.1:{server.rest_port}"),
    ]


def lookups(port: int, count: int) -> dict[str, Any]:
    """Of keys that are drawn as those of the records were, and of as many keys drawn evenly. Raises BuildFailed."""
    dice = random.Random(1)
    ranks = [*drawn_keys(count // 2, 77).tolist(), *(dice.randint(1, KEYS) for _ in range(count - count // 2))]
    dice.shuffle(ranks)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=QUERY_WAIT_S)
    seconds, rows = [], 0
    for number, rank in enumerate([*ranks[:WARM_LOOKUPS], *ranks]):
        body = json.dumps({"equals": {"k": f"k{rank}"}, "limit": 100})
        began_s = time.perf_counter()
        connection.request("POST", f"/v1/indexes/{INDEX}/query", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        took_s = time.perf_counter() - began_s
        if response.status != 200:
            raise BuildFailed(f"k{rank}: {response.status}: {text[:500]!r}")
        answer = json.loads(text)
        if not answer["is_complete"] or any(row["fields"]["k"] != f"k{rank}" for row in answer["rows"]):
            raise BuildFailed(f"k{rank}: {text[:500]!r}")
        if number >= WARM_LOOKUPS:
            seconds.append(round(took_s, 5))
            rows += len(answer["rows"])
    connection.close()
    return {"seconds": seconds, "rows": rows}


def scan(bootstrap: str, records: int) -> dict[str, Any]:
    """How long Spark takes to find one key in the topic. Raises BuildFailed, ScanFailed."""
    wanted = "get_json_object(cast(value as string), '$.k') = 'k17'"
    with Scanner("source", "bmq", bootstrap, Path(DATA)) as scanner:
        found = scanner.scan(TOPIC, ("count(*)", f"count_if({wanted})"))
    if int(found["row"][0]) != records:
        raise BuildFailed(f"the scan read {found['row'][0]} of {records} records")
    return found


if __name__ == "__main__":
    main()
