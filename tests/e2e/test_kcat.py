"""kcat: metadata, produce, consume, offsets by time."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from testing.patience import Patience
from testing.processes import ProcessFailed, dying_with_us
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, unique_name

pytestmark = [pytest.mark.clients, pytest.mark.timeout(60)]


def kcat(server: Server, *arguments: str, stdin: str = "") -> str:
    executable = shutil.which("kcat")
    if executable is None:
        raise ProcessFailed("no kcat found: run `make tools` (installs it as root, else says what to install)")
    done = subprocess.run(
        dying_with_us([executable, "-b", server.bootstrap, *arguments]),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=Patience(40).limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_metadata(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=3)
    told = json.loads(kcat(server, "-L", "-J", "-t", topic))
    assert [broker["name"] for broker in told["brokers"]] == [server.bootstrap]
    assert [partition["partition"] for partition in told["topics"][0]["partitions"]] == [0, 1, 2]
    assert {partition["leader"] for partition in told["topics"][0]["partitions"]} == {told["brokers"][0]["id"]}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_produce_and_consume(server: Server, make_topic: TopicMaker, codec: str) -> None:
    topic = make_topic()
    lines = "".join(f"key{number}:value {number}\n" for number in range(200))
    kcat(server, "-P", "-t", topic, "-K", ":", "-z", codec, "-H", "colour=red", stdin=lines)
    out = kcat(server, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%o %k:%s %h\n")
    assert out == "".join(f"{number} key{number}:value {number} colour=red\n" for number in range(200))


def test_last_records_and_offsets_by_time(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    kcat(server, "-P", "-t", topic, stdin="a\nb\nc\nd\n")
    assert kcat(server, "-C", "-t", topic, "-p", "0", "-o", "-2", "-e", "-q") == "c\nd\n"
    assert f"{topic} [0] offset 0" in kcat(server, "-Q", "-t", f"{topic}:0:0")
    assert f"{topic} [0] offset 4" in kcat(server, "-Q", "-t", f"{topic}:0:-1")


def test_group_consumer(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), unique_name("kcat")
    kcat(server, "-P", "-t", topic, stdin="a\nb\n")
    reset = ("-X", "auto.offset.reset=earliest")
    assert kcat(server, "-G", group, *reset, "-c", "2", "-q", topic) == "a\nb\n"
    kcat(server, "-P", "-t", topic, stdin="c\n")
    assert kcat(server, "-G", group, *reset, "-c", "1", "-q", topic) == "c\n"
