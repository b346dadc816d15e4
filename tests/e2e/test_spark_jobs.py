"""`bmq spark`: each job's result against what was produced, also after kill -9 in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from testing.patience import Patience
from testing.processes import REPOSITORY, ManagedProcess, dying_with_us, eventually
from testing.servers import BmqServer, bmq_command
from tests.e2e.conftest import create_topic, unique_name
from tests.support.spark import SPARK_ARGUMENTS, SPARK_ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-jobs"), pytest.mark.bmq_only, pytest.mark.timeout(1_000)]

PARTITIONS = 2
RECORDS = 6_000
KEYS = 100
HOUR_MS = 3_600_000
FIRST_MS = 1_700_006_400_000  # an hour begins
GROUP_AT = 1234
ABORTED = 50
STEP = "1200"
# Of a run that is killed: many more steps are to come then.
SMALL_STEP = "300"


class Sent(NamedTuple):
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]] | None
    timestamp_ms: int


def record(number: int) -> Sent:
    value = json.dumps({"user": {"id": number % 77}, "fill": "x" * 400}).encode()
    headers = [("trace", str(number).encode())] if number % 10 == 0 else None
    return Sent(f"key-{number % KEYS}".encode(), value, headers, FIRST_MS + number * 2 * HOUR_MS // RECORDS)


def produce(bootstrap: str, topic: str) -> None:
    """RECORDS that count, and in partition 0 others of a transaction that is aborted, in the middle of them."""
    for partition, codec in enumerate(("lz4", "none")):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"{topic}-{partition}",
                "compression.type": codec,
                "batch.num.messages": 200,
            }
        )
        producer.init_transactions(20)
        numbers = range(partition, RECORDS, PARTITIONS)
        for part, is_kept in ((numbers[:1000], True), (range(50), False), (numbers[1000:], True)):
            producer.begin_transaction()
            for number in part:
                sent = record(number)
                value = sent.value if is_kept else b"aborted"
                producer.produce(
                    topic, value, sent.key, partition, timestamp=sent.timestamp_ms, headers=sent.headers or []
                )
            assert producer.flush(20) == 0
            producer.commit_transaction(20) if is_kept else producer.abort_transaction(20)


def produce_aborted(bootstrap: str, topic: str) -> None:
    """A topic of one transaction that was aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    for number in range(ABORTED):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(20) == 0
    producer.abort_transaction(20)


def contents(bootstrap: str, topic: str) -> dict[int, list[Sent]]:
    """All committed records of each partition, in order."""
    config = {"bootstrap.servers": bootstrap, "group.id": unique_name("reader"), "isolation.level": "read_committed"}
    found: dict[int, list[Sent]] = {partition: [] for partition in range(PARTITIONS)}
    with closing(Consumer({**config, "enable.partition.eof": True, "enable.auto.commit": False})) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
        ends = 0
        while ends < PARTITIONS:
            message = consumer.poll(20)
            assert message is not None, "the consumer waits"
            if message.error() is not None:
                ends += 1
                continue
            sent = Sent(message.key(), message.value(), message.headers(), message.timestamp()[1])
            found[message.partition()].append(sent)
    return found


def high_watermarks(bootstrap: str, topic: str) -> int:
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": "looks"})) as consumer:
        if topic not in consumer.list_topics(timeout=10).topics:
            return 0
        ends = (consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1] for p in range(PARTITIONS))
        return sum(ends)


def killed_in_the_middle(directory: Path, target: str, topic: str, *command: str) -> None:
    process = ManagedProcess(
        command[0],
        [bmq_command(), "spark", *command, *SPARK_ARGUMENTS],
        directory / f"{command[0]}.log",
        SPARK_ENVIRONMENT,
    )
    process.start()
    try:
        eventually(
            lambda: not process.is_running or high_watermarks(target, topic) > RECORDS // 10,
            300,
            f"{command[0]} is in the middle",
        )
        assert process.is_running, f"{command[0]} has ended before it could be killed{process}"
    finally:
        process.kill()


