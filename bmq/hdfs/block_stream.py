"""One generation of one block being written: its connections, what was sent, and what every DataNode has.

Fan-out has a connection to each DataNode. In a pipeline the first node passes everything on and collects all answers. Either
way a byte counts when every node of the generation has acknowledged it. The first failure ends the stream. `acked` then has
what every node, the failed one included, has acknowledged; all other bytes fail. Bytes that only the survivors hold are
acknowledged under a new generation, once its nodes have them (rule 9).
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Future, TimerHandle
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from bmq.hdfs.ack_watch import AckWatch, NodesAcked
from bmq.hdfs.block_setup import Stage as Stage
from bmq.hdfs.block_setup import StreamOpenFailed as StreamOpenFailed
from bmq.hdfs.block_setup import chain_of, open_failure, write_operation
from bmq.hdfs.blocks import DataNode, LocatedBlock
from bmq.hdfs.config import HdfsConfig, WriteMode
from bmq.hdfs.datanode_connection import DataNodeConnection, status_name, write_to_all
from bmq.hdfs.errors import SetupRefused
from bmq.hdfs.packets import HEARTBEAT, Ack, Packet, PacketEncoder
from bmq.hdfs.proto.transfer_pb2 import TransferStatus
from bmq.log.store import Buffer, StoreError, WriterBroken

Answer = tuple[int, Future[int]]  # resolves with the position

T = TypeVar("T")

TIMER_PRECISION_S: Final = 0.002
LATE_TIMER_SHARE: Final = 0.1  # of the ack timeout: a timer later than this says that this process stood still


class _Sent:
    """A packet on its way. `answers` resolve when every node has acknowledged it."""

    __slots__ = ("answers", "end_position", "is_sync", "sent_s")

    def __init__(self, end_position: int, sent_s: float) -> None:
        self.end_position = end_position
        self.sent_s = sent_s
        self.is_sync = False
        self.answers: Sequence[Answer] = ()


class BlockStream:
    """All calls come from one event loop.

    `position`: end of the bytes that were handed in. `acked`: how many of them every node has. `failed`: the reason for each
    node known to have failed. `failure`: the error of every later call.
    """

    __slots__ = (
        "_ack_timeout_s",
        "_connections",
        "_encoder",
        "_finished",
        "_first_check_s",
        "_first_seqno",
        "_heartbeat_sent_s",
        "_idle_heartbeat_s",
        "_is_gathering",
        "_is_grace_given",
        "_is_opening",
        "_is_over",
        "_is_sync_wanted",
        "_is_syncing",
        "_last_sent_s",
        "_loop",
        "_next_round",
        "_on_lost",
        "_packet_bytes_max",
        "_pending",
        "_pending_answers",
        "_pending_bytes",
        "_round",
        "_rounds_sent",
        "_sent",
        "_timer",
        "_timer_due_s",
        "_timer_is_lax",
        "_watch",
        "acked",
        "failed",
        "failure",
        "is_fanout",
        "located",
        "nodes",
        "position",
    )

    def __init__(
        self,
        located: LocatedBlock,
        config: HdfsConfig,
        loop: AbstractEventLoop,
        *,
        is_fanout: bool,
        on_lost: Callable[[DataNode, str], None] | None,
    ) -> None:
        """See `open`."""
        self.located = located
        self.nodes = located.nodes
        self.is_fanout = is_fanout
        self.position = 0
        self.acked = 0
        self.failed: dict[DataNode, str] = {}
        self.failure: StoreError | None = None
        self._loop = loop
        self._on_lost = on_lost
        self._ack_timeout_s = config.ack_timeout_s
        self._idle_heartbeat_s = config.idle_heartbeat_s
        self._first_check_s = min(config.ack_timeout_s, config.idle_heartbeat_s)  # after something was sent
        self._packet_bytes_max = config.packet_bytes_max
        self._encoder = PacketEncoder(chunk_bytes=config.checksum_chunk_bytes, packet_bytes_max=config.packet_bytes_max)
        ends = located.nodes if is_fanout else located.nodes[:1]
        chain_nodes = 1 if is_fanout else len(located.nodes)
        self._connections = tuple(
            DataNodeConnection(node, self, loop, chain_nodes=chain_nodes, connector=config.required_connector)
            for node in ends
        )
        self._sent: deque[_Sent] = deque()
        self._first_seqno = 0  # of the first packet in _sent
        self._pending: list[Buffer] = []  # handed in, not encoded yet
        self._pending_bytes = 0
        self._pending_answers: list[Answer] = []
        self._is_gathering = False
        self._is_sync_wanted = False
        self._is_syncing = False
        self._finished: Future[None] | None = None
        self._is_opening = True
        self._is_over = False
        self._rounds_sent = 0
        self._round: Future[None] | None = None
        self._next_round: Future[None] | None = None
        self._heartbeat_sent_s = 0.0
        self._last_sent_s = loop.time()
        self._timer: TimerHandle | None = None
        self._timer_due_s = 0.0
        self._timer_is_lax = True
        self._is_grace_given = False
        self._watch: AckWatch | None = None

    @classmethod
    async def open(  # noqa: PLR0913
        cls,
        located: LocatedBlock,
        *,
        holder: str,
        config: HdfsConfig,
        stage: Stage,
        new_stamp: int = 0,
        bytes_least: int = 0,
        bytes_most: int = 0,
        reserved_bytes: int = 0,
        is_fanout: bool | None = None,
        on_lost: Callable[[DataNode, str], None] | None = None,
    ) -> BlockStream:
        """Connect to every node of `located` and set the block up there.

        `located.block` has the generation that the nodes know; a recovery stage replaces it with `new_stamp`. The
        stream begins at position 0; on a recovered block `send_at` sets the position. `reserved_bytes`: see
        `write_operation`. `on_lost` is called for nodes that hang or report errors, not for closed connections: a
        takeover by a new owner closes them, too.
        Raises StreamOpenFailed. A node without an answer after `config.connect_timeout_s` has failed.
        """
        if not located.nodes:
            raise StreamOpenFailed("a block without DataNodes", failed=(), unreachable=(), connected=())
        if is_fanout is None:
            is_fanout = config.write_mode is WriteMode.FANOUT
        loop = asyncio.get_running_loop()
        stream = cls(located, config, loop, is_fanout=is_fanout, on_lost=on_lost)
        operation = write_operation(
            located,
            holder=holder,
            stage=stage,
            new_stamp=new_stamp,
            bytes_least=bytes_least,
            bytes_most=bytes_most,
            chunk_bytes=config.checksum_chunk_bytes,
            targets=() if is_fanout else located.nodes[1:],
            reserved_bytes=reserved_bytes,
        )
        try:
            results = await asyncio.gather(
                *(
                    end.open(operation, token=located.token, timeout_s=config.connect_timeout_s)
                    for end in stream._connections
                ),
                return_exceptions=True,
            )
            for result in results:
                if isinstance(result, BaseException) and not isinstance(result, SetupRefused):
                    raise result
            stream._check_open([result if isinstance(result, SetupRefused) else None for result in results])
        except BaseException:
            stream.abort()
            raise
        stream._set_timer(stream._idle_heartbeat_s, is_lax=True)
        return stream

    @property
    def unacked_bytes(self) -> int:
        """Bytes held in memory because not every node has acknowledged them."""
        return self.position - self.acked

    # --- writing

    def send(self, buffers: Sequence[Buffer], *, is_sync: bool = False) -> Future[int]:
        """Append `buffers`. The future gets the block's length after them, once every node has acknowledged them.

        With `is_sync` once every node has them on disk: at most one syncing packet is in flight, and the next one
        covers all that was sent meanwhile. The first call in a turn of the event loop is sent at once, unless a
        packet's worth is unacknowledged already; the others of that turn are sent together at its end. Never raises.
        """
        answer: Future[int] = self._loop.create_future()
        if self.failure is not None:
            refuse(answer, self.failure)
            return answer
        size_bytes = 0
        for buffer in buffers:
            size_bytes += len(buffer)
        is_busy = self.position - self.acked >= self._packet_bytes_max
        self.position = position = self.position + size_bytes
        self._pending += buffers
        self._pending_bytes += size_bytes
        self._pending_answers.append((position, answer))
        if is_sync:
            self._is_sync_wanted = True
        if self._is_gathering:
            if self._pending_bytes >= self._packet_bytes_max:
                self._flush()
            return answer
        self._is_gathering = True
        self._loop.call_soon(self._end_gathering)
        if not is_busy or self._pending_bytes >= self._packet_bytes_max:
            self._flush()
        return answer

    def send_at(self, position: int, data: Buffer) -> Future[int]:
        """Write from `position`, where a checksum chunk begins, and go on; resolves with `position + len(data)`.

        On a recovered block this sets the stream's position. Without data any position will do: everything before it
        counts as sent here, and if it lies inside a chunk only a sync and `finish` may follow. Raises ValueError for
        data at a position inside a chunk.
        """
        answer: Future[int] = self._loop.create_future()
        if self.failure is not None:
            refuse(answer, self.failure)
            return answer
        self._flush()
        self._encoder.move(position)
        end_position = position + len(data)
        if len(data):
            packets = self._encoder.encode((data,), len(data))
            self.position = end_position
            self._write(packets, [(end_position, answer)])
        else:
            self.position = end_position
            answer.set_result(end_position)
        if not self._sent:
            self.acked = end_position
        return answer

    async def heartbeat(self) -> None:
        """One round trip to every node, begun after the call and shared by all waiting callers (rule 15).

        Raises the stream's failure; a node that does not answer in `ack_timeout_s` makes it fail.
        """
        if self.failure is not None:
            raise self.failure
        if self._round is None:
            waiting = self._begin_round()
        else:
            # The one under way began before this call; the next begins when that one is answered.
            if self._next_round is None:
                self._next_round = self._loop.create_future()
            waiting = self._next_round
        await asyncio.shield(waiting)

    async def finish(self, *, is_sync: bool = False) -> None:
        """End the block behind what was sent. Returns when every node has finalized it. `is_sync`: and has it on its disk.

        Raises the stream's failure.
        """
        if self._finished is None:
            if self.failure is not None:
                raise self.failure
            self._finished = self._loop.create_future()
            self._flush(is_final=True)
            self.failure = WriterBroken(f"block {self.located.block.block_id} was finished")
            self._write([self._encoder.encode_last(is_sync=is_sync)], ())
        await asyncio.shield(self._finished)

    def abort(self, failure: StoreError | None = None) -> None:
        """Close all connections. Unacknowledged bytes and all later calls fail with `failure`."""
        if not self._is_over:
            self._end(failure or WriterBroken(f"writing to block {self.located.block.block_id} was given up"))
        elif failure is not None:
            self.failure = failure

    # --- watching acknowledgements

    def watch_acks(self, acked: NodesAcked) -> None:
        """Call `acked` once for each connection over which all bytes before `position` are acknowledged from now on."""
        if self._is_over or self.acked >= self.position:
            return
        if self._watch is None:
            self._watch = AckWatch(self)
            for connection in self._connections:
                connection.tell(self._watch)
        silent = [one for one in self._connections if self.position_of(one.acked_seqno) < self.position]
        self._watch.add(self.position, acked, tuple(silent))

    def end_watch(self) -> None:
        """Listen to the connections itself again."""
        self._watch = None
        for connection in self._connections:
            connection.tell(self)

    def position_of(self, seqno: int) -> int:
        """The end of the bytes in the packets up to this one; at least `acked`."""
        place = seqno - self._first_seqno
        return self._sent[place].end_position if 0 <= place < len(self._sent) else self.acked

    def nodes_of(self, connection: DataNodeConnection) -> tuple[str, ...]:
        """`host:port` of the nodes whose acknowledgements come over this connection."""
        nodes = (connection.node,) if self.is_fanout else self.nodes
        return tuple([str(node.transfer) for node in nodes])

    # --- out

    def _end_gathering(self) -> None:
        self._is_gathering = False
        if self._pending_answers:
            self._flush()

    def _flush(self, *, is_final: bool = False) -> None:
        """Send what is pending. While a sync is under way only full packets go ahead; the next sync takes the rest."""
        if self._is_over:
            return
        is_sync = self._is_sync_wanted
        if is_sync and self._is_syncing and not is_final:
            if self._pending_bytes >= self._packet_bytes_max:
                self._write(self._encode_pending(is_sync=False), ())
            return
        answers = self._pending_answers
        if not answers:
            return
        self._pending_answers = []
        if self._pending_bytes:
            packets: Sequence[Packet] = self._encode_pending(is_sync=is_sync)
        elif is_sync:
            packets = [self._encoder.encode_sync()]
        elif self._sent:
            # Nothing was appended: counts with what is on its way.
            self._sent[-1].answers = [*self._sent[-1].answers, *answers]
            return
        else:
            _resolve(answers)
            return
        self._is_sync_wanted = False
        self._write(packets, answers)
        if is_sync:
            self._sent[-1].is_sync = self._is_syncing = True

    def _encode_pending(self, *, is_sync: bool) -> list[Packet]:
        size_bytes, self._pending_bytes = self._pending_bytes, 0
        buffers, self._pending = self._pending, []
        return self._encoder.encode(buffers, size_bytes, is_sync=is_sync)

    def _write(self, packets: Sequence[Packet], answers: Sequence[Answer]) -> None:
        """Write a packet to every connection. The answers belong to the last packet."""
        now_s = self._loop.time()
        self._last_sent_s = now_s
        sent = self._sent
        for packet in packets:
            write_to_all(self._connections, packet.pieces)
            sent.append(_Sent(packet.end_position, now_s))
        sent[-1].answers = answers
        if self._timer_is_lax:
            self._set_timer(self._first_check_s, is_lax=False)

    def _begin_round(self) -> Future[None]:
        now_s = self._loop.time()
        self._heartbeat_sent_s = self._last_sent_s = now_s
        self._rounds_sent += 1
        for connection in self._connections:
            connection.write((HEARTBEAT,))
        if self._timer_is_lax:
            self._set_timer(self._first_check_s, is_lax=False)
        self._round = self._loop.create_future()
        return self._round

    # --- in (Listener)

    def acknowledged(self, connection: DataNodeConnection) -> None:
        seqno = connection.acked_seqno
        if seqno < self._first_seqno:
            return
        if seqno >= self._encoder.next_seqno:
            self._fail({connection.node: f"it acknowledged packet {seqno}, which was never sent"}, is_suspect=True)
            return
        for other in self._connections:
            if other.acked_seqno < seqno:
                seqno = other.acked_seqno
        if seqno >= self._first_seqno:
            self._advance(seqno)

    def heartbeat_acknowledged(self, connection: DataNodeConnection) -> None:
        if connection.heartbeats > self._rounds_sent:
            self._fail({connection.node: "it acknowledged a heartbeat that was never sent"}, is_suspect=True)
            return
        answered = self._round
        if answered is None or any(other.heartbeats < self._rounds_sent for other in self._connections):
            return
        self._round = None
        if not answered.done():
            answered.set_result(None)
        # Nothing may be sent after the last packet; its acknowledgement also answers the waiting heartbeats.
        if self._next_round is not None and self._finished is None:
            waiting, self._next_round = self._next_round, None
            self._begin_round()
            self._round = waiting

    def refused(self, connection: DataNodeConnection, ack: Ack) -> None:
        index = ack.bad_index()
        node: DataNode | None = connection.node
        if index is None:
            reason = f"it acknowledged packet {ack.seqno} when {connection.acked_seqno + 1} was next"
            if not self.is_fanout:
                reason += f", for {len(ack.statuses)} of {len(self.nodes)} DataNodes"
        else:
            status = ack.statuses[index]
            reason = f"it answered packet {ack.seqno} with {status_name(status)}"
            if status == TransferStatus.OOB_RESTART:
                reason = "it is restarting"
            if not self.is_fanout:
                node = self.nodes[index] if index < len(self.nodes) else None
        if node is None:
            self._fail({}, reason=f"{reason}, for a node that is not in the chain", is_suspect=False)
        else:
            self._fail({node: reason}, is_suspect=True)

    def lost(self, connection: DataNodeConnection, reason: str) -> None:
        if self._is_opening:
            self.failed[connection.node] = reason
        elif self._finished is not None and connection.acked_seqno == self._encoder.next_seqno - 1:
            return  # it has finalized the block and closes first
        elif self.is_fanout:
            self._fail({connection.node: reason}, is_suspect=False)
        else:
            self._fail({}, reason=reason, is_suspect=False)

    def _advance(self, seqno: int) -> None:
        """Every node has acknowledged `seqno`."""
        sent = self._sent
        has_synced = False
        for _ in range(seqno + 1 - self._first_seqno):
            packet = sent.popleft()
            if packet.end_position > self.acked:
                self.acked = packet.end_position
            if packet.is_sync:
                has_synced = True
            if packet.answers:
                _resolve(packet.answers)
        self._first_seqno = seqno + 1
        if has_synced:
            self._is_syncing = False
            if self._pending_answers:
                self._flush()
        if self._finished is not None and not sent:
            # No heartbeat can be requested after the last packet, so its acknowledgement answers all pending ones.
            for waiting in (self._finished, self._round, self._next_round):
                if waiting is not None and not waiting.done():
                    waiting.set_result(None)
            self._close()

    # --- watching

    def _set_timer(self, delay_s: float, *, is_lax: bool) -> None:
        """Set the timer. `is_lax`: no packet is under way, so the timer is for the next idle heartbeat."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_is_lax = is_lax
        self._timer_due_s = self._loop.time() + delay_s
        self._timer = self._loop.call_at(self._timer_due_s, self._check)

    def _check(self) -> None:
        """One timer per stream: it finds silent nodes while something is on its way, and keeps an idle block alive."""
        now_s = self._loop.time()
        grace_s = self._ack_timeout_s * LATE_TIMER_SHARE
        is_late = now_s - self._timer_due_s > grace_s
        if is_late and not self._is_grace_given:
            # This process stood still: the nodes' answers may be waiting unread.
            self._is_grace_given = True
            self._set_timer(grace_s, is_lax=False)
            return
        self._is_grace_given = False
        silent: list[DataNodeConnection] = []
        first_due_s: float | None = None
        for connection in self._connections:
            since_s = self._silent_since_s(connection)
            if since_s is None:
                continue
            due_s = since_s + self._ack_timeout_s
            if due_s <= now_s + TIMER_PRECISION_S:
                silent.append(connection)
            elif first_due_s is None or due_s < first_due_s:
                first_due_s = due_s
        if silent:
            reason = f"no acknowledgement in {self._ack_timeout_s:g} s"
            if self.is_fanout:
                self._fail({connection.node: reason for connection in silent}, is_suspect=True)
            else:
                self._fail({}, reason=reason, is_suspect=False)
        elif first_due_s is not None:
            self._set_timer(first_due_s - now_s, is_lax=False)
        elif now_s - self._last_sent_s >= self._idle_heartbeat_s - TIMER_PRECISION_S:
            self._timer_is_lax = True
            self._begin_round()
        else:
            self._set_timer(self._last_sent_s + self._idle_heartbeat_s - now_s, is_lax=True)

    def _silent_since_s(self, connection: DataNodeConnection) -> float | None:
        """The time since which an answer of this node is due; None if no answer is due."""
        seqno = connection.acked_seqno + 1
        if seqno < self._encoder.next_seqno:
            return max(connection.heard_s, self._sent[seqno - self._first_seqno].sent_s)
        if connection.heartbeats < self._rounds_sent:
            return max(connection.heard_s, self._heartbeat_sent_s)
        return None

    # --- ends

    def _check_open(self, results: Sequence[SetupRefused | None]) -> None:
        """Raises StreamOpenFailed unless every node took the block and none has failed since."""
        self._is_opening = False
        failure = open_failure(self.located, results, self.failed, is_fanout=self.is_fanout)
        if failure is not None:
            self.failed = dict.fromkeys(failure.failed, str(failure))
            raise failure

    def _fail(self, culprits: dict[DataNode, str], *, reason: str = "", is_suspect: bool) -> None:
        """End the stream. `is_suspect`: report the failed nodes to `on_lost`; a closed connection alone is no reason for
        that.
        """
        if self._is_over:
            return
        self.failed.update(culprits)
        if self._is_opening:
            return  # told by StreamOpenFailed, when the other nodes have answered
        told = "; ".join(f"DataNode {node.transfer}: {why}" for node, why in culprits.items())
        self._end(WriterBroken(told or f"{chain_of(self.nodes)}: {reason}"))
        if is_suspect and self._on_lost is not None:
            for node, why in culprits.items():
                self._on_lost(node, why)

    def _end(self, failure: StoreError) -> None:
        self.failure = failure
        self._close()
        answers = [answer for packet in self._sent for _, answer in packet.answers]
        answers += [answer for _, answer in self._pending_answers]
        self._sent.clear()
        self._pending_answers = []
        for answer in answers:
            refuse(answer, failure)
        for waiting in (self._round, self._next_round, self._finished):
            if waiting is not None:
                refuse(waiting, failure)

    def _close(self) -> None:
        self._is_over = True
        self._pending = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in self._connections:
            connection.abort()


def refuse(answer: Future[T], failure: StoreError) -> None:
    """Fail a future whose caller may have gone away."""
    if not answer.done():
        answer.set_exception(failure)
        answer.exception()


def _resolve(answers: Sequence[Answer]) -> None:
    for position, answer in answers:
        if not answer.done():
            answer.set_result(position)
