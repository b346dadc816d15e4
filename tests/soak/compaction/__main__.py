"""Does compaction leave what Apache Kafka's leaves? `python -m tests.soak.compaction [--histories N] [--seed S]`.

Histories of keys, tombstones, headers, codecs and overlapping transactions, committed and aborted, one per partition, are
written to bmq and to Apache Kafka step by step, so that both have the same offsets. Both compact, three times, with more
written in between; then consumers read all that was compacted, committed records only and all of them, and each record has
to be on both sides at the same offset. In half of the topics tombstones live for an hour, in the others for no time at all.
Prints `compaction_differences`: partitions in which anything differs. Exit code 1 says that there are some.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Final
from uuid import UUID

from testing.compaction import bmq_progress, kafka_progress, topic_ids
from testing.processes import REPOSITORY, eventually, kill_everything
from testing.servers import BmqServer, KafkaServer
from tests.soak.compaction.contender import Contender, Read
from tests.soak.compaction.history import steps

DATA: Final = REPOSITORY / ".cache" / "soak-compaction"
RESULTS: Final = REPOSITORY / ".cache" / "soak-compaction.json"
PARTITIONS: Final = 50
ROUNDS: Final = 3
STEPS: Final = 20
SETTLING_ROUNDS: Final = 3
"""More rounds in which nothing but sentinels is written: what may be dropped is gone on both sides after them."""
SEGMENT_MS: Final = 3_000
ROLL_S: Final = 5.0
"""Until both have closed what was written: bmq looks each second, Kafka when the next record comes."""
COMPACTION_WAIT_S: Final = 600.0
LOOK_S: Final = 1.0
"""Between two looks at a thousand manifests."""
CHECK_INTERVAL_MS: Final = 500


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--histories", type=int, default=1_000)
    options.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options.add_argument("--directory", type=Path, default=DATA)
    options.add_argument("--results", type=Path, default=RESULTS)
    given = options.parse_args()
    again = f"python -m tests.soak.compaction --histories {given.histories} --seed {given.seed}"
    shutil.rmtree(given.directory, ignore_errors=True)
    given.directory.mkdir(parents=True)
    print(f"the same again: {again}", flush=True)
    began_s = time.monotonic()
    try:
        report = compare(given.directory, -(-given.histories // PARTITIONS), random.Random(given.seed))
    finally:
        kill_everything()
    report["seconds"] = round(time.monotonic() - began_s, 1)
    given.results.write_text(json.dumps({**report, "again": again}, indent=1) + "\n")
    print(f"compaction_differences {report['compaction_differences']} of {report['histories']} histories")
    print(f"the same again: {again}; {given.results} written, logs are in {given.directory}")
    return 1 if report["compaction_differences"] else 0


def compare(directory: Path, topic_count: int, dice: random.Random) -> dict[str, object]:
    bmq = BmqServer(
        directory / "bmq", {"BMQ_BROKER__COMPACTION_CHECK_INTERVAL_MS": str(CHECK_INTERVAL_MS), "BMQ_LOG_LEVEL": "info"}
    )
    kafka = KafkaServer(
        directory / "kafka",
        {"log.cleaner.backoff.ms": str(CHECK_INTERVAL_MS), "log.cleaner.threads": "1", "num.partitions": "1"},
    )
    bmq.start()
    kafka.start()
    topics = [f"histories-{number}" for number in range(topic_count)]

    known: dict[str, UUID] = {}
    contenders = (
        Contender("bmq", bmq, bmq_progress(bmq.directory, known)),
        Contender("kafka", kafka, kafka_progress(kafka.directory)),
    )
    for number, topic in enumerate(topics):
        configs = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.001",
            "segment.ms": str(SEGMENT_MS),
            "delete.retention.ms": "3600000" if number % 2 else "0",
            "file.delete.delay.ms": "1000",
        }
        for contender in contenders:
            contender.make_topic(topic, PARTITIONS, configs)
    known.update(topic_ids(bmq.bootstrap, topics))
    ends: dict[tuple[str, int], int] = {}
    for number in range(ROUNDS + SETTLING_ROUNDS):
        for topic in topics:
            for step in steps(dice, PARTITIONS, STEPS) if number < ROUNDS else ():
                for contender in contenders:
                    contender.carry_out(topic, step)
        time.sleep(ROLL_S)  # what rolls a segment is time
        ends = _sentinels(contenders, topics, b"sentinel-%d" % number)
        for contender in contenders:
            _await_compaction(contender, ends)
        print(f"round {number + 1} of {ROUNDS + SETTLING_ROUNDS}: both are compacted", flush=True)
    differing: dict[str, str] = {}
    records = 0
    for topic in topics:
        for is_committed in (True, False):
            ours, theirs = (contender.read(topic, ends, is_committed=is_committed) for contender in contenders)
            records += sum(map(len, theirs.values()))
            for partition in range(PARTITIONS):
                if ours[partition] != theirs[partition]:
                    differing[f"{topic}-{partition}"] = _difference(ours[partition], theirs[partition])
    for name, difference in list(differing.items())[:20]:
        print(f"  {name}: {difference}")
    bmq.stop()
    kafka.stop()
    return {
        "compaction_differences": len(differing),
        "histories": len(topics) * PARTITIONS,
        "records_compared": records,
        "records_written": sum(ends.values()),
        "differing": differing,
    }


def _sentinels(contenders: tuple[Contender, ...], topics: list[str], key: bytes) -> dict[tuple[str, int], int]:
    """Written to both; their offsets, which are the same. Each round has another key: Kafka compacts no open segment."""
    found = []
    for contender in contenders:
        offsets: dict[tuple[str, int], int] = {}
        for topic in topics:
            offsets |= contender.write_sentinels(topic, PARTITIONS, key)
        found.append(offsets)
    if found[0] != found[1]:
        raise RuntimeError("the two servers gave different offsets to the same records")
    return found[0]


def _await_compaction(contender: Contender, ends: dict[tuple[str, int], int]) -> None:
    left = dict(ends)

    def is_compacted() -> bool:
        time.sleep(LOOK_S)
        for one, offset in contender.compacted(left).items():
            if offset >= left[one]:
                del left[one]
        return not left

    eventually(is_compacted, COMPACTION_WAIT_S, f"{contender.name} has compacted all up to the sentinels")


def _difference(ours: list[Read], theirs: list[Read]) -> str:
    mine, other = set(ours), set(theirs)
    only_ours = sorted(record.offset for record in mine - other)
    only_theirs = sorted(record.offset for record in other - mine)
    return f"only bmq has {only_ours[:10]}, only Kafka has {only_theirs[:10]}"


if __name__ == "__main__":
    sys.exit(main())
