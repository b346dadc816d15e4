"""One client's connection: reads requests, and sends answers in request order, within limits.

Requests run concurrently. Each has a slot in a queue, and finished slots at its head are sent. Between nodes answers need no
order (the link matches them by id), so there a slot joins the queue when it is finished. At a limit (requests or bytes in flight,
of the connection or of all; answers that the client does not read) the socket is no longer read.

After a stall of the event loop the connection is dropped before data that arrived meanwhile is parsed (StallWatch).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, Protocol, cast

import structlog

from bmq.aio.loop_turns import LoopTurns
from bmq.protocol.apis import Api, ApiKey
from bmq.protocol.codec import RequestHeader, decode_request, unsupported_api_versions_response
from bmq.protocol.errors import MalformedMessage, UnsupportedVersion
from bmq.protocol.frames import FrameSplitter, ReceiveBuffer
from bmq.protocol.parts import MEMORY
from bmq.protocol.parts import Part as AnswerPart
from bmq.protocol.request_context import ANONYMOUS
from bmq.protocol.request_heads import RequestHeads
from bmq.proxy.answer_slot import Slot
from bmq.proxy.answer_writer import AnswerWriter
from bmq.proxy.authentication import FRAME_BYTES_AT_FIRST_MAX, FRAME_BYTES_MAX, SaslGate
from bmq.proxy.connected_client import ConnectedClient
from bmq.proxy.dispatch import EAGER_HANDLERS, HANDLERS, HotHandler
from bmq.proxy.large_requests import LargeRequests
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.listener_socket import ListenerSocket, subject_of
from bmq.proxy.pending_connections import PendingConnections
from bmq.proxy.reply import Reply
from bmq.proxy.request_answers import RequestAnswers, with_received
from bmq.proxy.services import Services
from bmq.proxy.stall_watch import StallWatch
from bmq.proxy.stats import ProxyStats
from bmq.security.mapping_rules import NoRule

log = structlog.get_logger("bmq.proxy")

ONLY: Final = ListenerSocket()
"""The socket of a server that has one listener without TLS."""


class Listener(Protocol):
    """The part of bmq.proxy.server.KafkaServer that its connections use."""

    limits: ProxyLimits
    loop: asyncio.AbstractEventLoop
    stats: ProxyStats
    stalls: StallWatch
    services: Services
    pending: PendingConnections
    receive_buffer: ReceiveBuffer
    turns: LoopTurns
    large_requests: LargeRequests
    hot_handlers: Mapping[ApiKey, HotHandler]
    apis: Mapping[ApiKey, Api]
    served: Mapping[int, tuple[ApiKey, Api]]
    is_ordered: bool
    is_debug: bool

    def admit(self, connection: Connection) -> bool: ...

    def forget(self, connection: Connection) -> None: ...

    def note_bad(self, connection: Connection, reason: str) -> None: ...

    @property
    def is_full(self) -> bool: ...

    def take(self, size_bytes: int) -> None: ...

    def give_back(self, size_bytes: int) -> None: ...

    def may_overdraw(self, connection: Connection) -> bool: ...

    def end_overdraft(self, connection: Connection) -> None: ...

    def wait_for_room(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """One client's connection, made by the listener. It is the `peer` in the contexts of its requests."""

    def __init__(self, listener: Listener, listener_socket: ListenerSocket = ONLY) -> None:
        self._listener = listener
        self._listener_socket = listener_socket
        # Before the listener serves there are no services, and no connection is admitted.
        self._services = cast(Services, listener_socket.services or getattr(listener, "services", None))
        self._stalls = listener.stalls
        self._limits = listener.limits
        self._loop = listener.loop
        self._splitter = FrameSplitter(
            listener.receive_buffer, listener.limits.request_bytes_max, listener.limits.frame_bytes_at_first_max
        )
        self._heads = RequestHeads()
        self._transport: asyncio.Transport | None = None
        self._writer: AnswerWriter | None = None  # while there is a transport
        self._client = ConnectedClient(
            self, self._loop, self._services, listener_socket.name, listener.apis, listener.turns, self._begin_frames
        )
        self._answers = RequestAnswers(listener, self._services)
        self._first_received_s: float | None = None
        self._is_ordered = listener.is_ordered
        self._slots: deque[Slot] = deque()  # in the order in which their answers are sent
        self._unplaced: dict[Slot, None] = {}  # unanswered requests, if answers need no order
        self._frames: deque[bytearray] = deque()  # received frames that are not begun yet
        self._in_flight_bytes = 0
        self._unfinished_bytes = 0  # bytes of an incomplete frame, counted in the shared budget
        self._is_reading_paused = False
        self._is_flush_due = False
        self._is_receiving = False
        self._is_turn_due = False
        self._is_stopping = False
        self._alone: Reply | None = None  # a large request, after whose answer the next begins
        self._gate: SaslGate | None = None  # None once no login is demanded and the session has no end
        self._tasks: dict[asyncio.Task[None], None] = {}  # cancelled in this order
        self._when_lost: dict[Callable[[], None], None] = {}
        self._is_lost = False
        self._is_pending = False  # its login is not done
        self.host = ""
        self.active_at_s = 0.0
        self._received_s = 0.0  # when the oldest of `_frames` was received, or the last such time

    # --- the transport's side
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if not peer:  # the client has left; without an address its requests would count as our own (is_own)
            self._is_stopping = True
            self._transport.abort()
            return
        self.host, port = str(peer[0]), peer[1]
        self._client.has_address(self.host, port)
        self.active_at_s = self._loop.time()
        # Keepalive finds hosts that lost power, which close nothing: an answer may be awaited for longer than any idle limit.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._services is None or not self._listener.admit(self):  # None: the listener does not serve yet
            self._transport.abort()
            return
        budget = self._services.response_budget if self._listener_socket.is_tls else None
        self._writer = AnswerWriter(self._loop, self._transport, self, self._limits.unsent_bytes_max, budget)
        self._writer.begin()
        rates = self._services.throttles.connection_rates
        if rates is not None:
            wait_ms, is_refused = rates.arrived(self.host)
            if is_refused:
                self._is_stopping = True  # its bytes are not read
                self._loop.call_later(wait_ms / 1000, self.abort)
            elif wait_ms:
                self._client.muted().last(wait_ms)
        security = self._listener_socket.security
        if security.protocol.is_sasl:
            self._splitter.limit(FRAME_BYTES_MAX, FRAME_BYTES_AT_FIRST_MAX)
            logins = self._services.logins
            assert logins is not None
            self._gate = SaslGate(self, logins, security, self._listener.stats, self._loop)
            self._is_pending = True
            # For one too many the oldest is closed, in a turn of its own, so that others' requests come in between.
            self._loop.call_soon(self._count_pending)
        elif self._listener_socket.is_tls:
            self._name_by_certificate(transport)

    def _count_pending(self) -> None:
        if self._is_pending:
            self._listener.pending.add(self.host, self)

    def _end_pending(self) -> None:
        self._is_pending = False
        self._listener.pending.remove(self)

    def _name_by_certificate(self, transport: asyncio.BaseTransport) -> None:
        """Name the client by its certificate; without a certificate it stays anonymous."""
        certificate = transport.get_extra_info("peercert")
        if why := self._listener_socket.why_refused(certificate):
            self._turn_away(why)
            return
        if (subject := subject_of(certificate)) is None:
            return
        try:
            self._client.is_named(self._listener_socket.principal_of(subject))
        except NoRule as error:
            self._turn_away(f"its certificate gives it no name: {error}")

    def _turn_away(self, reason: str) -> None:
        """Close the connection before any request is read, also one that came with the handshake."""
        self._is_stopping = True
        self.close(reason)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._splitter.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._listener.stats.received_bytes += nbytes
        self.active_at_s = self._loop.time()
        if self._first_received_s is None:
            self._first_received_s = self._stalls.now_s()
        try:
            frames = self._splitter.feed(nbytes)
        except MalformedMessage as error:
            self.close(str(error))
            return
        if self._unfinished_bytes or self._splitter.held_bytes:
            self._count_unfinished()
            if self._unfinished_bytes > self._limits.other_request_bytes_max and not self._may_be_so_long():
                return
        if not frames:
            if self._unfinished_bytes and self._is_full:
                self._pause_reading()
        elif not self._is_stopping:
            if self._frames:
                self._frames.extend(frames)
            else:
                self._frames = deque(frames)
                self._received_s = self._stalls.now_s()
                self._is_receiving = True
                self._begin_frames()
                self._is_receiving = False
                if self._is_flush_due:
                    self._flush()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self._writer is not None:
            self._writer.pause_writing()

    def resume_writing(self) -> None:
        if self._writer is not None:
            self._writer.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._gate is not None:
            self._gate.close()
            self._gate = None
            self._end_pending()
        if self._writer is not None:
            self._writer.close()
            self._writer = None  # the transport refers to this connection
        self._is_lost = True
        self._client.close()
        self._frames.clear()
        for slot in (*self._slots, *self._unplaced):
            slot.lose()
        self._slots.clear()
        self._unplaced.clear()
        for task in self._tasks:
            task.cancel()
        self._listener.give_back(self._in_flight_bytes + self._unfinished_bytes)
        self._in_flight_bytes = self._unfinished_bytes = 0
        self._listener.end_overdraft(self)
        self._listener.forget(self)
        when_lost, self._when_lost = self._when_lost, {}
        for lost in when_lost:
            self._notify_lost(lost)

    # --- for handlers
    @property
    def age_s(self) -> float:
        return 0.0 if self._first_received_s is None else self._stalls.now_s() - self._first_received_s

    def on_lost(self, lost: Callable[[], None]) -> None:
        """Call `lost` once when either side closes the connection; soon if it is closed already. Equal callbacks count once."""
        if self._is_lost:
            self._loop.call_soon(self._notify_lost, lost)
        else:
            self._when_lost[lost] = None

    def begin(self, work: Coroutine[Any, Any, None], ended: Callable[[], None] | None = None) -> None:
        """Run a task for a request; the end of the connection cancels it. `ended` is called after it, even if it never began."""
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        if ended is not None:
            task.add_done_callback(lambda _: ended())
        if self._is_lost:
            task.cancel()

    def _notify_lost(self, lost: Callable[[], None]) -> None:
        try:
            lost()
        except Exception as error:
            log.error("lost_callback_failed", client=self.host, error=repr(error), exc_info=self._listener.is_debug)

    # --- requests
    @property
    def _is_full(self) -> bool:
        limits = self._limits
        return (
            self._writer is None
            or self._writer.is_paused
            or self._alone is not None
            or (self._client.mute is not None and self._client.mute.is_on)
            or len(self._slots) + len(self._unplaced) >= limits.in_flight_requests_max
            or self._in_flight_bytes >= limits.in_flight_bytes_max
            or (
                self._in_flight_bytes + self._unfinished_bytes >= limits.in_flight_reserved_bytes
                and self._listener.is_full
                and not (self._unfinished_bytes and self._listener.may_overdraw(self))
            )
        )

    def _count_unfinished(self) -> None:
        held_bytes = self._splitter.held_bytes
        grown_bytes = held_bytes - self._unfinished_bytes
        self._unfinished_bytes = held_bytes
        if grown_bytes > 0:
            self._listener.take(grown_bytes)
        elif grown_bytes < 0:
            self._listener.give_back(-grown_bytes)
        if not held_bytes:
            self._listener.end_overdraft(self)

    def _may_be_so_long(self) -> bool:
        """Whether the incomplete frame may have the announced length. If not, closes the connection."""
        announced_bytes, api_key = self._splitter.unfinished
        if api_key == ApiKey.PRODUCE or not self._is_ordered:
            return True
        allowed_bytes = self._limits.other_request_bytes_max
        self.close(f"a request of API {api_key} announces {announced_bytes} bytes, {allowed_bytes} are allowed")
        return False

    def _begin_frames(self) -> None:
        """Begin received requests within the limits, a bounded number per turn; resume reading once all are begun."""
        if self._stalls.is_stalled():
            return  # all connections were dropped, and this one with them
        left = self._limits.frames_per_turn_max
        throttles = self._services.throttles
        while self._frames and not self._is_full and self._transport is not None:
            if left == 0:
                self._turn_soon()
                break
            left -= 1
            frame = self._frames.popleft()
            if throttles.is_active and not self._may_begin(frame):
                self._frames.appendleft(frame)
                break
            self._begin(frame)
        if self._transport is None:
            return
        if self._frames or self._is_full:
            self._pause_reading()
        elif self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = False
            self._transport.resume_reading()

    def _may_begin(self, frame: bytearray) -> bool:
        """Whether the client's quotas allow this request. If not, the connection is held until they do."""
        if self._gate is not None and self._client.principal == ANONYMOUS:
            return True  # a login counts for no quota
        try:
            header = self._heads.parse(frame)
        except (KeyError, MalformedMessage):
            return True  # `_begin` will close the connection
        return self._client.may_begin(header, len(frame))

    def quotas_changed(self) -> None:
        """Follow a change of quotas."""
        self._client.forget()

    def _turn_soon(self) -> None:
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        self._begin_frames()

    def room(self) -> None:
        """Go on: the shared budget has room again."""
        self._begin_frames()

    def _pause_reading(self) -> None:
        if not self._is_reading_paused and self._transport is not None and not self._transport.is_closing():
            self._is_reading_paused = True
            self._listener.stats.reads_paused += 1
            self._transport.pause_reading()
        if self._listener.is_full:
            self._listener.wait_for_room(self)

    # --- the login
    def open_slot(self, api_key: ApiKey, size_bytes: int) -> Slot:
        """Add a slot for the answer to a frame of this size."""
        slot = Slot(self, api_key, size_bytes, self._loop.time())
        if self._is_ordered:
            self._slots.append(slot)
        else:
            self._unplaced[slot] = None
        self._in_flight_bytes += size_bytes
        self._listener.take(size_bytes)
        self._listener.stats.requests[api_key] += 1
        return slot

    def hold(self, slot: Reply) -> None:
        """Implements Guarded.hold."""
        self._alone = slot

    def release(self, slot: Reply) -> None:
        """Implements Guarded.release and Answered.release."""
        if self._alone is slot:
            self._alone = None
            self._begin_frames()

    def let_in(self, principal: str, *, is_token: bool, is_for_ever: bool) -> None:
        """Implements Guarded.let_in: the client has logged in. `is_for_ever`: its session has no end, so the gate is removed."""
        self._client.is_named(principal, is_token=is_token)
        self._end_pending()
        self._splitter.limit(self._limits.request_bytes_max, self._limits.frame_bytes_at_first_max)
        if is_for_ever:
            self._gate = None

    def end_with(self, slot: Reply, frame: bytes, reason: str) -> None:
        """Implements Guarded.end_with."""
        if self._transport is not None and not self._transport.is_closing():
            self._listener.note_bad(self, reason)
            slot((frame,))
            self.stop()

    def _begin(self, frame: bytearray) -> None:
        if self._gate is not None and self._gate.takes(frame):
            return
        try:
            header = self._heads.parse(frame)
            api_key, api = self._listener.served[header.api_key]
        except KeyError:
            self.close(f"API {header.api_key} is not served")
            return
        except MalformedMessage as error:
            self.close(str(error))
            return
        slot = self.open_slot(api_key, len(frame))
        try:
            self._dispatch(api_key, api, header, frame, slot)
        except (MalformedMessage, UnsupportedVersion) as error:
            self.close(f"{api_key.name} version {header.api_version}: {error}")
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self._answers.note_failure(api_key, slot, error)
            slot(None)

    def _dispatch(self, api_key: ApiKey, api: Api, header: RequestHeader, frame: bytearray, slot: Slot) -> None:
        if not api.version_min <= header.api_version <= api.version_max:
            if api_key is not ApiKey.API_VERSIONS:
                raise UnsupportedVersion(f"{api.version_min} to {api.version_max} are served")
            slot((unsupported_api_versions_response(header.correlation_id),))
            return
        context = self._client.context_of(header)
        hot = self._listener.hot_handlers.get(api_key)
        if api_key is ApiKey.FETCH and len(frame) > self._limits.fetch_at_once_bytes_max:
            self._alone = slot
            self.begin(self._answers.fetch_large(header, frame, context, slot), partial(self.release, slot))
            return
        if hot is not None:
            if context.throttle is None:
                hot(frame, header, context, self._services, slot)
            else:
                context.throttle.call(partial(hot, frame, header, context, self._services, slot))
            return
        eager = (
            None
            if self._tasks or context.throttle is not None or self._services.access.is_on
            else EAGER_HANDLERS.get(api_key)
        )
        if eager is not None and eager(frame, header, context, self._received_s, self._services, slot):
            return
        if len(frame) > self._limits.at_once_bytes_max and self._is_ordered:
            self._alone = slot
            answering = self._answers.answer_large(api_key, api, header, frame, context, self._received_s, slot)
            self.begin(answering, partial(self.release, slot))
            return
        request = decode_request(header, frame)
        if api_key is ApiKey.API_VERSIONS and header.api_version >= 3:
            self._client.has_software(request.client_software_name, request.client_software_version)
        context = with_received(context, api, frame, request, self._received_s)
        self.begin(self._answers.answer(HANDLERS[api_key], api_key, header, request, context, slot))

    # --- answers
    def answered(self, slot: Slot) -> None:
        if not self._is_ordered:
            self._unplaced.pop(slot, None)
            self._slots.append(slot)
        if not self._is_flush_due and self._slots and self._slots[0].is_done:
            self._is_flush_due = True
            if not self._is_receiving:  # while data is being received, `buffer_updated` flushes at its end
                self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        transport, writer, slots = self._transport, self._writer, self._slots
        if transport is None or writer is None:
            return
        now_s = self._loop.time()
        stats = self._listener.stats
        out: list[AnswerPart] = []
        sent = released = 0
        has_files = False
        while slots and slots[0].is_done:
            slot = slots.popleft()
            released += slot.request_bytes
            if slot.when_sent is not None:
                slot.when_sent()
            if slot.buffers:
                size = sum(map(len, slot.buffers))
                out.append(size.to_bytes(4, "big"))
                out.extend(slot.buffers)
                sent += size + 4
            if slot.api_key == ApiKey.PRODUCE:
                stats.produce_latency.observe(now_s - slot.started_s)
                stats.produce_times.observe(now_s - slot.started_s)
            elif slot.api_key == ApiKey.FETCH:
                stats.fetch_latency.observe(now_s - slot.started_s)
                for part in slot.buffers:
                    if not isinstance(part, MEMORY):
                        has_files = True
                        break
        self._in_flight_bytes -= released
        if out and not transport.is_closing():
            stats.sent_bytes += sent
            self.active_at_s = now_s
            writer.write(out, has_files=has_files)
        self._listener.give_back(released)
        if self._is_stopping:
            self._close_when_idle()
        elif self._frames or self._is_reading_paused:
            self._begin_frames()

    def writing_moved(self) -> None:
        """Implements Writing.writing_moved."""
        self.active_at_s = self._loop.time()

    def writing_resumed(self) -> None:
        """Implements Writing.writing_resumed."""
        if self._is_stopping:
            self._close_when_idle()
        elif self._frames or self._is_reading_paused:
            self._begin_frames()

    def writing_failed(self, error: OSError) -> None:
        """Implements Writing.writing_failed."""
        log.debug("answer_not_sent", client=self.host, error=str(error))
        self.abort()

    # --- ending
    def close(self, reason: str) -> None:
        """Close at once, because of the client's bytes, or because it did not read answers."""
        if self._transport is not None and not self._transport.is_closing():
            self._listener.note_bad(self, reason)
            self._transport.abort()

    def close_if_idle(self, before_s: float) -> None:
        """Close if no byte was received or sent since `before_s`: the client is silent, or does not read its answers."""
        is_waiting = self._slots or self._unplaced
        is_stuck = self._writer is not None and (not is_waiting or self._writer.is_paused)
        if is_stuck and self.active_at_s < before_s and not self._client.is_muted:
            self.abort()

    def close_if_stalled(self, before_s: float) -> None:
        """Close if a half-sent request holds room that others wait for, and no byte of it has come since `before_s`."""
        if self._unfinished_bytes and not self._is_reading_paused and self.active_at_s < before_s:
            self.close("a half-sent request stalled while the shared budget was full")

    def stop(self) -> None:
        """Begin no more requests, and close once all that were begun are answered."""
        self._is_stopping = True
        self._frames.clear()
        self._close_when_idle()

    @property
    def unanswered(self) -> tuple[int, ...]:
        """The API keys of the requests that were begun and have no answer yet."""
        return tuple(slot.api_key for slot in (*self._slots, *self._unplaced) if not slot.is_done)

    def _close_when_idle(self) -> None:
        is_sending = self._writer is not None and self._writer.unsent_bytes
        if self._transport is not None and not self._slots and not self._unplaced and not is_sending:
            self._transport.close()

    def drop(self) -> None:
        """Close at once. Unanswered requests are cancelled as far as that is possible."""
        self._is_stopping = True
        self._frames.clear()
        for slot in (*self._slots, *self._unplaced):
            slot.lose()
        for task in self._tasks:
            task.cancel()  # cancel now: some could run before the transport reports the close
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
