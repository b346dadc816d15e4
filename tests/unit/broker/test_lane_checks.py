"""Records with a bad lane at a partition's owner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from tests.unit.broker.world import CONFIG, World, append, virtual

pytestmark = pytest.mark.unit

LANES = replace(CONFIG, has_lanes_validated=True)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_bad_lanes_are_refused_by_name_and_others_are_taken(codec: Compression) -> None:
    async def main() -> None:
        log = await World().owner(LANES).log()

        def batch(*lanes: bytes) -> bytearray:
            return encode_batch([Record(None, b"v", (("x-lane", lane),)) for lane in lanes], compression=codec)

        refused = await append(log, batch(b"blue", b"a@b", b"blue", b"a/b"))
        assert refused.error_code is ErrorCode.INVALID_RECORD
        assert [one.batch_index for one in refused.record_errors] == [1, 3]
        assert "'a@b' is no lane" in (refused.record_errors[0].message or "")
        assert log.log_end_offset == 0, "nothing of it"
        assert (await append(log, batch(b"blue", b"red"))).base_offset == 0
        plain = await append(log, encode_batch([Record(None, b"v")], compression=codec))
        assert plain.base_offset == 2

    virtual(main)


def test_without_the_config_a_bad_lane_is_taken_as_none() -> None:
    async def main() -> None:
        log = await World().owner(CONFIG).log()
        assert (await append(log, encode_batch([Record(None, b"v", (("x-lane", b"a@b"),))]))).base_offset == 0

    virtual(main)


def test_batch_with_more_records_than_are_looked_at_is_too_large() -> None:
    async def main() -> None:
        log = await World().owner(replace(LANES, max_message_bytes=10_000_000)).log()
        records = [Record(None, b"", (("x-lane", b"b"),))] * 10_001
        assert (await append(log, encode_batch(records))).error_code is ErrorCode.MESSAGE_TOO_LARGE

    virtual(main)
