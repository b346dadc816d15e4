"""Serves the metadata log to the nodes: a snapshot first, then record batches as they come, by long poll.

Nothing at or above the high watermark is sent (rule 17). Every answer carries the controller's epoch, and receivers reject
a lower one than they have seen; so a request that has seen a higher one tells us that we are not the controller any more.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from bmq.controller.config import ControllerConfig
from bmq.controller.decision_log import ControllerGone, DecisionLog
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.internal_messages import MetadataFetchRequest, MetadataFetchResponse
from bmq.protocol.record_batch import batches

_log = structlog.get_logger("bmq.controller")

_PAUSE_S: Final = 0.02

NOTHING: Final = -1
"""The offset of a node that has no metadata yet."""


class MetadataStream:
    """Answers metadata fetches at the active controller of this epoch. `close` answers all waiting fetches."""

    def __init__(self, decisions: DecisionLog, controller_id: int, epoch: int, config: ControllerConfig) -> None:
        self.newer_epoch = -1  # the highest epoch above ours that a node has seen
        self._decisions = decisions
        self._controller_id = controller_id
        self._epoch = epoch
        self._config = config
        self._waiting: dict[asyncio.Future[None], None] = {}  # in the order they came
        self._is_closed = False
        self._snapshot: tuple[int, bytes] | None = None

    async def fetch(self, request: MetadataFetchRequest) -> MetadataFetchResponse:
        """The records from the given offset on; empty if none came within `max_wait_ms`.

        NOT_CONTROLLER, REQUEST_TIMED_OUT (too many wait) and storage errors are in the response.
        """
        response = MetadataFetchResponse(controller_id=self._controller_id, controller_epoch=self._epoch)
        try:
            self._require_leadership(request)
            await self._fill(request, response)
        except BmqError as error:
            response.error_code, response.error_message = error.code, str(error)
            response.is_snapshot, response.data, response.end_offset = False, b"", -1
        return response

    def close(self) -> None:
        self._is_closed = True
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    def _require_leadership(self, request: MetadataFetchRequest) -> None:
        if request.controller_epoch > self._epoch:
            self.newer_epoch = max(self.newer_epoch, request.controller_epoch)
            if not self._decisions.gone.is_set():
                _log.error(
                    "controller_deposed",
                    epoch=self._epoch,
                    newer_epoch=request.controller_epoch,
                    reported_by=request.node_id,
                )
                self._decisions.gone.set()
        self._decisions.require_active()

    async def _fill(self, request: MetadataFetchRequest, response: MetadataFetchResponse) -> None:
        log = self._decisions.log
        offset = request.offset
        if self._is_other_history(request):
            # The node has records that were never in this log, or no longer are: it must not continue from there.
            _log.error(
                "node_is_ahead_of_the_metadata_log",
                node_id=request.node_id,
                offset=offset,
                offset_epoch=request.offset_epoch,
                log_end_offset=log.log_end_offset,
            )
            offset = NOTHING
        elif self._decisions.has_gap and 0 <= request.offset_epoch < self._epoch:
            offset = NOTHING  # the node's state may include records whose loss an operator has accepted here
        if offset >= max(log.log_start_offset, 0):
            if offset >= log.high_watermark:
                await self._until_more(offset, request.max_wait_ms)
                if self._is_closed:
                    raise ControllerGone
                self._decisions.require_active()
            response.end_offset = offset
            if offset >= log.high_watermark:
                return
            size = min(max(request.bytes_max, 1), self._config.metadata_fetch_bytes_max)
            try:
                chunk = await log.read(offset, size)
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise  # otherwise the records were dropped meanwhile, and a snapshot replaces them
            else:
                if chunk is not None:
                    response.data = chunk.data
                    for _, header in batches(chunk.data):
                        response.end_offset = max(response.end_offset, header.end_offset)
                return
        response.end_offset, response.data = self._encoded_state()
        response.is_snapshot = True

    def _is_other_history(self, request: MetadataFetchRequest) -> bool:
        """Whether the node has records this log lacks: past its end, or past the end of the epoch they came from."""
        log = self._decisions.log
        _, end_offset = log.epoch_end_offset(request.offset_epoch)
        return request.offset > (log.log_end_offset if end_offset < 0 else end_offset)

    async def _until_more(self, offset: int, max_wait_ms: int) -> None:
        if max_wait_ms <= 0:
            return
        if len(self._waiting) >= self._config.metadata_fetches_max:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too many nodes wait for metadata")
        loop = asyncio.get_running_loop()
        log = self._decisions.log
        end_s = loop.time() + min(max_wait_ms, self._config.metadata_fetch_wait_max_ms) / 1000
        while log.high_watermark <= offset and self._is_open and loop.time() < end_s:
            waiting: asyncio.Future[None] = loop.create_future()
            self._waiting[waiting] = None
            withdraw = log.on_advance(lambda waiting=waiting: waiting.done() or waiting.set_result(None))  # type: ignore[misc]
            try:
                await asyncio.wait({waiting}, timeout=end_s - loop.time())
            finally:
                withdraw()
                self._waiting.pop(waiting, None)
            if log.high_watermark <= offset:
                # A log that has ended wakes us at once every time, so pause instead of spinning until we are closed.
                await asyncio.sleep(min(_PAUSE_S, max(end_s - loop.time(), 0)))

    @property
    def _is_open(self) -> bool:
        return self._decisions.is_active and not self._is_closed

    def _encoded_state(self) -> tuple[int, bytes]:
        """(offset, the state at that offset); reuses a recent snapshot while the log still has the records after it."""
        applied = self._decisions.applied_offset
        if self._snapshot is not None:
            offset, _ = self._snapshot
            is_young = applied - offset <= self._config.snapshot_age_records_max
            if is_young and offset >= self._decisions.log.log_start_offset:
                return self._snapshot
        self._snapshot = (applied, self._decisions.state.snapshot())
        return self._snapshot
