"""Batches whose records nobody has read: on a topic with delay or half messages they are refused with an error code, not with a fault of ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bmq.log.config import LogConfig
from bmq.protocol.batch_records import Record, encode_records
from bmq.protocol.compression import Compression, compress
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import BatchHeader, assemble_batch
from tests.unit.broker.world import CONFIG, World, append, batch_of, virtual

pytestmark = pytest.mark.unit

DELAY = replace(CONFIG, is_delay_enabled=True, validates_compressed=False)
RETRY = replace(DELAY, retry_levels_ms=(1_000,))
HALF = replace(CONFIG, is_half_enabled=True, validates_compressed=False)


def compressed(body: bytes, count: int) -> bytearray:
    header = BatchHeader.parse(batch_of(*[b""] * count))
    return assemble_batch(header._replace(attributes=Compression.ZSTD), compress(Compression.ZSTD, body, None))


@pytest.mark.parametrize(
    ("config", "name"),
    [(DELAY, "bmq-deliver-after"), (RETRY, "bmq-deliver-after"), (HALF, "bmq-half")],
    ids=["delay", "retry", "half"],
)
@pytest.mark.parametrize("damage", ["cut", "count", "header"])
def test_records_that_cannot_be_read_are_corrupt(config: LogConfig, name: str, damage: str) -> None:
    async def main() -> None:
        log = await World().owner(config).log()
        body = bytes(encode_records([Record(b"k", b"v", [(name, b"5000")])], 0))
        field = bytes([2 * len(name)]) + name.encode()  # with its length before it
        batch = {
            "cut": compressed(body[:-3], 1),
            "count": compressed(body, 2),
            "header": compressed(body.replace(field, bytes([field[0] - 1]) + field[1:]), 1),
        }[damage]
        result = await append(log, batch)
        assert result.error_code is ErrorCode.CORRUPT_MESSAGE, result
        assert log.log_end_offset == 0

    virtual(main)
