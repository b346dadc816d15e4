"""Tickets of two minutes and block tokens of one: nothing that is open, and nothing that is opened later, minds their end."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from random import Random

import pytest
from structlog.testing import capture_logs

from bmq.hdfs.block_tokens import expiry_ms
from bmq.hdfs.store import HdfsStore
from bmq.log.store import Durability
from testing.hdfs import fresh_root
from tests.support.secure_hdfs import Protection, SecureHdfs, secure_hdfs

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.safety, pytest.mark.timeout(400)]

TICKET_LIFE_S = 120
SHORT_TOKENS = {"dfs.block.access.key.update.interval": "1", "dfs.block.access.token.lifetime": "1"}
APPEND_INTERVAL_S = 2.0


def test_tokens_and_tickets_expire(tmp_path: Path) -> None:
    protection = Protection(rpc="integrity", data="integrity")
    with secure_hdfs(tmp_path, protection, datanodes=2, properties=SHORT_TOKENS, ticket_life_s=TICKET_LIFE_S) as secure:
        asyncio.run(_expire(secure))


async def _expire(secure: SecureHdfs) -> None:
    config = secure.config(fresh_root("expiry"))
    owner = await HdfsStore.open(config, Random(1))
    try:
        await owner.make_directories("1.open")
        await owner.write_file("closed", b"closed before", holder="h")
        closed = await owner.status("closed")
        assert closed is not None
        assert await owner.read("closed", file_id=closed.file_id, position=0, length_bytes=6) == b"closed"
        writer = await owner.create_segment(
            "1.open/log", holder="h", durability=Durability.HSYNC, segment_bytes=1 << 20
        )
        started_ms = time.time_ns() // 1_000_000
        (block,) = (await owner.blocks("closed")).blocks
        token_end_ms = expiry_ms(block.token)
        assert token_end_ms is not None and token_end_ms - started_ms <= 61_000
        # The subject is time itself: both have ended, and the DataNodes have dropped the keys of the tokens.
        end_ms = max(token_end_ms + 2 * 60_000, started_ms + (TICKET_LIFE_S + 10) * 1000)
        acked = 0
        while time.time_ns() // 1_000_000 < end_ms:
            acked = await writer.append([b"x" * 4096])
            await asyncio.sleep(APPEND_INTERVAL_S)
        with capture_logs() as logs:
            assert await owner.read("closed", file_id=closed.file_id, position=7, length_bytes=6) == b"before"
        assert [line["event"] for line in logs] == []
        assert await owner.visible_length("1.open/log") == acked
        successor = await HdfsStore.open(config, Random(2))
        try:
            assert await successor.take_over("1.open/log", previous_holder="h", durability=Durability.HSYNC) == acked
            assert await successor.read_file("1.open/log", length_bytes_max=1 << 20) == b"x" * acked
        finally:
            await successor.close()
        second = await owner.create_segment(
            "1.open/next", holder="h", durability=Durability.HSYNC, segment_bytes=1 << 20
        )
        assert await second.append([b"y" * 4096]) == 4096
        assert await second.close() == 4096
    finally:
        await owner.close()
