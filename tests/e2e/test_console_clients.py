"""Kafka's console producer and consumer, and its two performance tools."""

from __future__ import annotations

import re

import pytest

from testing.java import (
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    CONSUMER_PERFORMANCE,
    PRODUCER_PERFORMANCE,
)
from testing.java import run_tool as run_in_own_jvm
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, unique_name
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]


def console_produce(server: Server, topic: str, lines: list[str], *arguments: str) -> None:
    text = "".join(f"{line}\n" for line in lines)
    run_tool(CONSOLE_PRODUCER, "--bootstrap-server", server.bootstrap, "--topic", topic, *arguments, stdin=text)


def console_consume(server: Server, topic: str, count: int, *arguments: str) -> list[str]:
    done = run_tool(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", server.bootstrap, "--topic", topic),
        *("--max-messages", str(count), "--timeout-ms", "20000", *arguments),
    )
    return done.out.splitlines()


def test_lines_come_back_in_order(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    lines = [f"line {number} – ünïcode ☕" for number in range(500)]
    console_produce(server, topic, lines)
    assert console_consume(server, topic, 500, "--from-beginning") == lines


def test_topic_is_made_by_the_first_produce(server: Server) -> None:
    topic = unique_name("made-on-the-way")
    console_produce(server, topic, ["first"])
    assert console_consume(server, topic, 1, "--from-beginning") == ["first"]


def test_keys_headers_and_partitions_are_kept(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=3)
    lines = [f"colour:{number}|key{number}|value{number}" for number in range(30)]
    parsing = ["parse.key=true", "parse.headers=true", "key.separator=|", "headers.delimiter=|"]
    console_produce(server, topic, lines, *(part for each in parsing for part in ("--reader-property", each)))
    printing = ["print.key=true", "print.headers=true", "print.partition=true", "key.separator=|"]
    out = console_consume(
        server,
        topic,
        30,
        "--from-beginning",
        *(part for each in printing for part in ("--formatter-property", each)),
    )
    seen = {}
    for line in out:
        partition, headers, key, value = line.split("|")
        seen[key] = (headers, value)
        assert partition in {"Partition:0", "Partition:1", "Partition:2"}
    assert seen == {f"key{number}": (f"colour:{number}", f"value{number}") for number in range(30)}
    assert len({line.split("|")[0] for line in out}) > 1, "all keys fell into one partition"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_java_codecs(server: Server, make_topic: TopicMaker, codec: str) -> None:
    topic = make_topic()
    lines = [f"compressible compressible {number}" for number in range(200)]
    console_produce(server, topic, lines, "--compression-codec", codec)
    assert console_consume(server, topic, 200, "--from-beginning") == lines


def test_group_continues_where_it_stopped(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), unique_name("group")
    console_produce(server, topic, ["a", "b", "c", "d"])
    assert console_consume(server, topic, 2, "--from-beginning", "--group", group) == ["a", "b"]
    assert console_consume(server, topic, 2, "--group", group) == ["c", "d"]


def test_one_partition_from_an_offset(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    console_produce(server, topic, [str(number) for number in range(10)])
    assert console_consume(server, topic, 3, "--partition", "0", "--offset", "7") == ["7", "8", "9"]


def test_performance_tools_agree_on_the_count(server: Server, make_topic: TopicMaker) -> None:
    """The Java producer is idempotent with acks=all by default: every record arrives, none twice. In JVMs of their own."""
    topic = make_topic(partitions=3)
    produced = run_in_own_jvm(
        PRODUCER_PERFORMANCE,
        *("--bootstrap-server", server.bootstrap, "--topic", topic),
        *("--num-records", "50000", "--record-size", "200", "--throughput", "-1"),
    )
    assert re.search(r"^50000 records sent, .* records/sec", produced.out, re.MULTILINE), produced.out
    consumed = run_in_own_jvm(
        CONSUMER_PERFORMANCE,
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--num-records", "50000"),
        *("--timeout", "20000", "--hide-header"),
    )
    columns = consumed.out.strip().splitlines()[-1].split(", ")
    assert columns[4] == "50000", consumed.out
