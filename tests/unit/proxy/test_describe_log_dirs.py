"""DescribeLogDirs: every version over a socket."""

from __future__ import annotations

import pytest

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.unit.proxy.harness import Client

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("version", range(1, APIS[ApiKey.DESCRIBE_LOG_DIRS].version_max + 1))
async def test_a_node_keeps_nothing(client: Client, version: int) -> None:
    """Whatever is asked for: one directory, because clients take none for a lack of rights, with nothing in it."""
    topic = DescribableLogDirTopic(topic="topic", partitions=[0, 1])
    for request in (DescribeLogDirsRequest(topics=None), DescribeLogDirsRequest(topics=[topic])):
        answer = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, version, request)
        assert answer.error_code == ErrorCode.NONE
        (directory,) = answer.results
        assert (directory.error_code, list(directory.topics)) == (ErrorCode.NONE, [])
        assert (directory.total_bytes, directory.usable_bytes) == (-1, -1)
