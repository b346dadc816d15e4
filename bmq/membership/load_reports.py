"""A node's reports to the controller on the partitions it owns: changed high watermarks (rule 5) and load."""

from __future__ import annotations

from collections.abc import Sequence

from bmq.broker.manager import PartitionManager
from bmq.broker.partition_states import Offline
from bmq.broker.runtime import PartitionRuntime
from bmq.controller.partition_reports import FENCED, OFFLINE, UNKNOWN
from bmq.protocol.internal_messages import PartitionReport

_Figures = tuple[int, int, int, int]  # high watermark, bytes in, bytes out, requests


class LoadReports:
    """`changed` makes a report, `confirm` says that it arrived; unconfirmed changes are added up in the next one."""

    def __init__(self, manager: PartitionManager) -> None:
        self._manager = manager
        self._confirmed: dict[PartitionRuntime, _Figures] = {}
        self._reported: dict[PartitionRuntime, _Figures] = {}

    def changed(self) -> Sequence[PartitionReport]:
        """Partitions whose figures differ from those confirmed."""
        reports = []
        self._reported = {}
        for runtime in self._manager.owned():
            load = runtime.load
            now = (runtime.high_watermark, load.bytes_in, load.bytes_out, load.requests)
            confirmed = self._confirmed.get(runtime, (-1, 0, 0, 0))
            if now == confirmed:
                continue
            self._reported[runtime] = now
            reports.append(
                PartitionReport(
                    topic_id=runtime.topic_partition.topic_id,
                    partition=runtime.topic_partition.partition,
                    leader_epoch=runtime.leader_epoch,
                    high_watermark=now[0],
                    bytes_in=now[1] - confirmed[1],
                    bytes_out=now[2] - confirmed[2],
                    requests=now[3] - confirmed[3],
                )
            )
        # Repeat these in every report: until somebody acts on it, the partition is not served.
        for runtime in self._manager.unserved():
            is_offline = isinstance(runtime.state, Offline)
            reports.append(
                PartitionReport(
                    topic_id=runtime.topic_partition.topic_id,
                    partition=runtime.topic_partition.partition,
                    leader_epoch=runtime.leader_epoch,
                    high_watermark=OFFLINE if is_offline else FENCED,
                )
            )
        return reports

    def restart(self) -> None:
        """Another controller is active and has no reports yet: report every high watermark again (rule 5)."""
        self._confirmed = {runtime: (UNKNOWN, *confirmed[1:]) for runtime, confirmed in self._confirmed.items()}
        self._reported = {}

    def confirm(self) -> None:
        """The controller has received the last report."""
        self._confirmed.update(self._reported)
        self._reported = {}
        owned = set(self._manager.owned())
        for runtime in [runtime for runtime in self._confirmed if runtime not in owned]:
            del self._confirmed[runtime]
