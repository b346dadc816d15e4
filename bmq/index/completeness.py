"""Up to which offsets an answer is complete, and what of the topic has to be read beside the index for that. Decisions only.

Of each partition the index has the records before `indexed_to`. The rest, up to the end of the log, is the tail: it is read from
the topic, as far as bounds on bytes and time allow. What is below the log's start was deleted and is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping

from bmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition when the query began. `end`: the next offset of readers of committed records."""

    partition: int
    log_start: int
    indexed_to: int
    end: int

    @property
    def tail_start(self) -> int:
        """The first offset that only the topic has."""
        return max(self.indexed_to, self.log_start)


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """An answer has what matches from `log_start` on and before `complete_to`; `end` is where the log ended."""

    partition: int
    log_start: int
    indexed_to: int
    complete_to: int
    end: int

    @property
    def is_complete(self) -> bool:
        return self.complete_to >= self.end


def partition_states(
    log_starts: Mapping[int, int], ends: Mapping[int, int], indexed: Mapping[int, int]
) -> tuple[PartitionState, ...]:
    """By partition. A partition that was added later is not indexed yet."""
    return tuple(
        PartitionState(
            partition, log_starts[partition], indexed.get(partition, 0), max(ends[partition], log_starts[partition])
        )
        for partition in sorted(ends)
    )


def tail_ranges(states: tuple[PartitionState, ...], pinned: Mapping[int, int] | None) -> dict[int, tuple[int, int]]:
    """What has to be read of the topic: by partition the first offset, and the one behind the last.

    `pinned`: where the first page of the query ended, which later pages do not go beyond; None: this is the first page.
    """
    found = {}
    for state in states:
        end = state.end if pinned is None else min(pinned.get(state.partition, 0), state.end)
        if state.tail_start < end:
            found[state.partition] = (state.tail_start, end)
    return found


def partition_answers(
    states: tuple[PartitionState, ...], reached: Mapping[int, int], pinned: Mapping[int, int] | None
) -> tuple[PartitionAnswer, ...]:
    """`reached`: of each partition with a tail, the first offset that was not read."""
    found = []
    for state in states:
        complete_to = reached.get(state.partition, state.tail_start)
        if pinned is not None:
            complete_to = min(complete_to, pinned.get(state.partition, 0))
        found.append(
            PartitionAnswer(
                state.partition, state.log_start, state.indexed_to, complete_to, max(state.end, complete_to)
            )
        )
    return tuple(found)
