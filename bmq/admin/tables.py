"""Tables made of topics: operators' orders and jobs' reports. The controller decides on changes."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import structlog

from bmq.admin.operations import NotActiveController
from bmq.admin.ports import TableController
from bmq.controller.decision import Decision
from bmq.controller.tables import (
    TableChange,
    decide_alter_table,
    decide_create_table,
    decide_drop_table,
    find_table,
)
from bmq.dataclass import dataclass
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import MetadataImage
from bmq.table_definitions.definition import TableDefinition
from bmq.table_definitions.progress import PartitionLag, Progress, Reports, lags, silent_s
from bmq.table_definitions.stored import StoredTable

_log = structlog.get_logger("bmq.admin")


@dataclass(frozen=True, slots=True)
class TableStatus:
    """`report` came at `reported_at_ms`; both are None while no job has reported to this controller.

    `has_topic`: whether the topic that the table was made of is still there. `lags`: empty without it. `silent_s`: how
    long a running job has not reported, once that is too long.
    """

    table: StoredTable
    has_topic: bool
    lags: tuple[PartitionLag, ...]
    reported_at_ms: int | None = None
    report: Progress | None = None
    silent_s: int | None = None


class Tables:
    """One in each process that may become the active controller. `controller()`: the active one if it is here.

    `high_watermark`: of a partition that this process owns or follows, newer than its owner's report; else None.
    """

    def __init__(
        self,
        controller: Callable[[], TableController | None],
        high_watermark: Callable[[TopicPartition], int | None],
    ) -> None:
        self._controller = controller
        self._high_watermark = high_watermark
        self._reports = Reports()
        self._reported_to: TableController | None = None

    @property
    def is_active(self) -> bool:
        return self._controller() is not None

    async def create(self, definition: TableDefinition, *, is_dry_run: bool = False) -> TableChange:
        """Raises NotActiveController, TableRefused, UnreadableTable, InvalidDefinition, KafkaError."""

        def decide(image: MetadataImage, new_id: UUID, now_ms: int) -> Decision[TableChange]:
            return decide_create_table(image, definition, new_id, now_ms)

        return await self._changed(decide, is_dry_run)

    async def alter(self, name: str, definition: TableDefinition, *, is_dry_run: bool = False) -> TableChange:
        """Raises NotActiveController, UnknownTable, TableRefused, AlterationRefused and what `create` raises."""

        def decide(image: MetadataImage, new_id: UUID, now_ms: int) -> Decision[TableChange]:
            return decide_alter_table(image, name, definition, now_ms)

        return await self._changed(decide, is_dry_run)

    async def drop(self, name: str, *, is_dry_run: bool = False) -> str:
        """Drop a table; one sentence says what was done. Raises NotActiveController, UnknownTable, KafkaError."""

        def decide(image: MetadataImage, new_id: UUID, now_ms: int) -> Decision[str]:
            return decide_drop_table(image, name)

        controller = self._active()
        if is_dry_run:
            return decide_drop_table(controller.image, name).response
        sentence = await controller.decide_with_id(decide)
        _log.info("table_dropped", table=name)
        return sentence

    def report(self, name: str, report: Progress) -> TableStatus:
        """Take a job's progress. Raises NotActiveController, UnknownTable, UnreadableTable, ReportRefused."""
        controller = self._active()
        self._present_reports(controller).take(find_table(controller.image, name), report, controller.now_ms())
        return self.status(name)

    def status(self, name: str) -> TableStatus:
        """Raises NotActiveController, UnknownTable, UnreadableTable."""
        controller = self._active()
        table = find_table(controller.image, name)
        known = self._present_reports(controller).of(table)
        reported_at_ms, report = (None, None) if known is None else known
        silence_s = silent_s(report, reported_at_ms, controller.now_ms())
        topic = controller.image.topics_by_id.get(table.topic_id)
        if topic is None:
            return TableStatus(table, False, (), reported_at_ms, report, silence_s)
        # The offsets of a view are those of its base, whose owners report them.
        ends = [self._end_offset(controller, topic.log_id, each.partition) for each in topic.partitions]
        return TableStatus(table, True, lags(ends, report), reported_at_ms, report, silence_s)

    async def _changed(
        self, decide: Callable[[MetadataImage, UUID, int], Decision[TableChange]], is_dry_run: bool
    ) -> TableChange:
        controller = self._active()
        if is_dry_run:
            return decide(controller.image, UUID(int=0), controller.now_ms()).response
        change = await controller.decide_with_id(decide)
        if change.is_new or change.changes:
            _log.info("table_changed", table=change.table.definition.name, version=change.table.version)
        return change

    def _end_offset(self, controller: TableController, topic_id: UUID, number: int) -> int:
        here = self._high_watermark(TopicPartition(topic_id, number))
        return max(controller.end_offset(topic_id, number), here or 0)

    def _active(self) -> TableController:
        controller = self._controller()
        if controller is None:
            raise NotActiveController
        return controller

    def _present_reports(self, controller: TableController) -> Reports:
        """Reports to this controller only: those to an earlier one here may be older than reports made elsewhere."""
        if controller is not self._reported_to:
            self._reports, self._reported_to = Reports(), controller
        self._reports.keep(controller.image.tables)
        return self._reports
