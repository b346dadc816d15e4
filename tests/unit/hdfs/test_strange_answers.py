"""Answers that no DataNode and no NameNode sends: refused in a sentence, and never taken for a success."""

from __future__ import annotations

import asyncio

import pytest

from bmq.hdfs.blocks import DataNode
from bmq.hdfs.config import Address
from bmq.hdfs.datanode_connection import DataNodeConnection
from bmq.hdfs.errors import SetupRefused
from bmq.hdfs.packets import BadAck, decode_ack
from bmq.hdfs.read_packets import BlockReceiver, ReplicaMalformed
from bmq.hdfs.rpc_codec import MalformedAnswer, parse_answer

pytestmark = pytest.mark.unit

UNKNOWN_STATUS = b"\x08\x63"
NOT_UTF8 = b"\x08\x01\x2a\x02\xff\xfe"


def receive(answer: bytes) -> None:
    receiver = BlockReceiver(0, 100)
    receiver.get_buffer()[: len(answer)] = answer
    receiver.received(len(answer))


@pytest.mark.parametrize("body", [b"", UNKNOWN_STATUS, NOT_UTF8], ids=["empty", "unknown status", "no text"])
async def test_the_reply_to_a_set_up(body: bytes) -> None:
    loop = asyncio.get_running_loop()
    node = DataNode("dn0", Address("127.0.0.1", 1), Address("127.0.0.1", 2))
    connection = DataNodeConnection(node, None, loop)  # type: ignore[arg-type]
    connection.data_received(bytes([len(body)]) + body)
    assert connection._ready is not None
    with pytest.raises(SetupRefused, match="no answer to a WRITE_BLOCK"):
        await connection._ready


@pytest.mark.parametrize("body", [b"", UNKNOWN_STATUS, NOT_UTF8], ids=["empty", "unknown status", "no text"])
def test_the_answer_to_a_read(body: bytes) -> None:
    with pytest.raises(ReplicaMalformed):
        receive(bytes([len(body)]) + body)


def test_an_acknowledgement_without_its_number() -> None:
    with pytest.raises(BadAck):
        decode_ack(b"\x02\x10\x00", 0, 3)


def test_the_error_of_a_call_that_is_no_text() -> None:
    header = b"\x08\x07\x10\x01\x22\x02\xff\xfe"
    with pytest.raises(MalformedAnswer):
        parse_answer(bytes([len(header)]) + header)
