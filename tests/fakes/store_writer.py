"""The write right over one file of the fake store: appends in flight, and how they fail."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bmq.log.store import (
    Buffer,
    Durability,
    FencedWriter,
    StorageFull,
    StorageUnavailable,
    StoreError,
    WriterBroken,
)
from tests.fakes.namespace import File
from tests.fakes.nodes import NodeState

if TYPE_CHECKING:
    from tests.fakes.store import FakeClient, FakeStore


class AppendFailure(RuntimeError):
    """What an append raised that, by the port, never raises: a bug, or no memory."""


class _Wire:
    """Delivers in the order of sending, each message after its own delay or later."""

    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self._queue: deque[tuple[float, Callable[[], None]]] = deque()

    def send(self, delay_s: float, deliver: Callable[[], None]) -> None:
        self._queue.append((asyncio.get_running_loop().time() + delay_s, deliver))
        if len(self._queue) == 1:
            self._store.after(delay_s, self._fire)

    def _fire(self) -> None:
        if not self._queue:
            return
        _, deliver = self._queue[0]
        deliver()
        self._queue.popleft()
        if self._queue:
            self._store.after(self._queue[0][0] - asyncio.get_running_loop().time(), self._fire)


class FakeWriter:
    """Implements bmq.log.store.SegmentWriter. A *ghost* has lost its block and does not know: its appends go nowhere."""

    def __init__(
        self,
        store: FakeStore,
        client: FakeClient,
        file: File,
        path: str,
        durability: Durability,
        nodes: list[str],
        *,
        is_ghost: bool,
    ) -> None:
        self.path = path
        self.file_id = file.file_id
        self._store = store
        self._client = client
        self._file = file
        self._stamp = file.stamp
        self._durability = durability
        self._nodes = nodes
        self._is_ghost = is_ghost
        self._accepted_bytes = 0
        self._arrived_bytes = 0
        self._failure: StoreError | None = None
        self._lost = False
        self._is_silence_noted = False
        self._to_replicas = _Wire(store)
        self._to_client = _Wire(store)
        self._in_flight: deque[tuple[bytes, Future[int]]] = deque()
        self._unanswered: deque[Future[int]] = deque()

    @property
    def replicas(self) -> int:
        return len(self._nodes)

    @property
    def accepted_bytes(self) -> int:
        return self._accepted_bytes

    @property
    def is_broken(self) -> bool:
        return self._failure is not None

    def append(self, buffers: Sequence[Buffer]) -> Future[int]:
        answer: Future[int] = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            answer.set_exception(self._failure)
            answer.exception()  # the caller may have stopped listening; that is no leak worth a log line
            return answer
        is_raising = self._store.happens(self._store.faults.append_raises_rate)
        if is_raising:
            self._store.counts.raised_appends += 1
            self._store.on_raised(self._client)
            if self._store.random.random() < 0.5:
                raise AppendFailure(f"nothing was appended to {self.path}")
        data = b"".join(buffers)
        self._accepted_bytes += len(data)
        self._unanswered.append(answer)
        self._client.outbound(lambda: self._send(data, answer))
        if is_raising:
            raise AppendFailure(f"it was appended to {self.path} all the same")
        return answer

    @property
    def file(self) -> File:
        return self._file

    @property
    def may_append(self) -> bool:
        return not (self._lost or self._is_ghost) and self._file.is_open and self._file.stamp == self._stamp

    async def prove_ownership(self) -> None:
        def perform() -> None:
            if self._failure is not None:
                raise self._failure
            if not self._is_ghost:
                self._check_stamp()
            self._check_nodes()

        await self._client.request(perform, more_s=self._store.faults.ack_timeout_s if self._down() else 0.0)

    async def mend(self) -> int:
        self.fail(WriterBroken(f"{self.path} is being mended"))

        def perform() -> int:
            self._look()
            if self._is_ghost or self._file.stamp != self._stamp:
                raise FencedWriter(f"{self.path} was taken over")
            self._arrive_partly()
            if self._file.is_committed:
                self._store.report_committed(self._file)
            elif self._file.is_open:
                self._bump()
                if self._store.happens(self._store.faults.half_mend_rate):
                    raise StorageUnavailable("the stamp was bumped, closing failed")
                self._store.maybe_close_late(self._file)
                self._close_file()
            return len(self._file.data)

        length_bytes = await self._client.request(perform, is_change=True, is_late_possible=False)
        await self._client.request(self._look)
        self._forget()
        return length_bytes

    async def close(self) -> int:
        if self._unanswered:
            await asyncio.wait({self._unanswered[-1]})
        if self._failure is not None:
            raise self._failure

        def perform() -> int:
            if self._is_ghost or self._file.stamp != self._stamp:
                raise FencedWriter(f"{self.path} was taken over")
            if self._file.is_open:  # else an earlier call was carried out late, and completing it again is fine
                self._check_nodes()
                self._store.maybe_close_late(self._file)
                self._close_file()
            self._look()  # at the length: completing goes by the file's id, and works in a renamed directory too
            return len(self._file.data)

        length_bytes = await self._client.request(perform, is_change=True, is_late_possible=False)
        self._failure = WriterBroken(f"{self.path} is closed")
        self._forget()
        return length_bytes

    def abandon(self) -> None:
        self.fail(FencedWriter(f"{self.path} was abandoned"))
        self._forget()

    # --- what happens to it

    def fail(self, failure: StoreError) -> None:
        """This and every later append fails; what is still in flight is kept up to any point."""
        if self._failure is not None:
            return
        self._failure = failure
        self._arrive_partly()
        unanswered, self._unanswered = self._unanswered, deque()
        for answer in unanswered:
            if not answer.done():
                answer.set_exception(failure)
                answer.exception()

    def break_off(self) -> None:
        """The way to a replica broke: the process hears WriterBroken."""
        self._lose()

    def node_lost(self, name: str) -> None:
        """A node's connections were reset."""
        if name in self._nodes:
            self._lose()

    def cut_off(self) -> None:
        """The process died."""
        self._arrive_partly()
        self._lost = True
        self._unanswered.clear()

    # --- inside

    def _send(self, data: bytes, answer: Future[int]) -> None:
        if self._lost or self._failure is not None:
            return
        self._in_flight.append((data, answer))
        self._to_replicas.send(self._store.span(self._store.faults.append_s), self._arrive)

    def _arrive(self) -> None:
        if self._lost or not self._in_flight:
            return
        if not self._is_ghost and (self._file.stamp != self._stamp or not self._file.is_open):
            self._store.counts.fenced_appends += 1
            self._in_flight.clear()
            self._tell(FencedWriter(f"{self.path} was taken over"))
            return
        if self._store.happens(self._store.faults.break_writer_rate):
            self._lose()
            return
        data, answer = self._in_flight[0]
        if self._is_silence_noted:
            self._in_flight.popleft()  # it lies behind what was not taken by everybody: no replica ever has a gap
            return
        if down := self._down():
            self._arrive_without(down, data)
            return
        room_bytes = self._store.room_bytes()
        if not self._is_ghost and len(data) > room_bytes:
            self._store.counts.full_appends += 1
            self._store.namespace.extend(self._file, memoryview(data)[:room_bytes])
            self._in_flight.clear()
            self._tell(StorageFull(f"no space for {self.path}"))
            return
        self._in_flight.popleft()
        self._arrived_bytes += len(data)
        if not self._is_ghost:
            self._store.namespace.extend(self._file, data)
            if self._durability is Durability.HSYNC:
                self._file.synced_bytes = len(self._file.data)
        length_bytes = self._arrived_bytes
        back_s = self._store.span(self._store.faults.append_s)
        self._to_client.send(back_s, lambda: self._client.outbound(lambda: self._acknowledge(answer, length_bytes)))

    def _arrive_without(self, down: list[str], data: bytes) -> None:
        """Those that are up take it; it is never acknowledged, and after a while the silence is noticed."""
        self._in_flight.popleft()
        if not self._is_ghost:
            self._keep(data, len(data))
        if not self._is_silence_noted:
            self._is_silence_noted = True
            is_hung = any(self._store.nodes.states[name] is NodeState.HUNG for name in down)
            self._store.after(self._store.faults.ack_timeout_s if is_hung else 0.0, self._lose)

    def _acknowledge(self, answer: Future[int], length_bytes: int) -> None:
        if self._unanswered and self._unanswered[0] is answer:
            self._unanswered.popleft()
            if not answer.done():
                answer.set_result(length_bytes)

    def _lose(self) -> None:
        if self._lost or self._failure is not None:
            return
        self._store.counts.broken_writers += 1
        self._arrive_partly()
        self._tell(WriterBroken(f"lost a replica of {self.path}"))

    def _tell(self, failure: StoreError) -> None:
        self._lost = True  # nothing more is taken from the wire
        back_s = self._store.span(self._store.faults.append_s)
        self._to_client.send(back_s, lambda: self._client.outbound(lambda: self.fail(failure)))

    def _arrive_partly(self) -> None:
        """Of what is in flight any prefix, to the byte, reaches the replicas if they still take it."""
        in_flight = b"".join(data for data, _ in self._in_flight)
        self._in_flight.clear()
        if self._is_ghost or self._file.stamp != self._stamp or not self._file.is_open or not in_flight:
            return
        if self._is_silence_noted:
            return  # as in _arrive
        self._keep(in_flight, None)

    def _keep(self, data: bytes, kept_bytes: int | None) -> None:
        """Each node that is up and has all there is so far takes this much of it; None: any prefix, each its own."""
        store, file = self._store, self._file
        takers = [node for node in store.writable_nodes(file) if file.replicas[node] == len(file.data)]
        room_bytes = store.room_bytes()
        lengths = {
            node: min(store.random.randint(0, len(data)) if kept_bytes is None else kept_bytes, room_bytes)
            for node in takers
        }
        store.namespace.extend_some(file, data, lengths)

    def _down(self) -> list[str]:
        """Nodes of this writer that do not answer."""
        return [node for node in self._nodes if not self._store.nodes.is_up(node)]

    def _check_nodes(self) -> None:
        """A node that leaves a heartbeat or a last packet unanswered ends the stream for good, as in an append."""
        if down := self._down():
            self._lose()
            raise WriterBroken(f"{self.path}: {down[0]} does not answer")

    def _bump(self) -> None:
        self._nodes = self._store.surviving_nodes(self._file)
        self._store.namespace.keep_replicas(self._file, self._nodes)
        self._stamp = self._file.stamp

    def _look(self) -> None:
        if self._store.namespace.find(self.path) is not self._file:
            raise FencedWriter(f"{self.path} was renamed or deleted")

    def _check_stamp(self) -> None:
        if self._is_ghost or self._file.stamp != self._stamp or not self._file.is_open:
            raise FencedWriter(f"{self.path} was taken over")

    def _close_file(self) -> None:
        """A mend syncs what it closes where the topic asks for it; what was appended there is synced already."""
        file = self._file
        if self._durability is Durability.HSYNC:
            file.synced_bytes = len(file.data)
        if self._store.happens(self._store.faults.committed_rate):
            self._store.counts.committed_files += 1
            file.is_committed = True
            raise StorageUnavailable("the last block is committed, but too few replicas were reported")
        file.is_open = False
        file.synced_bytes = len(file.data)

    def _forget(self) -> None:
        if self in self._client.writers:
            self._client.writers.remove(self)
