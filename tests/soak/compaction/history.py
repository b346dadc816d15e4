"""What is written to the partitions of one topic, from a seed: keys, tombstones, headers, codecs, transactions. Pure.

A partition is a history. All of a topic are written by the same producers: in each step one of them writes to some of the
partitions, and a transaction may stay open while others write. So a partition gets the same offsets wherever the steps are
carried out one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
TRANSACTIONS: Final = 3


@dataclass(frozen=True, slots=True)
class Write:
    partition: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """`producer`: a codec's name, or the number of a transactional producer, which then has an open transaction.

    `ends`: commits (True) or aborts (False) its transaction afterwards; None: it stays open, or there is none.
    """

    producer: str | int
    writes: tuple[Write, ...]
    ends: bool | None = None


def steps(random: Random, partitions: int, count: int) -> list[Step]:
    """No transaction is left open."""
    found: list[Step] = []
    open_transactions: set[int] = set()
    for _ in range(count):
        producer: str | int = random.choice([*CODECS, *range(TRANSACTIONS), *range(TRANSACTIONS)])
        ends: bool | None = None
        if isinstance(producer, int):
            ends = random.choice([True, True, False, None, None])
            open_transactions.add(producer)
            if ends is not None:
                open_transactions.discard(producer)
        found.append(Step(producer, _writes(random, partitions), ends))
    found += [Step(producer, (), random.choice([True, False])) for producer in sorted(open_transactions)]
    return found


def _writes(random: Random, partitions: int) -> tuple[Write, ...]:
    found: list[Write] = []
    for partition in range(partitions):
        if random.random() < 0.4:
            continue
        for _ in range(random.randint(1, 5)):
            key = b"key-%d" % random.randrange(8)
            if random.random() < 0.2:
                key += b" that does not fit into a few bytes"
            value = None if random.random() < 0.25 else random.randbytes(random.choice([0, 5, 60]))
            headers = tuple(
                (random.choice(["trace", "a", ""]), random.choice([None, b"", b"h" * 9]))
                for _ in range(random.choice([0, 0, 0, 1, 2]))
            )
            found.append(Write(partition, key, value, headers))
    return tuple(found)
