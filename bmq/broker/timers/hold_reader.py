"""Reads the bodies of held records from their partition's log: those due now and those due soon in one pass, in log order.

Records with neighbouring due times may lie in different holds (announcements of held records). So bodies that were read stay in
memory until they are delivered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bmq.aio.loop_turns import Turns
from bmq.log.partition_log import WholeBatches
from bmq.log.store import CorruptFile, StoreError
from bmq.log.timers.announcements import Held, parse_announcement
from bmq.log.timers.due_bodies import DueBodies, DueDraft, NotHeld
from bmq.log.timers.due_order import DueOrder
from bmq.log.timers.waiting_records import Pending
from bmq.protocol.compression import Buffer
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import batches

READ_BYTES: Final = 256 * 1024
"""Bytes of one read of the log when more than one hold is wanted: mostly it brings the next holds too."""
ONE_READ_BYTES: Final = 64 * 1024
AHEAD_MS: Final = 500
"""Records due within this time are read together with those due now, from the log and from runs."""
AHEAD_RECORDS_MAX: Final = 10_000
BYTES_MAX: Final = 4 * 1024 * 1024
"""Most bytes of bodies in memory. Above it, bodies of records that are due now are still read, up to MORE_BYTES_MAX."""
MORE_BYTES_MAX: Final = 1024 * 1024


class _Unread(Exception):
    """The hold at `hold_offset` could not be read; the error is this exception's cause."""

    def __init__(self, hold_offset: int) -> None:
        super().__init__()
        self.hold_offset = hold_offset


class HoldReader:
    """Fills `bodies` with what the next deliveries need.

    `read` reads batches as ReplayableLog.read does. `turns` lets other work run after each read: it holds the event loop for some
    milliseconds at most.
    """

    def __init__(
        self,
        read: Callable[[int, int], Awaitable[WholeBatches | None]],
        order: DueOrder,
        bodies: DueBodies,
        turns: Turns,
    ) -> None:
        self._read = read
        self._order = order
        self._bodies = bodies
        self._turns = turns

    async def gather(self, due: Sequence[Pending], now_ms: int) -> None:
        """Read the bodies of the `due` held records and the next ones, at least the first body. Raises BmqError, StoreError."""
        bodies, order = self._bodies, self._order
        missing = [record for record in due if record.offset not in bodies and not order.is_kept(record)]
        if not missing:
            return
        bytes_max = max(BYTES_MAX - bodies.size_bytes, MORE_BYTES_MAX)
        draft, pages = DueDraft(bytes_max), [missing]
        draft.want(missing)
        for page in order.upcoming(now_ms + AHEAD_MS, AHEAD_RECORDS_MAX):
            pages.append([record for record in page if record.offset not in bodies])
            draft.want(pages[-1])
            await self._turns.next()
        while True:
            try:
                await self._gather(draft)
            except _Unread as error:
                # Records before the unreadable hold's first record can still be delivered.
                first = draft.first_of(error.hold_offset)
                pages = [[record for record in page if record.position < first] for page in pages]
                if not any(pages):
                    if missing[0] is not due[0]:
                        return  # `due` begins with records whose bodies are in memory
                    assert error.__cause__ is not None
                    raise error.__cause__ from None
                draft = DueDraft(bytes_max)
                for page in pages:
                    draft.want(page)
                continue
            bodies.add(*draft.finish())
            return

    async def _gather(self, draft: DueDraft) -> None:
        """Read all holds that the draft wants, in the order of the log. Raises _Unread."""
        hold_offsets, place = draft.hold_offsets, 0
        while place < len(hold_offsets):
            if draft.is_behind(hold_offsets[place]):
                place += 1
                continue
            length_bytes = READ_BYTES if place + 1 < len(hold_offsets) else ONE_READ_BYTES
            try:
                chunk = await self._read(hold_offsets[place], length_bytes)
                place = _added(draft, b"" if chunk is None else chunk.data, hold_offsets, place)
            except (BmqError, StoreError) as error:
                raise _Unread(hold_offsets[place]) from error
            await self._turns.next()


def _added(draft: DueDraft, data: Buffer, hold_offsets: Sequence[int], place: int) -> int:
    """Add the wanted records of these batches to the draft. `place`: index of the first hold in `hold_offsets` to look for.

    Returns the index of the next hold to read. Raises _Unread.
    """
    first = place
    for position, header in batches(data):
        if place == len(hold_offsets) or hold_offsets[place] < header.base_offset:
            break
        if hold_offsets[place] > header.base_offset:
            continue
        try:
            is_ours = header.is_control and not header.has_producer_id
            announcement = parse_announcement(data, position) if is_ours else None
            if not isinstance(announcement, Held):
                break
            draft.add(announcement, header.base_offset)
        except NotHeld as error:
            raise _Unread(header.base_offset) from CorruptFile(str(error))
        except BmqError as error:
            raise _Unread(header.base_offset) from error
        place += 1
    if place == first:
        raise _Unread(hold_offsets[place]) from CorruptFile(
            f"no delayed records are held at offset {hold_offsets[place]}"
        )
    return place
