"""One client's connection: frames in, answers out in request order, within limits.

Requests run concurrently; each has a slot in a queue, and the finished slots at its head are sent. Between nodes
answers need no order (the link matches them by their ids): there a slot joins the queue when it is finished. At a limit
(requests or bytes in flight, per connection or in all; answers that the client does not take) the socket is no longer
read.

After a stall of the event loop the connection is dropped before data that arrived meanwhile is parsed (StallWatch).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol, cast

import structlog

from bmq.aio.loop_turns import LoopTurns, run_in_turns
from bmq.protocol.apis import Api, ApiKey, Route
from bmq.protocol.codec import (
    RequestHeader,
    decode_request,
    decode_request_in_turns,
    encode_response_header,
    encode_response_in_turns,
    unsupported_api_versions_response,
)
from bmq.protocol.errors import BmqError, MalformedMessage, UnsupportedVersion
from bmq.protocol.frames import FrameSplitter, ReceiveBuffer
from bmq.protocol.parts import MEMORY
from bmq.protocol.parts import Part as AnswerPart
from bmq.protocol.refusals import refused
from bmq.protocol.request_context import ANONYMOUS, Received, RequestContext
from bmq.protocol.request_heads import RequestHeads
from bmq.protocol.wire import Buffer
from bmq.proxy.authentication import FRAME_BYTES_AT_FIRST_MAX, FRAME_BYTES_MAX, SaslGate
from bmq.proxy.dispatch import EAGER_HANDLERS, HANDLERS, HOT_HANDLERS, EncodedBody, EncodedPieces, Handler
from bmq.proxy.encrypted_sender import EncryptedSender
from bmq.proxy.entrance import Entrance, subject_of
from bmq.proxy.file_sender import FileSender
from bmq.proxy.large_requests import LargeRequests, decoded_bytes
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.mute import Mute
from bmq.proxy.part_answers import AnswerTooLarge, PartAnswers, surveyed
from bmq.proxy.pending_connections import PendingConnections
from bmq.proxy.reply import Reply
from bmq.proxy.services import Services
from bmq.proxy.split_requests import READING, split_of
from bmq.proxy.stall_watch import StallWatch
from bmq.proxy.stats import ProxyStats
from bmq.security.distinguished_names import NoRule

log = structlog.get_logger("bmq.proxy")

WAIT_FOR_MEMBERS: Final = frozenset((ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP))
"""Requests that are answered when other members of their group have sent theirs."""
KEPT_NAME_CHARS_MAX: Final = 256
"""Of a client's id and software that are kept for its connection: there may be thousands of idle ones."""
ONLY: Final = Entrance()
"""The way in of a server that has one listener, without TLS."""
_NO_ANSWER: Final[Sequence[AnswerPart]] = ()


class Listener(Protocol):
    """What connections need of the listener that accepted them; see bmq.proxy.server.KafkaServer."""

    limits: ProxyLimits
    loop: asyncio.AbstractEventLoop
    stats: ProxyStats
    stalls: StallWatch
    services: Services
    pending: PendingConnections
    receive_buffer: ReceiveBuffer
    turns: LoopTurns
    large_requests: LargeRequests
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


class Slot:
    """One request's place in the order of answers. Call it with the answer; see bmq.proxy.reply.Reply."""

    __slots__ = ("_connection", "api_key", "buffers", "is_done", "request_bytes", "started_s")

    def __init__(self, connection: Connection, api_key: int, request_bytes: int, started_s: float) -> None:
        self._connection = connection
        self.api_key = api_key
        self.request_bytes = request_bytes
        self.started_s = started_s
        self.is_done = False
        self.buffers: Sequence[AnswerPart] = _NO_ANSWER

    def __call__(self, buffers: Sequence[AnswerPart] | None) -> None:
        if not self.is_done:
            self.is_done = True
            if buffers is None:
                self._connection.close("the request cannot be answered")
            else:
                self.buffers = buffers
                self._connection.answered(self)


