"""What the readers of a topic with lanes saw, and the rules it must obey whatever was killed, cut or slow in between.

Each record is in one of three sets: the base group saw it at its own offset, or in a copy, or a member of its lane's group saw it and
committed behind it. Once a reader of the base group has passed an offset, every other one sees the same there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.simulation.history import Violation

Spot = tuple[int, int]  # a partition and an offset


class LaneHistory:
    def __init__(self) -> None:
        self.sent: dict[bytes, str] = {}  # value -> lane, empty for none
        self.acknowledged: dict[Spot, bytes] = {}
        self.base: dict[Spot, bool] = {}  # whether the base group sees what is there
        self.copies: dict[Spot, bytes] = {}
        self.given: dict[Spot, str] = {}  # seen by a member of this lane's group
        self.done: dict[Spot, str] = {}  # and by which member committed
        self.perhaps: set[Spot] = set()  # its commit was sent, and never answered
        self.values: dict[Spot, bytes] = {}

    # --- producers

    def send(self, lane: str, values: Iterable[bytes]) -> None:
        self.sent.update(dict.fromkeys(values, lane))

    def acknowledge(self, partition: int, base_offset: int, values: Sequence[bytes]) -> None:
        for offset, value in enumerate(values, base_offset):
            before = self.acknowledged.setdefault((partition, offset), value)
            if before != value:
                raise Violation(f"offset {offset} of {partition} was acknowledged for {before!r} and for {value!r}")

    # --- readers

    def _known(self, spot: Spot, value: bytes) -> None:
        if value not in self.sent:
            raise Violation(f"{spot} holds {value!r}, which nobody sent")
        before = self.values.setdefault(spot, value)
        promised = self.acknowledged.get(spot, value)
        if value not in (before,) or promised != value:
            raise Violation(f"{spot} holds {value!r}, {before!r} was read and {promised!r} acknowledged")

    def base_read(self, partition: int, offsets: range, found: dict[int, bytes]) -> None:
        """A reader of the base group has passed these offsets, and saw `found`."""
        for offset, value in found.items():
            self._known((partition, offset), value)
        for offset in offsets:
            spot = partition, offset
            if self.base.setdefault(spot, offset in found) != (offset in found):
                raise Violation(f"{spot} was seen by one reader of the base group and not by another one")
            if offset in found and spot in self.given:
                raise Violation(f"{spot} was seen by the base group, and by the lane {self.given[spot]}")

    def lane_read(self, lane: str, partition: int, found: dict[int, bytes]) -> None:
        """A member of a lane's group saw these records."""
        for offset, value in found.items():
            spot = partition, offset
            self._known(spot, value)
            if self.sent[value] != lane:
                raise Violation(f"{spot} is of the lane {self.sent[value]!r}, and was seen by {lane}")
            self.given[spot] = lane
            if self.base.get(spot):
                raise Violation(f"{spot} was seen by the base group, and by the lane {lane}")

    def committing(self, spots: Iterable[Spot]) -> None:
        self.perhaps.update(spots)

    def refused(self, spots: Iterable[Spot], doubted: set[Spot]) -> None:
        """The commit was refused for good. `doubted`: of which an earlier try may have been taken."""
        self.perhaps -= set(spots) - doubted

    def committed(self, member: str, spots: Iterable[Spot]) -> None:
        for spot in spots:
            before = self.done.setdefault(spot, member)
            if before != member:
                raise Violation(f"{spot} was done by {before} and by {member}")
            self._check_copy(spot)

    def copy(self, spot: Spot, value: bytes) -> None:
        """The topic of copies has a copy of what is there, at another place than any before."""
        self._known(spot, value)
        if spot in self.copies:
            raise Violation(f"{spot} has two copies")
        self.copies[spot] = value
        if self.base.get(spot):
            raise Violation(f"{spot} was seen by the base group, and has a copy")
        self._check_copy(spot)

    def _check_copy(self, spot: Spot) -> None:
        if spot in self.copies and spot in self.done:
            raise Violation(f"{spot} was done by {self.done[spot]}, and has a copy")

    # --- the end

    def missing(self) -> list[Spot]:
        """Acknowledged records that nobody has, as far as is known."""
        return [
            spot
            for spot in self.acknowledged
            if not self.base.get(spot)
            and spot not in self.copies
            and spot not in self.done
            and spot not in self.perhaps
        ]

    def check_final(self, logs: dict[int, dict[int, bytes]]) -> None:
        """`logs`: all records of each partition, as a client without a mark reads them."""
        there = {(number, offset): value for number, log in logs.items() for offset, value in log.items()}
        for spot, value in there.items():
            self._known(spot, value)
            is_seen = bool(self.base.get(spot))
            if not self.sent[value] and not is_seen:
                raise Violation(f"{spot} has no lane, and the base group did not see it")
            if is_seen + (spot in self.copies) + (spot in self.done) > 1:
                raise Violation(f"{spot} was seen twice")
            if not (is_seen or spot in self.copies or spot in self.done or spot in self.perhaps):
                raise Violation(f"{spot} of the lane {self.sent[value]} was seen by nobody")
        for seen in (self.acknowledged, self.values):
            if gone := [spot for spot in seen if spot not in there]:
                raise Violation(f"{gone[:5]} are not there any more")

    def counts(self) -> Counter[str]:
        return Counter(base=sum(self.base.values()), lanes=len(self.done), copies=len(self.copies))
