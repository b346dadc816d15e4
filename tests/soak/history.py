"""What producers were told and what consumers found: kept small, and compared. No I/O.

Every record carries its producer and a sequence number of that producer in that partition, from 0 on without a gap.
"""

from __future__ import annotations

import struct
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

UNKNOWN: Final = -1
EXAMPLES_MAX: Final = 5
PADDING_BYTES_MAX: Final = 2_000
_HEAD: Final = struct.Struct(">HHQ")
_PADDING: Final = bytes(range(256)) * (PADDING_BYTES_MAX // 256 + 2)


class Origin(NamedTuple):
    """Who sent a record, and its place among what that producer sent to that partition."""

    producer: int
    sequence: int


_PRODUCER_SHIFT: Final = 40


def _code(origin: Origin) -> int:
    """As one number, so that a reading of millions of records stays small."""
    return origin.producer << _PRODUCER_SHIFT | origin.sequence


def _origin(code: int) -> Origin:
    return Origin(code >> _PRODUCER_SHIFT, code & (1 << _PRODUCER_SHIFT) - 1) if code != UNKNOWN else Origin(-1, -1)


class NotOurs(ValueError):
    """A record whose bytes nobody sent to this partition."""


def payload(partition: int, origin: Origin) -> bytes:
    """The value of a record: all of it follows from where it comes from, its length too."""
    length = (origin.sequence * 7919 + origin.producer * 31) % PADDING_BYTES_MAX
    first = origin.sequence % 256
    return _HEAD.pack(partition, origin.producer, origin.sequence) + _PADDING[first : first + length]


def origin_of(partition: int, value: bytes) -> Origin:
    """Raises NotOurs when a byte differs from what was sent."""
    if len(value) < _HEAD.size:
        raise NotOurs(f"partition {partition} has a record of {len(value)} bytes")
    _, producer, sequence = _HEAD.unpack_from(value)
    origin = Origin(producer, sequence)
    if value != payload(partition, origin):
        raise NotOurs(f"partition {partition} has a record that says {origin} and differs from what was sent")
    return origin


class Acknowledged:
    """Offsets that producers were told, by partition and producer. Filled by callbacks, read when they are over.

    A client whose request was lost takes the success of a later one for an answer: that record is somewhere in the log.
    """

    def __init__(self) -> None:
        self._offsets: dict[tuple[int, int], array[int]] = {}
        self._anywhere: dict[int, list[Origin]] = {}
        self._ends: dict[int, int] = {}
        self.count = 0

    def end(self, partition: int) -> int:
        """The offset behind the last one that was acknowledged."""
        return self._ends.get(partition, 0)

    def add(self, partition: int, origin: Origin, offset: int) -> None:
        offsets = self._offsets.setdefault((partition, origin.producer), array("q"))
        while len(offsets) <= origin.sequence:
            offsets.append(UNKNOWN)
        offsets[origin.sequence] = offset
        self._ends[partition] = max(self.end(partition), offset + 1)
        self.count += 1

    def add_anywhere(self, partition: int, origin: Origin) -> None:
        """It was acknowledged, and nobody said at which offset."""
        self._anywhere.setdefault(partition, []).append(origin)
        self.count += 1

    def anywhere(self, partition: int) -> Sequence[Origin]:
        """Every acknowledged record of a partition whose offset is not known."""
        return self._anywhere.get(partition, ())

    def of(self, partition: int) -> Iterator[tuple[Origin, int]]:
        """Every acknowledged record of a partition with its offset, where that is known."""
        for (its_partition, producer), offsets in self._offsets.items():
            if its_partition == partition:
                for sequence, offset in enumerate(offsets):
                    if offset != UNKNOWN:
                        yield Origin(producer, sequence), offset


class Sightings:
    """Which record anybody saw at each offset of one partition. Used from the threads of all that read."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._codes = array("q")
        self._lock = threading.Lock()

    def add(self, offset: int, origin: Origin) -> str | None:
        """What is wrong with it: somebody saw another record there."""
        code = _code(origin)
        with self._lock:
            missing = offset + 1 - len(self._codes)
            if missing > 0:
                self._codes.extend([UNKNOWN] * missing)
            before, self._codes[offset] = self._codes[offset], code
        if before in (UNKNOWN, code):
            return None
        return f"partition {self._partition} showed {_origin(before)} at offset {offset}, and then {origin}"


@dataclass(slots=True)
class Reading:
    """What one reader found in a partition, in the order it came: offsets from 0 on without a gap."""

    partition: int
    problems: list[str] = field(default_factory=list)
    _codes: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def origins(self) -> Iterator[Origin]:
        return map(_origin, self._codes)

    def at(self, offset: int) -> Origin | None:
        return _origin(self._codes[offset]) if offset < len(self._codes) else None

    def add(self, offset: int, value: bytes) -> Origin | None:
        """Whose record it is; None when it is nobody's, or comes out of turn."""
        if offset != len(self._codes):
            self._report(f"partition {self.partition} came with offset {offset} after {len(self._codes) - 1}")
            return None
        try:
            origin = origin_of(self.partition, value)
        except NotOurs as error:
            self._report(f"offset {offset}: {error}")
            self._codes.append(UNKNOWN)
            return None
        self._codes.append(_code(origin))
        return origin

    def _report(self, problem: str) -> None:
        if len(self.problems) < EXAMPLES_MAX:
            self.problems.append(problem)


def compare(acknowledged: Acknowledged, reading: Reading) -> list[str]:
    """What is wrong with one partition that was read to its end; empty when nothing is.

    Every acknowledged record stands at the offset its producer was told, if it was told one; no record stands there
    twice; those of one producer stand in the order they were sent. A record nobody was told about may be there, once and
    in order.
    """
    partition = reading.partition
    missing = [
        f"{origin} of partition {partition} was acknowledged at offset {offset} and is not there"
        for origin, offset in acknowledged.of(partition)
        if reading.at(offset) != origin
    ]
    anywhere = acknowledged.anywhere(partition)
    if anywhere:
        found = set(reading.origins)
        missing += [
            f"{origin} of partition {partition} was acknowledged and is not there"
            for origin in anywhere
            if origin not in found
        ]
    return [*reading.problems, *_examples(missing), *_examples(_disorder(partition, reading.origins))]


def _disorder(partition: int, origins: Iterable[Origin]) -> list[str]:
    """Repetitions and changes of order among the records of each producer."""
    found = []
    last: dict[int, int] = {}
    for offset, (producer, sequence) in enumerate(origins):
        before = last.get(producer, UNKNOWN)
        if sequence <= before:
            found.append(
                f"partition {partition} has {sequence} of producer {producer} at offset {offset}, behind its {before}"
            )
        last[producer] = max(sequence, before)
    return found


def differences(first: Reading, second: Reading) -> list[str]:
    """Two readers of one partition saw the same as far as both went."""
    found = [
        f"partition {first.partition} had {one} at offset {offset} for one reader and {other} for another"
        for offset, (one, other) in enumerate(zip(first.origins, second.origins, strict=False))
        if one != other
    ]
    return _examples(found)


def _examples(problems: list[str]) -> list[str]:
    if len(problems) <= EXAMPLES_MAX:
        return problems
    return [*problems[:EXAMPLES_MAX], f"… and {len(problems) - EXAMPLES_MAX} more like the last"]