class Connection(asyncio.BufferedProtocol):
    """Created by the listener for each client. It is the `peer` of its requests' contexts."""

    def __init__(self, listener: Listener, entrance: Entrance = ONLY) -> None:
        self._listener = listener
        self._entrance = entrance
        # Before the listener serves there are none, and no connection is admitted.
        self._services = cast(Services, entrance.services or getattr(listener, "services", None))
        self._stalls = listener.stalls
        self._limits = listener.limits
        self._loop = listener.loop
        self._splitter = FrameSplitter(
            listener.receive_buffer, listener.limits.request_bytes_max, listener.limits.frame_bytes_at_first_max
        )
        self._heads = RequestHeads()
        self._transport: asyncio.Transport | None = None
        self._sender: FileSender | None = None  # writes instead of the transport from the first answer in files on
        self._encrypted: EncryptedSender | None = None  # of a TLS connection: all answers go this way
        self._first_received_s: float | None = None
        self._is_ordered = listener.is_ordered
        self._slots: deque[Slot] = deque()  # in the order in which their answers are sent
        self._unplaced: dict[Slot, None] = {}  # unanswered requests where answers need no order
        self._frames: deque[bytearray] = deque()  # received, not begun yet
        self._in_flight_bytes = 0
        self._unfinished_bytes = 0  # of an incomplete frame, counted in the shared budget
        self._is_reading_paused = False
        self._is_writing_paused = False
        self._is_flush_due = False
        self._is_receiving = False
        self._is_turn_due = False
        self._is_stopping = False
        self._mute: Mute | None = None  # made when a quota holds for the client
        self._alone: Slot | None = None  # a large request under way: the next one begins when it is answered
        self._gate: SaslGate | None = None  # while a login is demanded, or its session has an end
        self._principal, self._is_token = ANONYMOUS, False
        self._context: RequestContext | None = None
        self._software = ("unknown", "unknown")
        self._tasks: dict[asyncio.Task[None], None] = {}  # cancelled in this order
        self._when_lost: dict[Callable[[], None], None] = {}
        self._is_lost = False
        self.host = ""
        self._port = -1
        self.active_at_s = 0.0
        self._received_s = 0.0  # of the oldest of `_frames`, or the last value

    # --- the transport's side
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if not peer:  # it has left; and without an address it must not pass for a request of our own (is_own)
            self._is_stopping = True
            self._transport.abort()
            return
        self.host, self._port = str(peer[0]), peer[1]
        self.active_at_s = self._loop.time()
        # A host that lost power closes nothing; and an answer may be awaited for longer than any idle limit.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._services is None or not self._listener.admit(self):  # None: it does not serve yet
            self._transport.abort()
            return
        if self._entrance.is_tls:
            self._encrypted = EncryptedSender(self._loop, self._transport, self, self._services.response_budget)
            self._encrypted.begin()
        else:
            self._transport.set_write_buffer_limits(high=self._limits.unsent_bytes_max)
        rates = self._services.throttles.connection_rates
        if rates is not None:
            wait_ms, is_refused = rates.arrived(self.host)
            if is_refused:
                self._is_stopping = True  # what it sends is not looked at
                self._loop.call_later(wait_ms / 1000, self.abort)
            elif wait_ms:
                self._muted().last(wait_ms)
        security = self._entrance.security
        if security.protocol.is_sasl:
            self._splitter.limit(FRAME_BYTES_MAX, FRAME_BYTES_AT_FIRST_MAX)
            logins = self._services.logins
            assert logins is not None
            self._gate = SaslGate(self, logins, security, self._listener.stats, self._loop)
            self._listener.pending.add(self.host, self)
        elif self._entrance.is_tls:
            self._name_by_certificate(transport)

    def _name_by_certificate(self, transport: asyncio.BaseTransport) -> None:
        """The principal of the client's certificate; without one it stays anonymous."""
        certificate = transport.get_extra_info("peercert")
        if why := self._entrance.why_refused(certificate):
            self._turn_away(why)
            return
        subject = subject_of(certificate)
        if subject is None:
            return
        try:
            self._principal = self._entrance.principal_of(subject)
        except NoRule as error:
            self._turn_away(f"its certificate gives it no name: {error}")

    def _turn_away(self, reason: str) -> None:
        """Close before anything is read: what came with the handshake is not looked at."""
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
        if self._encrypted is None:  # that one looks by itself
            self._is_writing_paused = True

    def resume_writing(self) -> None:
        if self._encrypted is not None:
            self._encrypted.resume()
            return
        sender = self._sender
        if sender is not None and not sender.has_begun:
            sender.begin()
            self._pause_for_sender(sender)
            return
        self._is_writing_paused = False
        self.active_at_s = self._loop.time()
        self._begin_frames()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._gate is not None:
            self._gate.close()
            self._gate = None
            self._listener.pending.remove(self)
        for sender in (self._sender, self._encrypted):
            if sender is not None:
                sender.close()
        self._is_lost = True
        if self._mute is not None:
            self._mute.close()
        self.forget_context()  # it refers to this connection
        self._frames.clear()
        for slot in (*self._slots, *self._unplaced):
            slot.is_done = True
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
            self._tell(lost)

    # --- for handlers
    @property
    def age_s(self) -> float:
        return 0.0 if self._first_received_s is None else self._stalls.now_s() - self._first_received_s

    def on_lost(self, lost: Callable[[], None]) -> None:
        """Call `lost` once when the connection closes, from either side; soon if it is closed. Duplicates count
        once."""
        if self._is_lost:
            self._loop.call_soon(self._tell, lost)
        else:
            self._when_lost[lost] = None

    def begin(self, work: Coroutine[Any, Any, None], ended: Callable[[], None] | None = None) -> None:
        """Run a task for a request until the connection ends. `ended` is called after it, even if it never began."""
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        if ended is not None:
            task.add_done_callback(lambda _: ended())
        if self._is_lost:
            task.cancel()

    def _tell(self, lost: Callable[[], None]) -> None:
        try:
            lost()
        except Exception as error:
            log.error("lost_callback_failed", client=self.host, error=repr(error), exc_info=self._listener.is_debug)

    # --- requests
    @property
    def _is_full(self) -> bool:
        limits = self._limits
        return (
            self._is_writing_paused
            or self._alone is not None
            or (self._mute is not None and self._mute.is_on)
            or len(self._slots) + len(self._unplaced) >= limits.in_flight_requests_max
            or self._in_flight_bytes >= limits.in_flight_bytes_max
            or (
                self._listener.is_full
                and self._in_flight_bytes + self._unfinished_bytes >= limits.in_flight_reserved_bytes
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
        """Whether the incomplete frame is a Produce; else the connection is closed."""
        announced_bytes, api_key = self._splitter.unfinished
        if api_key == ApiKey.PRODUCE or not self._is_ordered:
            return True
        allowed_bytes = self._limits.other_request_bytes_max
        self.close(f"a request of API {api_key} announces {announced_bytes} bytes, {allowed_bytes} are allowed")
        return False

    def _begin_frames(self) -> None:
        """Begin received requests within the limits, a limited number per turn; resume reading once all are begun."""
        if self._stalls.is_stalled():
            return  # this connection was dropped with all others
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
        """Whether the client's quotas allow it; else this connection is held until they do."""
        if self._gate is not None and self._principal == ANONYMOUS:
            return True  # a login counts for nobody
        try:
            header = self._heads.parse(frame)
        except (KeyError, MalformedMessage):
            return True  # `_begin` closes the connection
        throttle = self._context_of(header).throttle
        return throttle is None or throttle.may_begin(header.api_key, len(frame))

    def _muted(self) -> Mute:
        if self._mute is None:
            self._mute = Mute(self._loop, self._begin_frames)
        return self._mute

    def forget_context(self) -> None:
        """What was known of the client is outdated: its principal, or the quotas in force."""
        if self._context is not None and self._context.throttle is not None:
            self._context.throttle.close()
        self._context = None
        if self._mute is not None:
            self._mute.go_on()

    def _turn_soon(self) -> None:
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        self._begin_frames()

    def room(self) -> None:
        """The shared budget has room again."""
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
        """A place for the answer to a frame of this size."""
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
        self._alone = cast(Slot, slot)

    def release(self, slot: Reply) -> None:
        """Implements Guarded.release."""
        self._not_alone(cast(Slot, slot))

    def let_in(self, principal: str, *, is_token: bool, is_for_ever: bool) -> None:
        """Implements Guarded.let_in: the client is known; `is_for_ever`: no request has to be looked at for that again."""
        self._principal, self._is_token = principal, is_token
        self._listener.pending.remove(self)
        self.forget_context()
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
            self._note_failure(api_key, error)
            slot(None)

    def _dispatch(self, api_key: ApiKey, api: Api, header: RequestHeader, frame: bytearray, slot: Slot) -> None:
        if not api.version_min <= header.api_version <= api.version_max:
            if api_key is not ApiKey.API_VERSIONS:
                raise UnsupportedVersion(f"{api.version_min} to {api.version_max} are served")
            slot((unsupported_api_versions_response(header.correlation_id),))
            return
        context = self._context_of(header)
        hot = HOT_HANDLERS.get(api_key)
        if api_key is ApiKey.FETCH and len(frame) > self._limits.fetch_at_once_bytes_max:
            self._alone = slot
            self.begin(self._fetch_large(header, frame, context, slot), partial(self._not_alone, slot))
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
        if api_key not in HANDLERS:
            self.close(f"API {header.api_key} is not served")
            return
        if len(frame) > self._limits.at_once_bytes_max and self._is_ordered:
            self._alone = slot
            self.begin(self._answer_large(api_key, api, header, frame, context, slot), partial(self._not_alone, slot))
            return
        request = decode_request(header, frame)
        if api_key is ApiKey.API_VERSIONS and header.api_version >= 3:
            self._software = (
                request.client_software_name[:KEPT_NAME_CHARS_MAX],
                request.client_software_version[:KEPT_NAME_CHARS_MAX],
            )
            self._context = None
        context = self._context_for(api, frame, request, context, self._received_s)
        self.begin(self._answer(HANDLERS[api_key], api_key, header, request, context, slot))

    def _context_for(
        self, api: Api, frame: bytearray, request: Any, context: RequestContext, received_s: float
    ) -> RequestContext:
        received = None if api.route is Route.LOCAL else Received(frame, request)
        return replace(context, received_s=received_s, received=received)

    def _not_alone(self, slot: Slot) -> None:
        """Call once this request is answered, or its order among the connection's requests is certain."""
        if self._alone is slot:
            self._alone = None
            self._begin_frames()

    async def _answer_large(
        self, api_key: ApiKey, api: Api, header: RequestHeader, frame: bytearray, context: RequestContext, slot: Slot
    ) -> None:
        """Decode and answer in turns, once there is room for it."""
        received_s = self._received_s
        admission = await self._listener.large_requests.admit(decoded_bytes(len(frame)))
        try:
            request, parts = None, None
            turns = self._listener.turns
            try:
                if len(frame) > self._limits.decoded_whole_bytes_max:
                    parts = await surveyed(api_key, header, frame, turns)
                if parts is None:
                    request = await run_in_turns(decode_request_in_turns(header, frame), turns)
            except (MalformedMessage, UnsupportedVersion) as error:
                self.close(f"{api_key.name} version {header.api_version}: {error}")
                return
            if self._is_too_old(api_key, received_s):
                self.close(f"a large {api_key.name} waited until its client may have given it up")
                return
            if api_key in WAIT_FOR_MEMBERS:
                # They wait for minutes, and end with their connection, so that has to be read. What groups keep of them
                # has bounds of its own.
                admission.release()
                self._loop.call_soon(self._not_alone, slot)
            handler = HANDLERS[api_key]
            is_too_late = partial(self._is_too_old, api_key, received_s)
            if parts is not None:
                split, streamed = parts
                request = streamed.request
                handler = partial(PartAnswers(handler, api_key, split, turns, is_too_late).streamed, streamed)
            elif (found := split_of(api_key, header.api_version, request)) is not None:
                handler = PartAnswers(handler, api_key, found, turns, is_too_late).decoded
            else:
                context = self._context_for(api, frame, request, context, received_s)
            if context.received is None:
                frame = bytearray()  # the parts have frames of their own, if they are sent on
                context = replace(context, received_s=received_s)
            await self._answer(handler, api_key, header, request, context, slot)
        finally:
            admission.release()

    def _context_of(self, header: RequestHeader) -> RequestContext:
        context = self._context
        if context is None or context.api_version != header.api_version or context.client_id != header.client_id:
            throttles = self._services.throttles
            context = RequestContext(
                header.api_version,
                header.client_id,
                self.host,
                self._software[0],
                self._software[1],
                self._principal,
                self._is_token,
                self._entrance.name,
                peer=self,
                apis=self._listener.apis,
                client_port=self._port,
                turns=self._listener.turns,
                throttle=throttles.of(self._principal, header.client_id, self._muted) if throttles.is_active else None,
            )
            if len(header.client_id or "") <= KEPT_NAME_CHARS_MAX:
                self._context = context
        return context

    async def _answer(
        self,
        handler: Handler,
        api_key: ApiKey,
        header: RequestHeader,
        request: Any,
        context: RequestContext,
        slot: Slot,
    ) -> None:
        throttle = context.throttle
        try:
            answering = handler(request, context, self._services)
            response = await (
                answering if throttle is None else throttle.drive(cast(Coroutine[Any, Any, Any], answering))
            )
        except AnswerTooLarge as error:
            self.close(str(error))
            return
        except BmqError as error:
            response = refused(api_key, request, error.code, str(error))
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self._note_failure(api_key, error)
            response = refused(api_key, request, BmqError.code, "")
        if response is None:
            slot(None)
            return
        if throttle is not None:
            told_ms = getattr(response, "throttle_time_ms", 0)
            wait_ms = throttle.answered(told_ms)
            if wait_ms > told_ms and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = wait_ms
        code = getattr(response, "error_code", 0)
        if code:
            self._listener.stats.note_error(api_key, code)
        head = (api_key, header.api_version, header.correlation_id)
        try:
            if isinstance(response, EncodedBody):
                slot((encode_response_header(*head), response.data))
            elif isinstance(response, EncodedPieces):
                slot((encode_response_header(*head), *response.pieces))
            else:
                slot((await run_in_turns(encode_response_in_turns(*head, response), self._listener.turns),))
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            # For example a string too long for the response. Later requests must not wait for ever.
            self._note_failure(api_key, error)
            slot(None)

    async def _fetch_large(self, header: RequestHeader, frame: bytearray, context: RequestContext, slot: Slot) -> None:
        admission = await self._listener.large_requests.admit(decoded_bytes(len(frame)))
        services = self._services
        try:
            await services.fetcher.fetch_in_turns(frame, header, context, services, slot)
        except (MalformedMessage, UnsupportedVersion) as error:
            self.close(f"FETCH version {header.api_version}: {error}")
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self._note_failure(ApiKey.FETCH, error)
            slot(None)
        finally:
            admission.release()

    def _is_too_old(self, api_key: ApiKey, received_s: float | None) -> bool:
        """Whether a change that is asked for by a large request must not be made any more (rule 22): its client may have
        given it up, and done something else since."""
        if api_key in READING:
            return False
        return received_s is not None and self._loop.time() - received_s > self._limits.large_request_ms / 1000

    def _note_failure(self, api_key: ApiKey, error: Exception) -> None:
        log.error(
            "handler_failed", api=api_key.name, client=self.host, error=repr(error), exc_info=self._listener.is_debug
        )

    # --- answers
    def answered(self, slot: Slot) -> None:
        if not self._is_ordered:
            self._unplaced.pop(slot, None)
            self._slots.append(slot)
        if not self._is_flush_due and self._slots and self._slots[0].is_done:
            self._is_flush_due = True
            if not self._is_receiving:  # else `buffer_updated` flushes at once, without a turn of the loop
                self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        transport, slots = self._transport, self._slots
        if transport is None:
            return
        now_s = self._loop.time()
        stats = self._listener.stats
        out: list[AnswerPart] = []
        sent = released = 0
        has_files = False
        while slots and slots[0].is_done:
            slot = slots.popleft()
            released += slot.request_bytes
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
                has_files = has_files or not all(isinstance(part, MEMORY) for part in slot.buffers)
        self._in_flight_bytes -= released
        if out and not transport.is_closing():
            stats.sent_bytes += sent
            self.active_at_s = now_s
            if self._encrypted is not None:
                self._encrypted.send(out)
                self._pause_for_sender(self._encrypted)
            elif has_files or self._sender is not None:
                self._send(transport, out)
            else:
                transport.writelines(cast(list[Buffer], out))
        self._listener.give_back(released)
        if self._is_stopping:
            self._close_when_idle()
        elif self._frames or self._is_reading_paused:
            self._begin_frames()

    def _send(self, transport: asyncio.Transport, parts: Sequence[AnswerPart]) -> None:
        sender = self._sender
        if sender is None:
            descriptor = transport.get_extra_info("socket").fileno()
            sender = self._sender = FileSender(self._loop, descriptor, self)
            if transport.get_write_buffer_size():
                transport.set_write_buffer_limits(high=0)  # `resume_writing` is called when everything is sent
            else:
                sender.begin()
        sender.send(parts)
        self._pause_for_sender(sender)

    def _pause_for_sender(self, sender: FileSender | EncryptedSender) -> None:
        """Like the transport: beyond the limit no request is begun until everything is sent."""
        if sender.unsent_bytes > self._limits.unsent_bytes_max:
            self._is_writing_paused = True

    def sending_moved(self) -> None:
        """Implements Sending.sending_moved."""
        self.active_at_s = self._loop.time()

    def all_sent(self) -> None:
        """Implements Sending.all_sent."""
        self._is_writing_paused = False
        if self._is_stopping:
            self._close_when_idle()
        elif self._frames or self._is_reading_paused:
            self._begin_frames()

    def sending_failed(self, error: OSError) -> None:
        """Implements Sending.sending_failed: half an answer is out, and nothing may follow it."""
        log.debug("answer_not_sent", client=self.host, error=str(error))
        self.abort()

    # --- ending
    def close(self, reason: str) -> None:
        """Close at once because of what the client sent, or answers that it did not take."""
        if self._transport is not None and not self._transport.is_closing():
            self._listener.note_bad(self, reason)
            self._transport.abort()

    def close_if_idle(self, before_s: float) -> None:
        """Close when nothing has moved since `before_s`: the client is silent, or does not take its answers."""
        is_waiting = self._slots or self._unplaced
        if self._mute is not None and self._mute.is_on:
            return
        if self.active_at_s < before_s and self._transport is not None and (not is_waiting or self._is_writing_paused):
            self._transport.abort()

    def close_if_stalled(self, before_s: float) -> None:
        """Close when a half-sent request holds room that others wait for, and no byte of it has come lately."""
        if self._unfinished_bytes and not self._is_reading_paused and self.active_at_s < before_s:
            self.close("a half-sent request stalled while the shared budget was full")

    def stop(self) -> None:
        """Begin no more requests; close once all begun ones are answered."""
        self._is_stopping = True
        self._frames.clear()
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        is_sending = any(one is not None and one.unsent_bytes for one in (self._sender, self._encrypted))
        if self._transport is not None and not self._slots and not self._unplaced and not is_sending:
            self._transport.close()

    def drop(self) -> None:
        """Close at once; unanswered requests are cancelled as far as they still can be."""
        self._is_stopping = True
        self._frames.clear()
        for slot in (*self._slots, *self._unplaced):
            slot.is_done = True
        for task in self._tasks:
            task.cancel()  # now: some may run before the transport reports the close
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
