"""A cluster whose topic's small segments are merged under transactional and plain producers, and under readers of all kinds.

Segments are closed after a moment without writes, and with each takeover, so there are many small ones. Owners die, hang and move
in the middle of merges, which are slow and interrupted; records are deleted by their offset and by their age. Nothing else may
ever be missing: readers find each offset that was there once, in order and without a gap, all the time and at the end.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

from bmq.broker.runtime import PartitionRuntime
from bmq.log.config import LogConfig
from bmq.log.names import MERGED_ROLL_MIN
from tests.simulation.clients import Client, Unhappy
from tests.simulation.committed_reads import end_offset
from tests.simulation.compaction import PLACES, Compaction, CompactionKind
from tests.simulation.compaction_history import CompactionHistory, Written
from tests.simulation.fault_rates import FaultRates
from tests.simulation.history import Violation
from tests.simulation.transaction_history import Place


@dataclasses.dataclass(frozen=True, slots=True)
class MergingKind:
    """What a seed's segments and merges are like."""

    idle_close_ms: int
    merge_max_bytes: int
    merge_min_count: int
    merge_lag_ms: int
    segment_bytes: int

    @classmethod
    def of(cls, dice: random.Random) -> MergingKind:
        return cls(
            idle_close_ms=dice.choice((20, 60, 150)),
            merge_max_bytes=dice.choice((3_000, 20_000, 1_000_000)),
            merge_min_count=dice.choice((2, 2, 3)),
            merge_lag_ms=dice.choice((0, 200, 800)),
            segment_bytes=dice.choice((6_000, 100_000)),
        )


class MergingHistory(CompactionHistory):
    """Nothing goes but what was deleted, or is too old: the newest record of a key makes no older one superfluous."""

    has_gaps = False

    def _expect_gone(self, place: Place, offset: int) -> None:
        raise Violation(f"{self._at[place, offset]!r} at {offset} of {place} is gone")

    def _is_superseded(self, written: Written, offset: int) -> bool:
        return False

    def check_compacted(
        self,
        everything: Mapping[Place, Sequence[tuple[int, bytes]]],
        committed: Mapping[Place, Sequence[tuple[int, bytes]]],
        logs: Mapping[Place, tuple[int, int]],
    ) -> None:
        """As CompactionHistory.check_compacted; and whatever was there once is there."""
        super().check_compacted(everything, committed, logs)
        for place, records in everything.items():
            found = {offset for offset, _ in records}
            for offset in self.known_between(place, self.starts[place], 2**63 - 1):
                if offset not in found:
                    self._expect_gone(place, offset)


class Merging(Compaction):
    name = "merging"

    def __init__(self, seed: int, rates: FaultRates, is_looking_inside: bool = True) -> None:
        self.merging_kind = MergingKind.of(random.Random(f"{self.name} {seed} merging"))
        super().__init__(seed, rates, is_looking_inside)

    def _compaction_kind(self, dice: random.Random) -> CompactionKind:
        kind = super()._compaction_kind(dice)
        return dataclasses.replace(
            kind,
            policy="delete",
            tombstone_rate=0.0,
            retention_ms=dice.choice((-1, -1, 6_000)),
            segment_bytes=self.merging_kind.segment_bytes,
        )

    def _new_history(self, keys: Sequence[str]) -> CompactionHistory:
        kind = self.compaction_kind
        return MergingHistory(kind.terms(), keys, kind.tombstone_rate, self.loop.time, self._dice("keys"))

    def _log_config(self, config: LogConfig) -> LogConfig:
        if config.is_state_log or "compact" in config.cleanup_policy:
            return super()._log_config(config)
        kind = self.merging_kind
        return dataclasses.replace(
            super()._log_config(config),
            segment_idle_close_ms=kind.idle_close_ms,
            segment_merge_max_bytes=kind.merge_max_bytes,
            segment_merge_min_count=kind.merge_min_count,
            segment_merge_lag_ms=kind.merge_lag_ms,
        )

    def check_now(self) -> None:
        super().check_now()
        if self.rules.is_looking_inside:
            for runtime in self._owners():
                self._check_extents(runtime)

    def _check_extents(self, runtime: PartitionRuntime) -> None:
        """No merged segment is longer than it may be; so readers of other nodes are never told that records were dropped."""
        kind, files = self.merging_kind, runtime.inspect().files
        if files is None or runtime.topic_name != PLACES[0][0]:
            return
        bytes_max = min(kind.merge_max_bytes, kind.segment_bytes)
        for extent in files.extents:
            if extent.roll >= MERGED_ROLL_MIN and extent.length > bytes_max:
                raise Violation(f"a merged segment has {extent.length} bytes, at most {bytes_max} are allowed")
        if runtime.compacted_offset != -1:
            raise Violation(f"{runtime.topic_partition} is said to be compacted below {runtime.compacted_offset}")

    async def _until_at_rest(self, admin: Client, deadline_s: float) -> dict[Place, tuple[int, int]]:
        """(0, first offset) of each log: nothing has to be awaited, because merges change nothing that a reader sees."""

        async def attempt() -> dict[Place, tuple[int, int]]:
            for place in PLACES:
                await end_offset(admin, place, is_stable=False)  # so that each is owned
            found = {PLACES[one.topic_partition.partition]: (0, one.log_start_offset) for one in self._owners()}
            if len(found) < len(PLACES):
                raise Unhappy("a partition has no owner")
            return found

        return await admin.until_done(attempt)
