"""A store in memory that behaves like HDFS on a bad day: one namespace, several clients, faults from one seed.

    store = FakeStore(Random(seed), Faults(append_s=(0.0001, 0.01), break_writer_rate=0.01))
    a, b = store.client("a"), store.client("b")      # two processes; each is a SegmentStore
    a.pause()                                        # a zombie in the making: nothing reaches or leaves it
    a.kill()                                         # kill -9: nothing it waits for ever ends

Every step takes its time from the running loop's timers and its luck from the random source, so a seed replays.
The namespace changes when a request *arrives*; the answer travels back on its own, and may be lost. What happens inside
the store runs in a context of its own, so that a simulated process which stands still does not stop the store.

Fencing is HDFS's: after a rename the old owner's creates fail, its open files move along and can be written until
`take_over` bumps their generation stamp. A file created but not yet connected when lease recovery dropped its block
accepts appends into nowhere, and even proves ownership: only a look at the own directory helps (FENCING.md, rule 7).

A file lies on several nodes. Each holds its own prefix of what was appended; an append counts when all have it. When one
is lost or hangs the writer breaks; `mend` and `take_over` go on with the nodes that answer, equal to the longest of them
and under a new stamp, so that the bytes of the others count no more when they return. New files get fewer nodes then.

A call that changes the namespace may be carried out long after its caller heard StorageUnavailable, even when that process
is dead. After `fail_over` some clients go on asking a NameNode that was replaced: it shows the tree as it was, until one of
them tries to change something. What a segment of an hsync topic holds beyond its synced bytes does not outlive
`crash_machine`, closed or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from asyncio import Future
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from random import Random
from typing import TypeVar

from bmq.log.store import (
    Buffer,
    CorruptFile,
    Durability,
    FencedWriter,
    FileMissing,
    FileStatus,
    LeaseHeld,
    StorageFull,
    StorageUnavailable,
    StoreError,
)
from tests.fakes.namespace import Directory, File, Namespace, PastNamespace, files_below, status_of
from tests.fakes.nodes import Nodes, NodeState
from tests.fakes.store_writer import FakeWriter

T = TypeVar("T")
CHUNK_BYTES = 512  # under one checksum of a DataNode
CHUNK_LOST_RATE = 0.5
CUT_OFF_S = 0.5
"""After so long a client that is cut off gives a call up."""
READABLE_S_MIN = 5.0
"""A file whose good replicas returned stays readable for so long at least: somebody who tries again gets on."""


@dataclass(slots=True)
class Faults:
    """How badly the store behaves. Rates are chances per operation, spans are (least, most) seconds."""

    request_s: tuple[float, float] = (0.0, 0.0)  # one way, metadata operations and reads
    append_s: tuple[float, float] = (0.0, 0.0)  # one way, appends and their acknowledgements
    recover_lease_s: tuple[float, float] = (0.0, 0.0)  # more for a takeover without the previous holder's name
    unavailable_rate: float = 0.0  # refused before anything happened
    lost_reply_rate: float = 0.0  # it happened, the caller hears StorageUnavailable
    late_reply_rate: float = 0.0  # the reply was lost and asked for again under the same call id: right, but late
    late_reply_s: tuple[float, float] = (0.5, 3.0)
    half_takeover_rate: float = 0.0  # the stamp was bumped, closing failed
    half_mend_rate: float = 0.0  # the same, by the writer's own process
    fewer_nodes_rate: float = 0.0  # a new file gets fewer nodes than are up
    ack_timeout_s: float = 0.5  # then a node that does not answer counts as lost
    recover_lease_rate: float = 0.0  # a fast takeover fell back to lease recovery
    break_writer_rate: float = 0.0  # per append: any prefix of what is in flight is kept
    late_call_rate: float = 0.0  # per change: its caller gives up, it is carried out afterwards
    late_call_s: tuple[float, float] = (0.05, 6.0)  # so much later
    unreadable_rate: float = 0.0  # per read of a whole file: its bytes are damaged on the nodes that are up
    unreadable_s: tuple[float, float] = (0.05, 3.0)  # until a good replica returns
    rotten_tail_rate: float = 0.0  # per takeover: of what not every replica had, the longest one's bytes are wrong
    unsynced_takeover_rate: float = 0.0  # per takeover of an hsync file that does not ask for a sync
    committed_rate: float = 0.0  # per close: the length is fixed, but too few replicas were reported
    append_raises_rate: float = 0.0  # per append: an exception instead of a future


@dataclass(slots=True)
class Counts:
    """What happened, for tests that want to know their faults were real."""

    takeovers: int = 0
    recovered_leases: int = 0
    broken_writers: int = 0
    fenced_appends: int = 0
    ghost_writers: int = 0
    lost_replies: int = 0
    node_losses: int = 0
    short_files: int = 0  # made on fewer nodes than wanted
    late_calls: int = 0
    stale_answers: int = 0
    damaged_reads: int = 0
    rotten_tails: int = 0
    committed_files: int = 0
    raised_appends: int = 0
    full_appends: int = 0
    lost_bytes: int = 0  # of hsync topics, when the machines crashed
    lost_chunks: int = 0  # the last ones of hsync segments, likewise


class FakeStore:
    """The namespace that all clients share. `is_lease_exclusive`: as on a local directory, a living client's epoch
    directory cannot be renamed or taken over by another client (LeaseHeld). `replicas_wanted` of `node_count` nodes hold a
    file while that many are up."""

    def __init__(
        self,
        random: Random | None = None,
        faults: Faults | None = None,
        *,
        is_lease_exclusive: bool = False,
        node_count: int = 3,
        replicas_wanted: int = 3,
    ) -> None:
        self.random = random or Random(0)
        self.faults = faults or Faults()
        self.counts = Counts()
        self.namespace = Namespace()
        self.nodes = Nodes(node_count, replicas_wanted)
        self.capacity_bytes: int | None = None
        self.is_lease_exclusive = is_lease_exclusive
        self.clients: list[FakeClient] = []
        self.context = contextvars.Context()
        self.on_raised: Callable[[FakeClient], None] = lambda _: None  # an append of this process raised
        self.late_calls_waiting = 0
        self._unreadable_until_s: dict[int, float] = {}  # by file id
        self.crash_count = 0  # what was on its way to the store before the last one is lost

    def client(self, name: str) -> FakeClient:
        """The store as one process sees it. A restarted process takes a new client."""
        client = FakeClient(self, name)
        self.clients.append(client)
        return client

    def crash_machine(self) -> None:
        """Power loss everywhere: every client is dead, and of what was not synced any prefix is left.

        Whoever could append may have been appending: the checksum of the chunk where that began may be on the disk without
        the bytes, and then the whole chunk is gone, synced or not (rule 27).
        """
        written_to = [writer.file for client in self.clients for writer in client.writers if writer.may_append]
        for client in self.clients:
            client.kill()
        self.crash_count += 1
        self.end_fail_over()
        for _, file in files_below(self.namespace.root, ""):
            if file.synced_bytes < len(file.data):
                left_bytes = self.random.randint(file.synced_bytes, len(file.data))
                self.counts.lost_bytes += len(file.data) - left_bytes if file.is_hsync else 0
                self.namespace.truncate(file, left_bytes)
        for file in written_to:
            if file.is_hsync and self.random.random() < CHUNK_LOST_RATE:
                self.counts.lost_chunks += 1
                self.namespace.truncate(file, len(file.data) - len(file.data) % CHUNK_BYTES)

    # --- NameNodes

    def fail_over(self, *, stale_s: float) -> None:
        """Another NameNode is the active one now. Some clients still ask the old one, for `stale_s` at most."""
        self.end_fail_over()
        changes: list[tuple[Directory, str, File | Directory | None]] = []
        self.namespace.changes = changes
        for client in self.clients:
            client.is_at_old_name_node = client.is_alive and self.random.random() < 0.6

        def end() -> None:
            if self.namespace.changes is changes:
                self.end_fail_over()

        self.after(stale_s, end)

    def end_fail_over(self) -> None:
        """The old NameNode ends: its first try to change something finds the journal closed to it."""
        self.namespace.changes = None
        for client in self.clients:
            client.is_at_old_name_node = False

    # --- nodes

    def lose_node(self, name: str, *, is_hung: bool = False) -> None:
        """A DataNode dies, or stands still. What it holds is there again when it returns."""
        self.nodes.states[name] = NodeState.HUNG if is_hung else NodeState.LOST
        self.counts.node_losses += 1
        if not is_hung:
            for _, file in files_below(self.namespace.root, ""):
                if file.is_open and not file.is_committed and name in file.replicas:
                    file.waiting.add(name)
            for client in self.clients:
                for writer in tuple(client.writers):
                    writer.node_lost(name)

    def return_node(self, name: str) -> None:
        self.nodes.states[name] = NodeState.UP

    def replicate(self) -> None:
        """The NameNode sees to it that closed files lie on enough nodes again."""
        for _, file in files_below(self.namespace.root, ""):
            if not file.is_open and file.replicas and self.nodes.up(file.replicas):
                spare = [node for node in self.nodes.up() if node not in file.replicas]
                for node in spare[: max(0, self.nodes.wanted - len(file.replicas))]:
                    file.replicas[node] = len(file.data)
                file.note_held()

    def nodes_for_file(self) -> list[str]:
        """Raises StorageUnavailable when no node takes it."""
        wanted = self.nodes.wanted
        if wanted > 1 and self.happens(self.faults.fewer_nodes_rate):
            wanted = self.random.randint(1, wanted - 1)
        nodes = self.nodes.choose(self.random, wanted)
        if not nodes:
            raise StorageUnavailable("could only be written to 0 of the 1 nodes at least")
        self.counts.short_files += len(nodes) < self.nodes.wanted
        return nodes

    def report_committed(self, file: File) -> None:
        """Its length was fixed; now and then its replicas are reported by now. Raises StorageUnavailable."""
        if self.faults.committed_rate and self.random.random() < 0.5:
            raise StorageUnavailable("the last block is committed, but too few replicas were reported")
        file.is_open = file.is_committed = False
        if not file.is_hsync:
            file.synced_bytes = len(file.data)

    def spoil_tail(self, file: File) -> None:
        """Behind what every node of a generation has held, the replicas need not agree."""
        whole_bytes = max((length_bytes for length_bytes, _ in file.held), default=0)
        if file.replicas and whole_bytes < len(file.data):
            self.counts.rotten_tails += 1
            first = self.random.randrange(whole_bytes, len(file.data))
            file.data[first:] = self.random.randbytes(len(file.data) - first)

    def surviving_nodes(self, file: File) -> list[str]:
        """The nodes a block can be recovered on. Raises StorageUnavailable when none of its nodes answers."""
        nodes = self.nodes.up(file.replicas)
        if file.replicas and not nodes:
            raise StorageUnavailable("no node that holds the block answers")
        writable = self.writable_nodes(file)
        if not writable and nodes:
            self.counts.recovered_leases += 1
        return writable or nodes

    def writable_nodes(self, file: File) -> list[str]:
        """Those of its nodes that answer and were not restarted while it was open."""
        up = self.nodes.up(file.replicas)
        return [node for node in up if node not in file.waiting] if file.is_open else up

    # --- back doors for tests

    def put_file(self, path: str, data: bytes, *, is_open: bool = False, holder: str = "nobody") -> int:
        """Make a file with its parents; its file id."""
        if "/" in path:
            self.namespace.make_directory(path.rpartition("/")[0], with_parents=True)
        file = self.namespace.create(path, holder)
        file.replicas = dict.fromkeys(self.nodes_for_file(), 0)
        self.namespace.extend(file, data)
        file.is_connected = True
        file.is_open = is_open
        file.synced_bytes = 0 if is_open else len(data)
        return file.file_id

    def extend_file(self, path: str, data: bytes) -> None:
        self.namespace.extend(self.namespace.file(path), data)

    def truncate_file(self, path: str, length_bytes: int) -> None:
        self.namespace.truncate(self.namespace.file(path), length_bytes)

    def flip_bit(self, path: str, position: int) -> None:
        self.namespace.file(path).data[position] ^= 1

    def file_id_of(self, path: str) -> int:
        return self.namespace.file(path).file_id

    def files(self) -> dict[str, bytes]:
        """Contents by path, open files included."""
        return {path: bytes(file.data) for path, file in files_below(self.namespace.root, "")}

    # --- for clients and writers

    def carry_out_late(self, perform: Callable[[], object]) -> None:
        """Its caller is told nothing, nor that it failed; a crash of all machines forgets it."""
        crash_count = self.crash_count
        self.counts.late_calls += 1
        self.late_calls_waiting += 1

        def late() -> None:
            self.late_calls_waiting -= 1
            if crash_count == self.crash_count:
                with contextlib.suppress(StoreError):
                    perform()

        self.after(self.random.uniform(*self.faults.late_call_s), late)

    def maybe_close_late(self, file: File) -> None:
        """complete() is given up and may come later: under another stamp it is refused. Raises StorageUnavailable."""
        if not self.happens(self.faults.late_call_rate):
            return
        stamp = file.stamp

        def close() -> None:
            if file.is_open and file.stamp == stamp:
                file.is_open = file.is_committed = False
                if not file.is_hsync:
                    file.synced_bytes = len(file.data)

        self.carry_out_late(close)
        raise StorageUnavailable("completing the file was given up; it may still be carried out")

    def damaged(self, file: File, path: str) -> bytes | None:
        """What reading it gives while its good replicas are away; None: it is fine. Raises CorruptFile.

        Wrong bytes come only of files that carry checksums of their own: HDFS checks those that it keeps beside the bytes.
        """
        now_s = asyncio.get_running_loop().time()
        until_s = self._unreadable_until_s.get(file.file_id, -inf)
        if now_s > until_s + READABLE_S_MIN and self.happens(self.faults.unreadable_rate):
            until_s = self._unreadable_until_s[file.file_id] = now_s + self.span(self.faults.unreadable_s)
        if not file.data or now_s >= until_s:
            return None
        self.counts.damaged_reads += 1
        if "/" not in path or self.random.random() < 0.5:
            raise CorruptFile("the checksums of every replica that answers are wrong")
        content = bytearray(file.data)
        content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
        return bytes(content)

    def after(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call in the store's own context."""
        loop = asyncio.get_running_loop()
        if seconds <= 0:
            loop.call_soon(callback, context=self.context)
        else:
            loop.call_later(seconds, callback, context=self.context)

    def span(self, seconds: tuple[float, float]) -> float:
        low, high = seconds
        if high <= low:
            return low
        # Most answers are quick, few are slow: the square of a uniform draw.
        return low + (high - low) * self.random.random() ** 2

    def happens(self, rate: float) -> bool:
        return rate > 0 and self.random.random() < rate

    def room_bytes(self) -> int:
        return 2**63 if self.capacity_bytes is None else max(0, self.capacity_bytes - self.namespace.used_bytes)

    def check_lease(self, directory: File | Directory | None, client: FakeClient) -> None:
        if not self.is_lease_exclusive or not isinstance(directory, Directory):
            return
        holder = directory.lease_client
        if isinstance(holder, FakeClient) and holder is not client and holder.is_alive:
            raise LeaseHeld(f"held by {holder.name}")