def run_all(source: str, target: str, directory: Path, *commands: list[str]) -> dict[str, Any]:
    """The results of all commands, and of what a notebook calls."""
    everything = json.dumps([[*each, *SPARK_ARGUMENTS] for each in commands])
    command = [sys.executable, "-m", "tests.e2e.spark_commands", everything]
    done = subprocess.run(
        dying_with_us([*command, "--functions", source, target, str(directory)]),
        capture_output=True,
        text=True,
        timeout=Patience(700).limit_s,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **SPARK_ENVIRONMENT},
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return results


class World(NamedTuple):
    source: str
    target: str
    results: dict[str, dict[str, Any]]
    functions: dict[str, Any]

    def document(self, name: str) -> Any:
        return json.loads(self.results[name]["out"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two servers, backfill and mirror killed in the middle, then all jobs in one session."""
    directory = tmp_path_factory.mktemp("jobs")
    servers = [BmqServer(directory / name) for name in ("source", "target")]
    try:
        for server in servers:
            server.start()
        source, target = (server.bootstrap for server in servers)
        create_topic(servers[0], "events", PARTITIONS, {"segment.bytes": "1048576", "retention.ms": "-1"})
        produce(source, "events")
        commit_group(source)
        create_topic(servers[0], "aborted")
        produce_aborted(source, "aborted")
        here = ["--bootstrap", source]
        backfill = ["backfill", "events", "copied", *here, "--target", target, "--step", STEP]
        mirror = ["mirror", "events", *here, "--target", target, "--prefix", "m.", "--once", "--step", STEP]
        killed_in_the_middle(directory, target, "copied", *backfill, "--step", SMALL_STEP)
        killed_in_the_middle(directory, target, "m.events", *mirror, "--step", SMALL_STEP)
        state = str(directory / "state")
        commands = {
            "backfill plan": [*backfill, "--dry-run", "--json"],
            "backfill": [*backfill, "--json"],
            "backfill again": [*backfill, "--json"],
            "backfill otherwise": [*backfill, "--from-offset", "7"],
            "mirror": [*mirror, "--json"],
            "mirror back plan": [
                *("mirror", "--pattern", r"(.*\.)?events", "--name", "back", "--prefix", "b.", "--dry-run"),
                *("--bootstrap", target, "--target", source),
            ],
            "backfill aborted": ["backfill", "aborted", "aborted-again", *here, "--json"],
            "backfill aborted again": ["backfill", "aborted", "aborted-again", *here, "--json"],
            "stats": [
                "stats",
                "events",
                *here,
                "--json",
                "--state",
                f"{state}-stats",
                "--picture",
                f"{directory}/a.png",
            ],
            "stats again": ["stats", "events", *here, "--json", "--state", f"{state}-stats"],
            "find": ["find", "events", *here, "--field", "user.id=5", "--header", "trace", "--json"],
            "find key": ["find", "events", *here, "--key", "key-7", "--from", str(FIRST_MS + HOUR_MS), "--json"],
            "find nothing": ["find", "events", *here, "--key", "nobody", "--to", str(FIRST_MS + HOUR_MS)],
            "verify": ["verify", "events", *here, "--json"],
            "stats plan": ["stats", "events", *here, "--dry-run", "--json"],
            "find plan": ["find", "events", *here, "--key", "key-7", "--dry-run", "--json"],
            "verify plan": ["verify", "events", *here, "--dry-run", "--json"],
            "mirror plan": [*mirror, "--dry-run"],
            "usage": ["find", "events", *here, "--source", "files"],
            "unknown topic": ["stats", "nothing", *here],
        }
        done = run_all(source, target, directory, *commands.values())
        results = dict(zip(commands, done["commands"], strict=True))
        assert (directory / "a.png").stat().st_size > 5_000
        yield World(source, target, results, done["functions"])
    finally:
        for server in servers:
            server.close()


def commit_group(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    places = [TopicPartition("events", 0, GROUP_AT), TopicPartition("events", 1, 40)]
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("shop", places)])["shop"].result(20)


def test_a_killed_backfill_has_lost_and_doubled_nothing(world: World) -> None:
    assert world.results["backfill"]["exit_code"] == 0, world.results["backfill"]
    assert contents(world.target, "copied") == contents(world.source, "events")
    plan, done = world.document("backfill plan"), world.document("backfill")
    assert plan["offsets_done"] > 0, "the first run was in the middle"
    assert done["offsets"] == plan["offsets_left"] > 0
    assert world.document("backfill again")["offsets"] == 0


def test_a_backfill_whose_last_records_were_aborted_is_done_once(world: World) -> None:
    first, again = world.document("backfill aborted"), world.document("backfill aborted again")
    assert (first["offsets"], first["offsets_before"]) == (ABORTED + 1, 0)
    assert (again["offsets"], again["offsets_before"]) == (0, ABORTED + 1)


def test_a_mirror_back_leaves_out_what_came_from_its_target(world: World) -> None:
    """It finds `m.events` by its pattern, which the other mirror writes."""
    assert world.results["mirror back plan"]["exit_code"] == 0, world.results["mirror back plan"]
    assert world.document("mirror back plan") == []


def test_another_range_under_the_same_name_is_refused(world: World) -> None:
    result = world.results["backfill otherwise"]
    assert result["exit_code"] == 1
    assert "was begun with another range" in result["err"]


def test_a_killed_mirror_has_lost_and_doubled_nothing(world: World) -> None:
    assert world.results["mirror"]["exit_code"] == 0, world.results["mirror"]
    assert contents(world.target, "m.events") == contents(world.source, "events")


def test_a_group_goes_on_in_the_mirror_where_it_was(world: World) -> None:
    admin = AdminClient({"bootstrap.servers": world.target})
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("shop")])["shop"].result(20)
    at = {place.partition: place.offset for place in answer.topic_partitions if place.topic == "m.events"}
    for partition, offset in ((0, GROUP_AT), (1, 40)):
        assert rest(world.target, "m.events", partition, at[partition]) == rest(
            world.source, "events", partition, offset
        )


def rest(bootstrap: str, topic: str, partition: int, offset: int) -> list[Any]:
    """What a group reads that goes on there."""
    config = {"bootstrap.servers": bootstrap, "group.id": unique_name("rest"), "isolation.level": "read_committed"}
    found = []
    with closing(Consumer({**config, "enable.partition.eof": True})) as consumer:
        consumer.assign([TopicPartition(topic, partition, offset)])
        while (message := consumer.poll(20)) is not None and message.error() is None:
            found.append((message.key(), message.value()))
    return found


def test_stats_count_what_was_produced(world: World) -> None:
    assert world.results["stats"]["exit_code"] == 0, world.results["stats"]
    document = world.document("stats")
    assert document == world.document("stats again")
    topic = document["topics"][0]
    records = [record(number) for number in range(RECORDS)]
    assert topic["distinct_keys"] == pytest.approx(KEYS, rel=0.05)
    for partition in topic["partitions"]:
        own = records[partition["partition"] :: PARTITIONS]
        headers = [header for sent in own for header in sent.headers or ()]
        assert partition["records"] == len(own)
        assert partition["keyed"] == len(own)
        assert partition["key_bytes"] == sum(len(sent.key) for sent in own)
        assert partition["value_bytes"] == sum(len(sent.value) for sent in own)
        assert partition["header_bytes"] == sum(len(name) + len(value) for name, value in headers)
        assert partition["first_timestamp_ms"] == own[0].timestamp_ms
        assert partition["last_timestamp_ms"] == own[-1].timestamp_ms
    codecs = [set(partition["codecs"]) for partition in topic["partitions"]]
    assert codecs == [{"lz4", "none"}, {"none"}], "markers are not compressed"
    assert topic["partitions"][1]["codecs"]["none"]["records"] == RECORDS // PARTITIONS + 50 + 3
    hours = {hour["hour_ms"]: sum(each["records"] for each in hour["partitions"]) for hour in topic["hours"]}
    assert hours == Counter(sent.timestamp_ms // HOUR_MS * HOUR_MS for sent in records)


def test_find_finds_exactly_what_is_meant(world: World) -> None:
    expected = [number for number in range(RECORDS) if number % 77 == 5 and number % 10 == 0]
    found = world.document("find")
    assert sorted(int(each["headers"][0]["value"]) for each in found) == expected
    assert [(each["partition"], each["offset"]) for each in found] == sorted(
        (each["partition"], each["offset"]) for each in found
    )
    of_key = world.document("find key")
    numbers = [n for n in range(RECORDS) if n % KEYS == 7 and record(n).timestamp_ms >= FIRST_MS + HOUR_MS]
    assert sorted(each["timestamp_ms"] for each in of_key) == [record(n).timestamp_ms for n in numbers]
    assert world.results["find nothing"]["exit_code"] == 4


def test_verify_finds_nothing_wrong(world: World) -> None:
    assert world.results["verify"]["exit_code"] == 0, world.results["verify"]
    report = world.document("verify")
    assert report["is_clean"]
    events = [each for each in report["partitions"] if each["topic"] == "events"]
    assert len(events) == PARTITIONS
    assert sum(each["records"] for each in events) == RECORDS + 2 * 50 + 2 * 3
    assert all(each["segments"] >= 1 and each["base_offset"] == 0 for each in events)


def test_a_dry_run_says_what_would_be_read(world: World) -> None:
    """Backfill's is looked at above."""
    for name in ("stats plan", "find plan", "verify plan", "mirror plan"):
        assert world.results[name]["exit_code"] == 0, world.results[name]
    expected = {(each["partition"], each["start_offset"]) for each in world.document("stats plan")["ranges"]}
    assert expected == {(partition, 0) for partition in range(PARTITIONS)}
    assert world.document("find plan")["ranges"] == world.document("stats plan")["ranges"]
    assert "key" in world.document("find plan")["condition"]
    segments = world.document("verify plan")
    assert {segment["partition"] for segment in segments} == set(range(PARTITIONS))
    assert sum(segment["bytes"] for segment in segments) > 0
    assert len(world.document("mirror plan")) == 1


def test_wrong_usage_is_told_by_its_exit_code(world: World) -> None:
    assert world.results["usage"]["exit_code"] == 2
    assert "it is bmq or kafka" in " ".join(world.results["usage"]["err"].split())


def test_the_examples_of_the_documentation_run_in_a_notebook(world: World) -> None:
    found = world.functions["examples"]
    assert found["stats"] == RECORDS
    assert found["picture"] > 5_000
    assert found["found"] == sum(number % 77 == 5 for number in range(RECORDS))
    assert found["damage"] == 0
    assert found["copied"] == found["plan"] >= RECORDS
    assert (found["mirror plan"], found["mirrored"]) == (1, found["plan"])
    for topic, bootstrap in (("events-again", world.source), ("here.events", world.target)):
        assert contents(bootstrap, topic) == contents(world.source, "events")


def test_records_deleted_while_they_are_copied_end_a_backfill(world: World) -> None:
    """It ends with a sentence; told so, it goes on with those that are left."""
    assert world.functions["deleted while copying"].startswith("FAILED: ")
    assert "shrinks-0" in world.functions["deleted while copying"]
    assert world.functions["planned again"].startswith("FAILED: ")
    assert world.functions["copied without"] == 10


def test_a_topic_made_again_is_not_what_a_backfill_had_begun_with(world: World) -> None:
    assert world.functions["made again"].startswith("FAILED: ")
    assert "made again" in world.functions["made again"]


def test_a_topic_that_is_not_there_is_one_sentence(world: World) -> None:
    result = world.results["unknown topic"]
    assert (result["exit_code"], result["out"]) == (1, "")
    assert result["err"].endswith("has no topic 'nothing'\n")
