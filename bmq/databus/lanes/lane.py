"""A lane: a thread that reads a spool in order and commits its records in transactions, each of them once.

Whatever fails, the lane starts again from the position that the cluster keeps: a transaction of unknown outcome is decided
by then. A thread reads, and a process produces (producer_process): librdkafka's transactional calls block, and what they take of the
interpreter the event loop would miss.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from random import Random
from typing import Final, Protocol

import structlog

from bmq.aio.backoff import Backoff
from bmq.databus.lanes.transactions import SendFailed, TopicsRefused, Transactions
from bmq.databus.spool.errors import SpoolUnusable, SpoolWriteFailed
from bmq.databus.spool.frame import SpooledRecord
from bmq.databus.spool.loop_pauses import LoopPauses
from bmq.databus.spool.reader import SpoolReader
from bmq.databus.spool.spool import Spool
from bmq.dataclass import dataclass

_log = structlog.get_logger("bmq.databus")

BACKOFF_S_MIN: Final = 0.1
BACKOFF_S_MAX: Final = 3.0
READ_S: Final = 0.01
"""Between two looks for further records of a transaction."""


@dataclass(slots=True)
class LaneLimits:
    """Of one transaction. Read anew for each, so they may change. `linger_s`: it waits this long for more records.

    `batch_bytes`: of the largest batch in it.
    """

    linger_s: float = 0.1
    batch_bytes: int = 1 << 20
    transaction_bytes: int = 8 << 20
    transaction_records: int = 50_000


class Refusals(Protocol):
    """What becomes of records that the cluster does not take."""

    def to_send(self, records: Sequence[SpooledRecord]) -> Sequence[SpooledRecord]:
        """The records that are sent; the others are kept elsewhere when this returns. Raises SpoolWriteFailed."""
        ...

    def refused(self, error: TopicsRefused, count: int, first: SpooledRecord | None) -> float:
        """A transaction of so many records was refused. Returns how long to wait before they are read again, in seconds.

        Raises SpoolWriteFailed."""
        ...

    def committed(self, position: int) -> None: ...


@dataclass(slots=True)
class _Gathered:
    """The records of a transaction. `read`: how many were read, `sent`: how many of them are in it, `counts`: by channel.

    `asked_to`: the last look was for records below this number.
    """

    read: int = 0
    asked_to: int = 0
    sent: int = 0
    first: SpooledRecord | None = None
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, read: int, sent: Sequence[SpooledRecord]) -> None:
        if sent and self.first is None:
            self.first = sent[0]
        self.read += read
        self.sent += len(sent)
        self.counts.update(record.channel for record in sent)


class Lane:
    """`next_number`: of the next record, used by the intake. `produced`: records by channel, written by the thread."""

    def __init__(
        self,
        name: str,
        spool: Spool,
        transactions: Transactions,
        refusals: Refusals,
        limits: LaneLimits,
    ) -> None:
        self.name = name
        self.spool = spool
        self.limits = limits
        self.next_number = 0
        self.trouble = "not started"
        """Why the lane does not produce; empty: it does."""
        self.committed_transactions = 0
        self.produced: dict[str, int] = {}
        self._transactions, self._refusals = transactions, refusals
        self._reader = SpoolReader(spool, self._on_damage, LoopPauses(lambda: spool.appended_bytes).pause)
        self._busy = (0, 0)
        self._changed = threading.Condition()
        self._is_idle = False
        self._is_stopping = False
        self._is_urgent = False
        self._dice = Random(name)
        self._thread = threading.Thread(target=self._run, name=f"databus-{name}", daemon=True)

    # --- for other threads

    def start(self) -> None:
        self._thread.start()

    def busy(self) -> tuple[int, int]:
        """Numbers of the records that a transaction may have: from the first to behind the last."""
        return self._busy

    def notify(self) -> None:
        """Costs little while the lane needs no waking."""
        if self._is_idle:
            with self._changed:
                self._changed.notify_all()

    @property
    def is_empty(self) -> bool:
        """Whether all records are committed."""
        return self.spool.position > self.spool.last

    def hurry(self) -> None:
        """Wait no more for further records, or before a new try."""
        with self._changed:
            self._is_urgent = True
            self._changed.notify_all()

    def stop(self) -> None:
        """After the present transaction."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def join(self, timeout_s: float) -> bool:
        """Whether the thread ended in time."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # --- the thread

    def _run(self) -> None:
        backoff = Backoff(self._dice, first_s=BACKOFF_S_MIN, max_s=BACKOFF_S_MAX)
        while not self._is_stopping:
            before = self.committed_transactions
            pause_s = 0.0
            try:
                self._produce_on()
            except TopicsRefused as error:
                self.trouble = str(error)
                _log.warning("databus_topic_refused", lane=self.name, reason=str(error))
            except (SendFailed, SpoolWriteFailed, SpoolUnusable) as error:
                pause_s = backoff.next_s()
                self._note_trouble(str(error))
            except OSError as error:
                pause_s = backoff.next_s()
                self._note_trouble(f"the spool {self.spool.directory} cannot be used: {error.strerror}")
            finally:
                self._transactions.close()
            if self.committed_transactions > before:
                backoff.reset()
            self._pause(pause_s)
        self._transactions.end()
        self._reader.close()

    def _produce_on(self) -> None:
        """From the kept position on, until stopped or changed. Raises SendFailed, TopicsRefused, SpoolWriteFailed, OSError."""
        batch_bytes = self.limits.batch_bytes
        position = max(self._transactions.start(batch_bytes), self.spool.position)
        self.spool.release(position)
        self._reader.seek(position)
        if self.trouble:
            _log.info("databus_lane_produces", lane=self.name, position=position, last=self.spool.last)
        self.trouble = ""
        while self._has_records():
            gathered = self._gathered(position)
            if self._is_stopping:
                return
            # Without records the rest of the files is damaged, was deleted by hand, or made room: the position passes it.
            if not gathered.read:
                self._reader.next_number = max(self._reader.next_number, gathered.asked_to)
            self._busy = (position, self._reader.next_number)
            position = self._reader.next_number
            self._commit(gathered, position)
            self._busy = (position, position)
            if batch_bytes != self.limits.batch_bytes:
                return  # to a producer with the new size

    def _commit(self, gathered: _Gathered, position: int) -> None:
        try:
            self._transactions.commit(position)
        except TopicsRefused as error:
            pause_s = self._refusals.refused(error, gathered.sent, gathered.first)
            self.trouble = str(error)
            self._transactions.close()
            self._pause(pause_s)
            raise
        self.spool.release(position)
        self.committed_transactions += 1
        self._refusals.committed(position)
        for channel, count in gathered.counts.items():
            self.produced[channel] = self.produced.get(channel, 0) + count

    def _has_records(self) -> bool:
        """Waits for records. False: the lane is to stop."""
        following = self._reader.next_number
        with self._changed:
            self._is_idle = True
            self._changed.wait_for(lambda: self._is_stopping or self.spool.last >= following)
            self._is_idle = False
            return not self._is_stopping

    def _gathered(self, position: int) -> _Gathered:
        """The records of a transaction: those that are there, and those that come within its linger.

        They are read and handed over as they come: the event loop has no pause as long as all of them together.
        """
        limits = self.limits
        gathered = _Gathered()
        bytes_left = limits.transaction_bytes
        until_s = time.monotonic() + limits.linger_s
        while True:
            gathered.asked_to = self.spool.last + 1
            self._busy = (position, gathered.asked_to)
            records = self._reader.read(bytes_left, limits.transaction_records - gathered.read)
            self._busy = (position, self._reader.next_number)
            if records:
                bytes_left -= sum(len(record.frame) for record in records)
                sent = self._refusals.to_send(records)
                gathered.add(len(records), sent)
                self._transactions.add(sent)
            left_s = until_s - time.monotonic()
            if bytes_left <= 0 or gathered.read >= limits.transaction_records or left_s <= 0:
                return gathered
            with self._changed:
                is_over = self._changed.wait_for(lambda: self._is_stopping or self._is_urgent, min(READ_S, left_s))
            if is_over:
                return gathered

    def _pause(self, pause_s: float) -> None:
        if pause_s > 0:
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopping, pause_s)

    def _note_trouble(self, trouble: str) -> None:
        """One line for each new reason, not for each try."""
        if trouble != self.trouble:
            _log.warning("databus_lane_waits", lane=self.name, reason=trouble)
        self.trouble = trouble

    def _on_damage(self, sentence: str) -> None:
        _log.error("databus_spool_damaged", lane=self.name, reason=sentence)