class FakeClient:
    """One process's `SegmentStore`. After `kill()` nothing it asked for ends, and its handles are dead."""

    def __init__(self, store: FakeStore, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.writers: list[FakeWriter] = []
        self.is_at_old_name_node = False
        self.is_cut_off = False
        self._store = store
        self._is_paused = False
        self._held: list[Callable[[], None]] = []

    def kill(self) -> None:
        """What was in flight arrives up to any point, or not at all; nobody is told."""
        if not self.is_alive:
            return
        self.is_alive = False
        self._held.clear()
        for writer in self.writers:
            writer.cut_off()
        self.writers.clear()

    def pause(self) -> None:
        """Hold what is sent from now on, and the answers to what was sent before."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        held, self._held = self._held, []
        for callback in held:
            callback()

    def cut_off(self) -> None:
        """This process alone does not reach the store any more: its calls fail after a time, and its writers break."""
        self.is_cut_off = True
        for writer in tuple(self.writers):
            writer.break_off()

    def reconnect(self) -> None:
        self.is_cut_off = False

    def outbound(self, callback: Callable[[], None]) -> None:
        """Run `callback` when the process may send or hear: at once, after `resume()`, or never."""
        if not self.is_alive:
            return
        if self._is_paused:
            self._held.append(lambda: self.outbound(callback))
        else:
            callback()

    async def request(
        self,
        perform: Callable[[], T],
        *,
        more_s: float = 0.0,
        is_change: bool = False,
        is_late_possible: bool = True,
    ) -> T:
        """`perform` runs at the moment the request arrives; its result or StoreError travels back.

        `is_change`: only the active NameNode can do it; `is_late_possible`: and it may be carried out after it was given up.
        """
        if self.is_cut_off:
            await asyncio.sleep(CUT_OFF_S)
            raise StorageUnavailable("the store cannot be reached from here")
        answer: Future[T] = asyncio.get_running_loop().create_future()
        store, faults = self._store, self._store.faults
        crash_count = store.crash_count

        def arrive() -> None:
            if crash_count != store.crash_count:
                return  # the NameNode lost power as well, and its connections with it
            if not self.is_alive and store.random.random() < 0.5:
                return
            failure: StoreError | None = None
            result: T | None = None
            try:
                if store.happens(faults.unavailable_rate):
                    raise StorageUnavailable("the store does not answer")
                if is_change and self.is_at_old_name_node:
                    store.end_fail_over()
                if is_change and is_late_possible and store.happens(faults.late_call_rate):
                    store.carry_out_late(perform)
                    raise StorageUnavailable("the call was given up; it may still be carried out")
                result = perform()
            except StoreError as error:
                failure = error
            back_s = store.span(faults.request_s)
            if store.happens(faults.lost_reply_rate):
                store.counts.lost_replies += 1
                failure = StorageUnavailable("the reply was lost")
            elif store.happens(faults.late_reply_rate):
                back_s += store.span(faults.late_reply_s)
            store.after(back_s, lambda: self.outbound(lambda: _settle(answer, result, failure)))

        self.outbound(lambda: store.after(store.span(faults.request_s) + more_s, arrive))
        return await answer

    # --- SegmentStore

    @property
    def replicas_wanted(self) -> int:
        return self._store.nodes.wanted

    @property
    def is_reserving(self) -> bool:
        return True

    async def make_directory(self, path: str) -> None:
        await self.request(lambda: self._store.namespace.make_directory(path, with_parents=False), is_change=True)

    async def make_directories(self, path: str) -> None:
        await self.request(lambda: self._store.namespace.make_directory(path, with_parents=True), is_change=True)

    async def list_directory(self, path: str) -> tuple[FileStatus, ...]:
        return await self.request(lambda: self._seen().entries(path))

    async def status(self, path: str) -> FileStatus | None:
        def perform() -> FileStatus | None:
            node = self._seen().find(path)
            return None if node is None else status_of(path.rpartition("/")[2], node)

        return await self.request(perform)

    async def prove(self, path: str) -> FileStatus | None:
        def perform() -> FileStatus | None:
            node = self._store.namespace.find(path)
            return None if node is None else status_of(path.rpartition("/")[2], node)

        return await self.request(perform, is_change=True, is_late_possible=False)

    async def rename(self, source: str, target: str) -> None:
        def perform() -> None:
            self._store.check_lease(self._store.namespace.find(source), self)
            self._store.namespace.rename(source, target)

        await self.request(perform, is_change=True)

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        return await self.request(lambda: self._store.namespace.delete(path, recursive=recursive), is_change=True)

    async def write_file(self, path: str, data: Buffer, *, holder: str) -> None:
        content = bytes(data)
        file = await self.request(lambda: self._create(path, holder), is_change=True)

        def fill() -> None:
            if file.stamp != 1 or not file.is_open:
                raise FencedWriter(path)
            if len(content) > self._store.room_bytes():
                self._store.namespace.delete(path, recursive=False)
                raise StorageFull(path)
            file.replicas = dict.fromkeys(self._nodes_or_removed(path), 0)
            file.is_connected = True
            self._store.namespace.extend(file, content)
            file.synced_bytes = len(content)
            file.is_open = False

        await self.request(lambda: self._removed_late(path, fill) if content else fill(), is_change=True)

    async def read_file(self, path: str, *, length_bytes_max: int) -> bytes:
        def perform() -> bytes:
            file = self._store.namespace.file(path)
            if file.is_open:
                raise CorruptFile(f"{path} is still open")
            if len(file.data) > length_bytes_max:
                raise CorruptFile(f"{path} has {len(file.data)} bytes, more than {length_bytes_max}")
            self._readable_bytes(file)
            return self._store.damaged(file, path) or bytes(file.data)

        return await self.request(perform)

    def append_alignment_bytes(self, durability: Durability) -> int:
        return CHUNK_BYTES if durability is Durability.HSYNC else 1

    async def create_segment(self, path: str, *, holder: str, durability: Durability, segment_bytes: int) -> FakeWriter:
        file = await self.request(lambda: self._create(path, holder), is_change=True)
        return await self.request(lambda: self._removed_late(path, lambda: self._connect(file, path, durability)))

    async def read(self, path: str, *, file_id: int, position: int, length_bytes: int) -> Buffer:
        def perform() -> bytes:
            file = self._store.namespace.file(path)
            if file.file_id != file_id:
                raise FileMissing(path)
            if position + length_bytes > (readable_bytes := self._readable_bytes(file)):
                raise CorruptFile(f"{path} has {readable_bytes} bytes, asked for {position} + {length_bytes}")
            return bytes(memoryview(file.data)[position : position + length_bytes])

        return await self.request(perform)

    def file_part(self, path: str, *, file_id: int, position: int, length_bytes: int) -> None:
        """There is no file that a kernel could send."""

    async def visible_length(self, path: str) -> int:
        return await self.request(lambda: len(self._store.namespace.file(path).data))

    async def locate(self, path: str) -> tuple[str, ...]:
        def perform() -> tuple[str, ...]:
            file = self._store.namespace.file(path)
            return tuple(sorted(file.replicas)) if file.data else ()

        return await self.request(perform)

    async def count_replicas(self, path: str) -> int:
        def perform() -> int:
            file = self._store.namespace.file(path)
            return len(self._store.writable_nodes(file)) if file.data else self.replicas_wanted

        return await self.request(perform)

    async def take_over(
        self, path: str, *, previous_holder: str | None, durability: Durability = Durability.HFLUSH
    ) -> int:
        store = self._store
        is_slow = previous_holder is None or store.happens(store.faults.recover_lease_rate)

        def perform() -> int:
            file = store.namespace.file(path)
            store.check_lease(store.namespace.find(path.rpartition("/")[0]), self)
            is_synced = durability is Durability.HSYNC
            if not file.is_open:
                if is_synced:
                    store.surviving_nodes(file)
                    file.synced_bytes = len(file.data)
                return len(file.data)
            nodes = store.surviving_nodes(file)
            store.counts.takeovers += 1
            if file.is_committed:
                store.report_committed(file)
                if is_synced:
                    file.synced_bytes = len(file.data)
                return len(file.data)
            if store.happens(store.faults.rotten_tail_rate):
                store.spoil_tail(file)
            store.namespace.keep_replicas(file, nodes)
            if store.happens(store.faults.half_takeover_rate):
                raise StorageUnavailable("the stamp was bumped, closing failed")
            store.maybe_close_late(file)
            if is_slow or previous_holder != file.holder:
                store.counts.recovered_leases += 1
                file.was_dropped |= not file.is_connected
            file.is_open = False
            if is_synced or not file.is_hsync or not store.happens(store.faults.unsynced_takeover_rate):
                file.synced_bytes = len(file.data)
            return len(file.data)

        return await self.request(
            perform,
            is_change=True,
            is_late_possible=False,
            more_s=store.span(store.faults.recover_lease_s) if is_slow else 0.0,
        )

    async def close(self) -> None:
        for writer in tuple(self.writers):
            writer.abandon()

    # --- inside

    def _seen(self) -> Namespace | PastNamespace:
        """The tree as the NameNode that this client asks knows it."""
        namespace = self._store.namespace
        if not self.is_at_old_name_node or not namespace.changes:
            return namespace
        self._store.counts.stale_answers += 1
        return PastNamespace(namespace)

    def _removed_late(self, path: str, finish: Callable[[], T]) -> T:
        """Now and then a new file cannot be finished; what removes it again may be carried out late, by its name."""
        if self._store.happens(self._store.faults.late_call_rate):
            self._store.carry_out_late(lambda: self._store.namespace.delete(path, recursive=False))
            raise StorageUnavailable(f"{path} could not be finished and is being removed")
        return finish()

    def _nodes_or_removed(self, path: str) -> list[str]:
        """Where no node takes a new file, it is removed again. Raises StorageUnavailable."""
        try:
            return self._store.nodes_for_file()
        except StorageUnavailable:
            self._store.namespace.delete(path, recursive=False)
            raise

    def _readable_bytes(self, file: File) -> int:
        if not file.replicas:
            return len(file.data)
        lengths = [file.replicas[node] for node in self._store.writable_nodes(file)]
        if not lengths:
            raise StorageUnavailable("no node that holds the block answers")
        return max(lengths)

    def _create(self, path: str, holder: str) -> File:
        parent = self._store.namespace.find(path.rpartition("/")[0])
        self._store.check_lease(parent, self)
        if self._store.room_bytes() <= 0:
            raise StorageFull(path)
        file = self._store.namespace.create(path, holder)
        if isinstance(parent, Directory):
            parent.lease_client = self
        return file

    def _connect(self, file: File, path: str, durability: Durability) -> FakeWriter:
        is_ours = file.is_open and file.stamp == 1
        if not is_ours and not file.was_dropped:
            raise FileMissing(path)
        nodes = self._nodes_or_removed(path)
        if is_ours:
            file.replicas = dict.fromkeys(nodes, 0)
            file.is_hsync = durability is Durability.HSYNC
        else:
            self._store.counts.ghost_writers += 1
        file.is_connected = True
        writer = FakeWriter(self._store, self, file, path, durability, nodes, is_ghost=not is_ours)
        self.writers.append(writer)
        return writer


def _settle(answer: Future[T], result: T | None, failure: StoreError | None) -> None:
    if answer.done():
        return
    if failure is not None:
        answer.set_exception(failure)
    else:
        answer.set_result(result)  # type: ignore[arg-type]
