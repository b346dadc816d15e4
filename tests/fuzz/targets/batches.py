"""A record batch of a client: validated in a turn and in parts alike; what is valid can be read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from typing import Final

from crc32c import crc32c

from bmq.broker.batch_validation import BatchValidator
from bmq.broker.opening_room import OpeningBudget, TooMuchWork
from bmq.log.config import LogConfig
from bmq.protocol.batch_records import iterate_records
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import CHECKSUMMED_POSITION, HEADER_BYTES, write_times
from tests.conformance.broken_batches import CODECS, batch, compressed, record, ways
from tests.fuzz.mutation import changed
from tests.fuzz.target import Target

NOW_MS: Final = 1_700_000_000_000
SCRATCH_BYTES: Final = 64 * 1024
_CRC: Final = struct.Struct(">I")
_CONFIGS: Final = (
    LogConfig(),
    LogConfig(cleanup_policy=frozenset({"compact"})),
    LogConfig(message_timestamp_type_is_append_time=True),
    LogConfig(compression_type="lz4"),
    LogConfig(compression_type="uncompressed", max_message_bytes=2048),
    LogConfig(validates_compressed=False),
)
_validators: Final = tuple(BatchValidator(config, "t-0") for config in _CONFIGS)


class _Room:
    """Implements Room."""

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.left_ns: int | None = None

    def take(self, cost_ns: int) -> None:
        """Any time may be used."""


_room: Final = _Room()
Verdict = bytes | tuple[str, int]
"""The batch as it is stored, or the refusal's class and code."""


def check(data: bytes) -> bool:
    """The first byte says under which settings, and whether the checksum is put right."""
    if not data:
        return False
    number = data[0] % len(_CONFIGS)
    records = bytearray(data[1:])
    if data[0] < 192 and len(records) >= HEADER_BYTES:
        records[8:12] = struct.pack(">i", len(records) - 12)
        records[17:21] = _CRC.pack(crc32c(memoryview(records)[CHECKSUMMED_POSITION:]))
    in_parts = _in_parts(number, bytearray(records))
    try:
        at_once: Verdict = bytes(_validators[number].validate(memoryview(records), None, NOW_MS, _room)[0])
    except TooMuchWork:
        at_once = in_parts
    except BmqError as error:
        at_once = type(error).__name__, error.code
    # Where two things are wrong, which one is found first may differ.
    assert at_once == in_parts or (isinstance(at_once, tuple) and isinstance(in_parts, tuple)), (
        f"at once {at_once!r:.200}, in parts {in_parts!r:.200}"
    )
    if isinstance(in_parts, tuple):
        return False
    if _CONFIGS[number].validates_compressed:
        count = sum(1 for _ in iterate_records(in_parts))
        assert count == int.from_bytes(in_parts[57:61], "big"), "the header counts other records"
    return True


def _in_parts(number: int, records: bytearray) -> Verdict:
    opening = _validators[number].opening(memoryview(records), NOW_MS, OpeningBudget(128 * 1024 * 1024))
    try:
        while True:
            next(opening)
    except StopIteration as end:
        batch, header = end.value
        write_times(batch, 0, header)  # as its partition does, once nobody else reads the buffer
        return bytes(batch)
    except BmqError as error:
        return type(error).__name__, error.code


def seeds() -> Iterator[bytes]:
    for codec in range(len(CODECS)):
        for number, (_, broken) in enumerate(ways(codec, NOW_MS)):
            yield bytes([number % 256]) + broken


def mutate(data: bytes, dice: Random) -> bytes:
    """The records in another codec, or a change under the checksum and the compression."""
    if not dice.randrange(4):
        body = b"".join(record(delta, timestamp_delta=dice.randrange(50)) for delta in range(dice.randint(1, 5)))
        codec = dice.randrange(len(CODECS))
        if dice.randrange(2):
            body = changed(body, dice)
        return bytes([dice.randrange(192)]) + batch(compressed(codec, body), codec, NOW_MS)
    head, body = data[: 1 + HEADER_BYTES], data[1 + HEADER_BYTES :]
    return head + changed(body, dice) if dice.randrange(3) else changed(head, dice) + body


TARGET: Final = Target(
    "batches", seeds, check, ("bmq.broker.batch_validation", "bmq.protocol.record_batch", "bmq.records"), mutate
)
