"""Maps a mirror's source offsets to target offsets. Pure.

They differ: the source has markers and gaps that are not copied, and the target has markers of the mirror's own transactions.
So each of the mirror's transactions writes one more record, into a separate topic: the runs of offsets it copied, and their
target offsets. This record exists exactly if the copied records do, so the map is exact wherever it reaches. It names both
topics' ids, because it outlives the topics: offsets of a deleted topic do not apply to a new topic of the same name.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

RUNS_MAX: Final = 1_000
Run = tuple[int, int, int]
"""(source offset, target offset, count)."""
TopicIds = tuple[str, str]
"""Ids of the source topic and of the target topic."""


@dataclass(frozen=True, slots=True)
class MapEntry:
    """The offsets of a partition that one transaction copied, in ascending runs. `ids`: empty in entries of earlier releases."""

    topic: str
    partition: int
    runs: tuple[Run, ...]
    ids: TopicIds = ("", "")

    @classmethod
    def of(cls, topic: str, partition: int, runs: Iterable[Run], ids: TopicIds) -> MapEntry:
        """Keeps at most RUNS_MAX runs: beyond that, runs are merged into ones that give a safe lower bound."""
        return cls(topic, partition, tuple(_fewer(list(runs))), ids)

    @property
    def key(self) -> bytes:
        return json.dumps([self.topic, self.partition]).encode()

    @property
    def value(self) -> bytes:
        source_id, target_id = self.ids
        return json.dumps({"runs": self.runs, "from": source_id, "to": target_id}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> MapEntry:
        """Raises ValueError."""
        try:
            topic, partition = json.loads(key)
            told = json.loads(value)
            runs = tuple((int(s), int(t), int(n)) for s, t, n in told["runs"])
            ids = str(told.get("from", "")), str(told.get("to", ""))
        except (KeyError, TypeError) as error:
            raise ValueError(f"no entry of an offset map: {value!r}") from error
        return cls(str(topic), int(partition), runs, ids)


def _fewer(runs: list[Run]) -> list[Run]:
    """A dropped run counts as part of the gap before the next kept one: its offsets map to the run before."""
    if len(runs) <= RUNS_MAX:
        return runs
    step = -(-len(runs) // RUNS_MAX)
    return [(source, target, 0 if step > 1 else count) for source, target, count in runs[::step]]


class OffsetMap:
    """The map of one partition. Runs are added in the order in which they were copied, each once."""

    __slots__ = ("_counts", "_sources", "_targets")

    def __init__(self) -> None:
        self._sources: list[int] = []
        self._targets: list[int] = []
        self._counts: list[int] = []

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, runs: Iterable[Run]) -> None:
        for source, target, count in runs:
            self._cut(source)
            self._sources.append(source)
            self._targets.append(target)
            self._counts.append(count)

    def _cut(self, offset: int) -> None:
        """The source's log was cut at or before this offset, and written anew from there on."""
        while self._sources and self._sources[-1] >= offset:
            for numbers in (self._sources, self._targets, self._counts):
                numbers.pop()
        if self._sources and self._sources[-1] + self._counts[-1] > offset:
            self._counts[-1] = offset - self._sources[-1]

    def translate(self, offset: int) -> int | None:
        """The target offset for a reader that has read up to source `offset`; None: the map does not reach back so far.

        It is never past a record that was not read. Between two runs it is the offset after the first of them, if that is
        known.
        """
        place = bisect_right(self._sources, offset) - 1
        if place < 0:
            return None
        into = offset - self._sources[place]
        count = self._counts[place]
        if into < count:
            return self._targets[place] + into
        if count:
            # After the run the target has only records of higher source offsets, or markers.
            return self._targets[place] + count
        return self._targets[place]
