"""`bmq topic` and its neighbours against a real server, over librdkafka."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from aiokafka.partitioner import murmur2
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner, Result

from bmq.cli.commands import app
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, unique_name
from tests.support.group_members import CLASSIC, CONSUMER, Member, closed_at_the_end, shared_by

pytestmark = [pytest.mark.clients, pytest.mark.timeout(60)]

COPIES_MAX = 5


class Commands:
    """Runs `bmq` in this process."""

    def __init__(self, server: Server) -> None:
        self._bootstrap = server.bootstrap

    def run(self, *arguments: str, given: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, arguments, input=given, env={"BMQ_BOOTSTRAP": self._bootstrap})

    def shown(self, *arguments: str, given: str | bytes | None = None) -> str:
        result = self.run(*arguments, given=given)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    def document(self, *arguments: str) -> Any:
        return json.loads(self.shown(*arguments, "--json"))

    def error_code(self, *arguments: str) -> ErrorCode:
        result = self.run(*arguments)
        assert isinstance(result.exception, KafkaError), (result.output, result.exception)
        return result.exception.code


@pytest.fixture
def bmq(server: Server, monkeypatch: pytest.MonkeyPatch) -> Commands:
    # Loggers keep the standard error they were set up with, which is the test's own and ends with it.
    for module in ("job", "log_dump"):
        monkeypatch.setattr(f"bmq.cli.{module}.configure_logs", lambda *_: None)
    return Commands(server)


def test_a_topic_from_its_making_to_its_end(bmq: Commands) -> None:
    name = unique_name("topic")
    bmq.shown("topic", "create", name, "-p", "2", "-c", "retention.ms=1000", "--dry-run")
    assert bmq.document("topic", "list", "--pattern", name) == []
    bmq.shown("topic", "create", name, "-p", "2", "-c", "retention.ms=1000")
    assert bmq.error_code("topic", "create", name) is ErrorCode.TOPIC_ALREADY_EXISTS
    bmq.shown("topic", "alter", name, "-p", "3", "-c", "cleanup.policy+=compact", "--delete-config", "retention.ms")
    (document,) = bmq.document("topic", "describe", name)
    assert document["configs"] == {"cleanup.policy": "delete,compact"}
    assert [each["end_offset"] for each in document["partitions"]] == [0, 0, 0]
    assert bmq.error_code("topic", "alter", name, "-p", "2") is ErrorCode.INVALID_PARTITIONS
    assert bmq.error_code("topic", "alter", name, "-c", "no.such=1") is ErrorCode.INVALID_CONFIG
    assert bmq.error_code("topic", "create", "b@d") is ErrorCode.INVALID_TOPIC_EXCEPTION
    (listed,) = bmq.document("topic", "list", "--pattern", name)
    assert listed["topic_id"] == document["topic_id"]
    bmq.shown("topic", "delete", name)
    assert bmq.document("topic", "list", "--pattern", name) == []


def lines(bmq: Commands, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in bmq.shown("topic", "consume", *arguments, "--json").splitlines()]


def test_records_are_written_read_and_written_again(bmq: Commands, make_topic: TopicMaker) -> None:
    topic, copy = make_topic(partitions=3), make_topic(partitions=3)
    given = "a:1\nb:2\nc:\nd:NULL\n"
    said = bmq.shown(
        "topic", "produce", topic, "-K", ":", "--null-value", "NULL", "-H", "x=1", "-H", "x=2", given=given
    )
    assert said == f"4 records written to {topic}\n"
    read = {each["key"]: each for each in lines(bmq, topic)}
    assert {key: each["value"] for key, each in read.items()} == {"a": "1", "b": "2", "c": "", "d": None}
    assert read["a"]["headers"] == [["x", "1"], ["x", "2"]]
    by_hash = {key: (murmur2(key.encode()) & 0x7FFFFFFF) % 3 for key in "abcd"}
    assert {key: each["partition"] for key, each in read.items()} == by_hash, "as Java's clients distribute them"

    again = bmq.shown("topic", "consume", topic, "--json")
    bmq.shown("topic", "produce", copy, "--json", "--keep-partitions", given=again)
    copied = lines(bmq, copy)
    assert [{**each, "topic": topic} for each in sorted(copied, key=place)] == sorted(read.values(), key=place)

    first = lines(bmq, copy, "-g", unique_name("group"), "-n", "1")
    assert len(first) == 1
    assert [each["key"] for each in lines(bmq, topic, "-p", "1", "--from-offset", "1", "--to-offset", "2")] == ["c"]
    assert [each["key"] for each in lines(bmq, topic, "-p", "2", "--last", "1")] == ["d"]
    moment_ms = read["a"]["timestamp_ms"]
    assert len(lines(bmq, topic, "--from", str(moment_ms - 1000), "--to", str(moment_ms + 60_000))) == 4
    assert lines(bmq, topic, "--to", str(moment_ms)) == []
    assert bmq.shown("topic", "consume", topic, "--raw", "-p", "2") == "2"
    refused = bmq.run("topic", "consume", topic, "-p", "2", "--value-format", "hex", "--key-format", "json")
    assert refused.exit_code == 1
    assert "'b' is not JSON" in refused.stderr


def test_what_was_aborted_is_shown_on_request(bmq: Commands, server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": unique_name("id")})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"never")
    producer.flush(20)
    producer.abort_transaction(20)
    assert lines(bmq, topic) == [], "it ends at the marker, behind which nothing comes"
    assert [each["value"] for each in lines(bmq, topic, "--uncommitted")] == ["never"]


def test_the_last_records_are_found_behind_markers(bmq: Commands, server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": unique_name("id")})
    producer.init_transactions(20)
    for value in (b"first", b"second", b"aborted"):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(20)
        producer.abort_transaction(20) if value == b"aborted" else producer.commit_transaction(20)
    assert [each["value"] for each in lines(bmq, topic, "--last", "1")] == ["second"]
    assert [each["value"] for each in lines(bmq, topic, "--last", "2")] == ["first", "second"]
    assert [each["value"] for each in lines(bmq, topic, "--last", "1", "--uncommitted")] == ["aborted"]
    assert [each["value"] for each in lines(bmq, topic, "--last", "1", "--to-offset", "2")] == ["first"]


def test_the_oldest_records_of_a_topic_are_deleted(bmq: Commands, make_topic: TopicMaker) -> None:
    topic = make_topic()
    bmq.shown("topic", "produce", topic, given="1\n2\n3\n")
    (gone,) = bmq.document("topic", "delete-records", topic, "--before-offset", "2")
    assert (gone["start_offset"], gone["new_start_offset"]) == (0, 2)
    assert [each["offset"] for each in lines(bmq, topic)] == [2]


def place(record: dict[str, Any]) -> tuple[int, int]:
    return record["partition"], record["offset"]


def test_a_member_goes_on_where_the_last_one_of_its_group_ended(bmq: Commands, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), unique_name("group")
    bmq.shown("topic", "produce", topic, given="1\n2\n3\n")
    assert [each["value"] for each in lines(bmq, topic, "-g", group, "-n", "2")] == ["1", "2"]
    assert [each["value"] for each in lines(bmq, topic, "-g", group)] == ["3"]


def test_a_record_that_is_too_large_is_one_sentence(bmq: Commands, make_topic: TopicMaker) -> None:
    topic = make_topic(config={"max.message.bytes": "1000"})
    assert bmq.run("topic", "produce", topic, given="x" * 2000).exit_code == 1
    refused = bmq.run("topic", "produce", topic, given="x" * 2_000_000)
    assert isinstance(refused.exception, KafkaError)
    assert "0 written before" in str(refused.exception)
    assert refused.exception.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_group_from_its_first_offset_to_its_end(bmq: Commands, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), unique_name("group")
    bmq.shown("topic", "produce", topic, given="1\n2\n3\n")
    lines(bmq, topic, "-g", group, "-n", "2")
    (listed,) = bmq.document("group", "list", "--pattern", group)
    assert listed["state"] == "empty"
    (described,) = bmq.document("group", "describe", group)
    assert (described["lag"], described["members"], described["partitions"][0]["committed"]) == (1, [], 2)
    assert [row["lag"] for row in bmq.document("group", "lag", group)] == [1]
    bmq.shown("group", "reset", group, "-t", topic, "--shift-by", "-1")
    assert [each["value"] for each in lines(bmq, topic, "-g", group)] == ["2", "3"]
    (plan,) = bmq.document("group", "reset", group, "--all-topics", "--to-time", "-1h", "--dry-run")
    assert (plan["committed"], plan["offset"], plan["note"]) == (3, 0, "reads 3 again")
    bmq.shown("group", "delete", group)
    assert bmq.document("group", "list", "--pattern", group) == []


@pytest.mark.parametrize(("kind", "protocol"), [("classic", CLASSIC), ("consumer", CONSUMER)])
def test_a_group_in_use_is_described_and_left_alone(
    bmq: Commands, server: Server, make_topic: TopicMaker, kind: str, protocol: dict[str, object]
) -> None:
    topic, group = make_topic(partitions=2), unique_name("group")
    member = Member(server.bootstrap, topic, group, protocol)
    with closed_at_the_end([member]):
        eventually(lambda: shared_by([member], 2), 20, "the member gets its partitions")

        def stable() -> Any:
            """A member of the newer protocol confirms its partitions a moment later."""
            member.poll()
            (found,) = bmq.document("group", "describe", group)
            return found if found["state"] == "stable" else None

        described = eventually(stable, 20, "the group is stable")
        assert described["kind"] == kind
        assert [each["assigned"] for each in described["members"]] == [[f"{topic}-0", f"{topic}-1"]]
        refused = bmq.run("group", "reset", group, "-t", topic, "--to-latest")
        assert str(refused.exception) == f"group {group!r} has 1 member; end them first"
        assert bmq.error_code("group", "delete", group) is ErrorCode.NON_EMPTY_GROUP


def test_configs_of_a_topic_a_group_and_a_broker(bmq: Commands, server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), unique_name("group")
    bmq.shown("config", "alter", "topic", topic, "cleanup.policy+=compact", "retention.ms=1000")
    own = {row["config"]: row["value"] for row in bmq.document("config", "describe", "topic", topic)}
    assert own.items() >= {"cleanup.policy": "delete,compact", "retention.ms": "1000"}.items()
    bmq.shown("config", "alter", "topic", topic, "-d", "retention.ms", "cleanup.policy-=compact")
    rows = {row["config"]: row for row in bmq.document("config", "describe", "topic", topic, "--all")}
    assert (rows["cleanup.policy"]["value"], rows["retention.ms"]["source"]) == ("delete", "default")
    assert bmq.error_code("config", "alter", "topic", topic, "retention.ms=soon") is ErrorCode.INVALID_CONFIG
    bmq.shown("config", "alter", "group", group, "consumer.session.timeout.ms=50000")
    (found,) = bmq.document("config", "describe", "group", group)
    assert (found["config"], found["value"], found["source"]) == ("consumer.session.timeout.ms", "50000", "group")
    broker = next(iter(AdminClient({"bootstrap.servers": server.bootstrap}).list_topics(timeout=10).brokers))
    assert "settings" in {row["source"] for row in bmq.document("config", "describe", "broker", str(broker))}
    assert "there is no broker '77'" in str(bmq.run("config", "describe", "broker", "77").exception)


@pytest.mark.bmq_only
def test_what_is_stored_is_shown_beside_a_running_server(bmq: Commands, server: Server, make_topic: TopicMaker) -> None:
    topic, group, data = make_topic(partitions=2), unique_name("group"), ("--data", str(server.directory))
    bmq.shown("topic", "produce", topic, "-p", "1", "-K", ":", given="a:1\nb:2\n")
    lines(bmq, topic, "-g", group)
    dumped = [json.loads(line) for line in bmq.shown("log", "dump", topic, "--records", "--json", *data).splitlines()]
    assert [(each["partition"], each["offset"], each["key"], each["value"]) for each in dumped] == [
        (1, 0, "a", "1"),
        (1, 1, "b", "2"),
    ]
    batches = bmq.shown("log", "dump", topic, "-p", "1", *data).splitlines()
    assert batches[-1].split("\t")[1].endswith(", 2)")
    states = bmq.shown("log", "dump", "__consumer_offsets", "--records", "--json", *data).splitlines()
    committed = [
        each["value"]["offset"]
        for each in map(json.loads, states)
        if each["kind"] == "OffsetCommit" and each["key"] == {"group": group, "topic": topic, "partition": 1}
    ]
    assert committed[-1] == 2
    named = bmq.shown("log", "dump", "__cluster_metadata", "--records", *data)
    assert f'"name":"{topic}"' in named


def copied(directory: Path, target: Path) -> Path:
    """A copy of what a server that runs has stored; one in which a file is gone before its turn is begun anew."""
    for number in range(COPIES_MAX):
        with contextlib.suppress(shutil.Error):
            return Path(shutil.copytree(directory, target / f"copy-{number}"))
    raise AssertionError(f"files went away under each of {COPIES_MAX} copies of {directory}")


@pytest.mark.bmq_only
def test_stored_segments_are_verified(bmq: Commands, server: Server, make_topic: TopicMaker, tmp_path: Path) -> None:
    topic = make_topic()
    bmq.shown("topic", "produce", topic, given="1\n2\n3\n")
    report = bmq.document("verify", topic, "--data", str(server.directory))
    assert (report["is_clean"], report["partitions"][0]["records"]) == (True, 3)
    copy = copied(server.directory, tmp_path)
    (batch,) = map(json.loads, bmq.shown("log", "dump", topic, "--json", "--data", str(copy)).splitlines())
    segment = bytearray((copy / batch["path"]).read_bytes())
    segment[batch["position"] + batch["bytes"] - 1] ^= 1
    (copy / batch["path"]).write_bytes(segment)
    damaged = bmq.run("verify", topic, "--json", "--data", str(copy))
    assert damaged.exit_code == 3
    assert [finding["kind"] for finding in json.loads(damaged.stdout)["findings"]] == ["batch"]
    dumped = bmq.run("log", "dump", topic, "--data", str(copy))
    assert "checksum" in dumped.stderr
