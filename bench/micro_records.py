"""MB per second and core from record batches to Arrow columns and back, beside the checksum of the same bytes alone.

    python -m bench.micro_records [--mb 32] [--rounds 5] [--batch-bytes 16384 1000000] [--only none zstd]

For records of 100 B and 1 KiB (values like JSON, keys of 9 bytes) and each codec: all columns, offsets with timestamps, offsets
alone (of which no batch is opened), keys and values as views, encoding and cleaning (every second record kept). MB are those of the
records before compression, and for `crc` and `decompress` as well, so figures of one line compare. The best of the rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from bmq.arrow_records.decoder import Limits, decode
from bmq.arrow_records.encoder import BatchFields, encode
from bmq.arrow_records.layout import Layout
from bmq.compaction.batch_cleaner import write_survivors
from bmq.log.batch_bodies import Scratch
from bmq.log.origin import Origin
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression, decompress_into
from bmq.protocol.record_batch import HEADER_BYTES, batches

RECORD_BYTES: Final = (100, 1024)
BATCH_BYTES: Final = (16_384, 1_000_000)
ORIGIN: Final = Origin("bench", 0, "memory")
FIRST_TIMESTAMP_MS: Final = 1_700_000_000_000
WORDS: Final = (b"user", b"order id", b"price", b"amount", b"2024-01-02T", b"status=ok", b"region", b"eu-west-1")
LAYOUTS: Final = {
    "all": Layout(),
    "key, value": Layout(("offset", "key", "value")),
    "views": Layout(("offset", "key", "value"), content=pa.binary_view()),
    "offset, time": Layout(("offset", "timestamp")),
    "offset": Layout(("offset",)),
}
CLEANED_BATCHES_MAX: Final = 200
TABLE_BYTES_MAX: Final = 4 << 20


def value_of(size_bytes: int, random: Random) -> bytes:
    """Words and hexadecimal numbers, which compress about as JSON does."""
    out = b"{"
    while len(out) < size_bytes:
        out += b'"%s":"%x",' % (random.choice(WORDS), random.getrandbits(24))
    return out[:size_bytes]


def table_of(record_bytes: int, total_bytes: int) -> pa.RecordBatch:
    """Offset, timestamp, key and value of as many records as make `total_bytes` of values."""
    random = Random(1)
    count = max(1, total_bytes // record_bytes)
    distinct = [value_of(record_bytes, random) for _ in range(min(count, 5_000))]
    return pa.RecordBatch.from_pydict(
        {
            "offset": pa.array(np.arange(count)),
            "timestamp": pa.array(FIRST_TIMESTAMP_MS + np.arange(count)),
            "key": pa.array([b"key%06d" % (number % 50_000) for number in range(count)], pa.binary()),
            "value": pa.array([distinct[number * 7919 % len(distinct)] for number in range(count)], pa.binary()),
        }
    )


def read_all(log: bytes, layout: Layout) -> int:
    """How many rows; table by table, as a job reads."""
    rows = place = 0
    scratch = Scratch()
    while place < len(log):
        decoded = decode(log, ORIGIN, layout, limits=Limits(bytes_max=TABLE_BYTES_MAX), place=place, scratch=scratch)
        rows += decoded.table.num_rows
        place = decoded.end
    return rows


def best_s(work: Callable[[], object], rounds: int) -> float:
    """CPU seconds of the fastest round, behind one that is not counted (what is compiled is loaded in it)."""
    work()
    times = []
    for _ in range(rounds):
        began_s = time.process_time()
        work()
        times.append(time.process_time() - began_s)
    return min(times)


def figures(record_bytes: int, batch_bytes: int, codec: Compression, total_bytes: int, rounds: int) -> dict[str, float]:
    """MB per second of each kind of work."""
    table = table_of(record_bytes, total_bytes)
    plain_bytes = sum(map(len, encode(table, BatchFields(), batch_bytes_max=batch_bytes)))
    fields = BatchFields(compression=codec)
    parts = [bytes(batch) for batch in encode(table, fields, batch_bytes_max=batch_bytes)]
    log = b"".join(parts)
    headers = list(batches(log))
    view = memoryview(log)
    spans = [(place, place + header.size_bytes) for place, header in headers]
    target = memoryview(bytearray(2 * batch_bytes + 4096))
    cleaned = parts[:CLEANED_BATCHES_MAX]
    masks = [(np.arange(header.record_count) % 2 == 0).tobytes() for _, header in headers[:CLEANED_BATCHES_MAX]]
    cleaned_share = sum(map(len, cleaned)) / len(log)

    def seconds(work: Callable[[], object]) -> float:
        return best_s(work, rounds)

    took = {"crc": seconds(lambda: [crc32c(view[start + 21 : end]) for start, end in spans])}
    if codec is not Compression.NONE:
        took["decompress"] = seconds(
            lambda: [decompress_into(codec, view[start + HEADER_BYTES : end], target) for start, end in spans]
        )
    for name, layout in LAYOUTS.items():
        took[name] = seconds(lambda layout=layout: read_all(log, layout))  # type: ignore[misc]
    took["encode"] = seconds(lambda: sum(map(len, encode(table, fields, batch_bytes_max=batch_bytes))))
    scratch = Scratch()
    clean_s = seconds(
        lambda: [
            write_survivors(batch, ORIGIN, mask, scratch=scratch) for batch, mask in zip(cleaned, masks, strict=True)
        ]
    )
    took["clean"] = clean_s / cleaned_share
    return {name: plain_bytes / 1e6 / max(one, 1e-9) for name, one in took.items()}


def plain_encoder_agrees() -> bool:
    """Whether what is measured here is what the plain encoder writes."""
    table = table_of(100, 10_000)
    records = [Record(row["key"], row["value"], (), row["timestamp"]) for row in table.to_pylist()]
    return next(encode(table, BatchFields())) == encode_batch(records)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-bytes", type=int, nargs="+", default=BATCH_BYTES)
    parser.add_argument("--only", nargs="+", default=[codec.name.lower() for codec in Compression])
    options = parser.parse_args(arguments)
    assert plain_encoder_agrees()
    for record_bytes in RECORD_BYTES:
        for batch_bytes in options.batch_bytes:
            for name in options.only:
                codec = Compression[name.upper()]
                found = figures(record_bytes, batch_bytes, codec, int(options.mb * 1e6), options.rounds)
                line = "  ".join(f"{what} {rate:,.0f}" for what, rate in found.items())
                print(f"{record_bytes:5d} B in batches of {batch_bytes / 1000:5.0f} kB, {name:6s}  {line}", flush=True)


if __name__ == "__main__":
    main()
