"""What coordinators write is Kafka's own: its DumpLogSegments reads our files, its formatters what consumers are shown."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bmq.coordinator.runtime.directory import shard_of
from testing.java import CONSOLE_CONSUMER
from testing.processes import eventually
from testing.servers import Server
from testing.topic_contents import end_offsets
from testing.wire import WireClient
from tests.e2e.conftest import ServerMaker, create_topic
from tests.support.group_client import GroupClient, topic_id_of
from tests.support.tool_runner import run_tool
from tests.support.transaction_client import TransactionClient

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(300)]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
GROUP_FORMATTER = "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter"
SHARDS = 50
PARTITIONS = 2


def log_of(server: Server, topic: str, shard: int, target: Path) -> Path:
    """A copy of the shard's only segment, under the name that Kafka gives its files."""
    directory = server.directory / "topics" / str(topic_id_of(server.bootstrap, topic)) / str(shard)
    (segment,) = (path for path in directory.glob("*/*.log") if path.stat().st_size)
    copy = target / f"{topic}-{shard}" / f"{0:020}.log"
    copy.parent.mkdir()
    shutil.copy(segment, copy)
    return copy


def dumped(decoder: str, log: Path) -> list[tuple[dict[str, Any], Any]]:
    """(key, value) of all records; a value that is none: None."""
    out = run_tool(DUMP, decoder, "--files", str(log)).out
    batches = re.findall(r"isvalid: (\w+)", out)
    assert batches and set(batches) == {"true"}, out
    found = re.findall(r"^\| offset: \d+ .* key: (\{.*\}) payload: (\{.*\}|<DELETE>)$", out, re.MULTILINE)
    return [(json.loads(key), None if value == "<DELETE>" else json.loads(value)) for key, value in found]


def objects(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects back to back, and whatever comes behind them."""
    decoder, position = json.JSONDecoder(), 0
    while text.startswith("{", position):
        found, position = decoder.raw_decode(text, position)
        yield found


def classics_shown(server: Server) -> list[dict[str, Any]]:
    """What the console consumer shows of `classics`; nothing before it is two values.

    Once it has heard nothing for 8 s it ends, however little it has read.
    """
    out = run_tool(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", server.bootstrap, "--topic", "__consumer_offsets", "--from-beginning"),
        *("--partition", str(shard_of("classics", SHARDS)), "--formatter", GROUP_FORMATTER, "--timeout-ms", "8000"),
        check=False,
    ).out
    print(out)
    mine = [
        shown["value"]["data"]
        for shown in objects(out)
        if shown["key"]["data"]["group"] == "classics" and shown["value"] is not None
    ]
    return mine if len(mine) > 1 else []


def test_kafkas_tools_read_the_state_of_coordinators(new_server: ServerMaker, tmp_path: Path) -> None:
    server = new_server()
    server.start()
    create_topic(server, "t", PARTITIONS)
    topic_id = topic_id_of(server.bootstrap, "t")
    with WireClient(server.port) as connection:
        groups, transactions = GroupClient(connection), TransactionClient(connection)
        member_id, epoch = groups.settled("consumers", "t", topic_id, PARTITIONS)
        assert groups.commit("consumers", {"t": [1]}, generation=epoch, member_id=member_id)["t"] == [0]
        classic_id, generation = groups.joined("classics")
        assert groups.leave("classics", classic_id) == 0
        identity = transactions.begun("tx")
        assert transactions.produce("tx", identity, "t", 0) == 0
        assert transactions.ended("tx", identity) == 0
    eventually(lambda: end_offsets(server.bootstrap, "t", 1, "read_committed") == [2], 20, "the marker is written")

    records = dumped(
        "--transaction-log-decoder", log_of(server, "__transaction_state", shard_of("tx", SHARDS), tmp_path)
    )
    assert {json.dumps(key) for key, _ in records} == {'{"type": "0", "data": {"transactionalId": "tx"}}'}
    values = [value["data"] for _, value in records]
    assert [value["transactionStatus"] for value in values] == [0, 1, 2, 4]
    assert [value["transactionPartitions"] for value in values] == [
        None,
        *[[{"topic": "t", "partitionIds": [0]}]] * 2,
        [],
    ]
    assert {value["version"] for _, value in records} == {"1"}

    written = dumped("--offsets-decoder", log_of(server, "__consumer_offsets", shard_of("consumers", SHARDS), tmp_path))
    by_type = {key["type"]: (key["data"], value) for key, value in written}
    assert by_type.keys() >= {"1", "3", "5", "6", "7", "8"}
    assert by_type["1"][0] == {"group": "consumers", "topic": "t", "partition": 1}
    assert by_type["1"][1]["data"]["offset"] == 1
    assert by_type["5"][1]["data"]["subscribedTopicNames"] == ["t"]
    assert by_type["8"][1]["data"]["memberEpoch"] == by_type["6"][1]["data"]["assignmentEpoch"] == epoch

    mine = eventually(lambda: classics_shown(server), 100, "what was written of the classic group is shown")
    assert [len(value["members"]) for value in mine] == [1, 0]
    assert (mine[0]["leader"], mine[0]["generation"], mine[1]["leader"]) == (classic_id, generation, None)
