"""What readers of a topic's views saw, and the rules it must obey: each view shows the records that pass, and no other.

A reader of a view passes offsets, and is given the records of some of them. Once one has passed an offset, each one sees the same
there, however often it is read, from whichever owner, through whichever proxy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from tests.simulation.history import Violation

Passes = Callable[[str], bool]
"""Whether a view shows records of this lane; empty: of none."""


class ViewHistory:
    """`views`: what each view shows, by its name."""

    def __init__(self, views: Mapping[str, Passes]) -> None:
        self.views = views
        self.sent: dict[bytes, str] = {}  # value -> lane, empty for none
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.passed: dict[str, dict[tuple[int, int], bytes | None]] = {view: {} for view in views}

    # --- producers

    def send(self, lane: str, values: Iterable[bytes]) -> None:
        self.sent.update(dict.fromkeys(values, lane))

    def acknowledge(self, partition: int, base_offset: int, values: Sequence[bytes]) -> None:
        for offset, value in enumerate(values, base_offset):
            before = self.acknowledged.setdefault((partition, offset), value)
            if before != value:
                raise Violation(f"offset {offset} of {partition} was acknowledged for {before!r} and for {value!r}")

    # --- readers

    def read(self, view: str, partition: int, offsets: range, found: dict[int, bytes]) -> None:
        """A reader of the view has passed these offsets, and was given `found`."""
        if outside := [offset for offset in found if offset not in offsets]:
            raise Violation(f"{view} gave {outside} of {partition}, and moved from {offsets.start} to {offsets.stop}")
        for offset in offsets:
            spot, value = (partition, offset), found.get(offset)
            if value is not None and value not in self.sent:
                raise Violation(f"{view} has {value[:30]!r} at {spot}, which was never sent")
            if value is not None and not self.views[view](self.sent[value]):
                raise Violation(f"{view} shows a record of the lane {self.sent[value]!r} at {spot}")
            before = self.passed[view].setdefault(spot, value)
            if before != value:
                raise Violation(f"{view} has {before and before[:30]!r} at {spot}, and then {value and value[:30]!r}")

    # --- the end

    def behind(self, ends: Mapping[int, int]) -> list[str]:
        """Views of which no reader has passed everything below the partitions' ends."""
        return [
            view
            for view, passed in self.passed.items()
            if any((partition, end - 1) not in passed for partition, end in ends.items() if end)
        ]

    def check_final(self, logs: Mapping[int, Mapping[int, bytes]]) -> None:
        """`logs`: all records of each partition, as a reader of the topic has them."""
        there = {(number, offset): value for number, log in logs.items() for offset, value in log.items()}
        if gone := [spot for spot, value in self.acknowledged.items() if there.get(spot) != value]:
            raise Violation(f"{gone[:5]} are not there any more")
        for view, passed in self.passed.items():
            for spot, value in there.items():
                wanted = value if self.views[view](self.sent[value]) else None
                if spot not in passed or passed[spot] != wanted:
                    raise Violation(f"{view} has {passed.get(spot)!r} at {spot}, where {value[:30]!r} is")
            if more := [spot for spot, value in passed.items() if value is not None and spot not in there]:
                raise Violation(f"{view} shows {more[:5]}, where the topic has nothing")

    def counts(self) -> Counter[str]:
        shown = sum(value is not None for passed in self.passed.values() for value in passed.values())
        return Counter(shown=shown, left_out=sum(map(len, self.passed.values())) - shown)
