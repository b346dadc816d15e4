"""A listener: accepts connections, has their shared budgets, closes idle ones, and stops without losing an answer.

`bind` takes the address, and `serve` begins to accept. (The services behind the listener need its port before they are ready.)
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import structlog

from bmq.aio.loop_turns import LoopTurns
from bmq.metadata.connection_limits import ConnectionLimits
from bmq.protocol.apis import APIS, Api, ApiKey
from bmq.protocol.frames import ReceiveBuffer
from bmq.proxy import handlers
from bmq.proxy.connection import Connection
from bmq.proxy.connections_by_host import ConnectionsByHost
from bmq.proxy.dispatch import HANDLERS, HOT_HANDLERS, HotHandler
from bmq.proxy.handshake_turns import HandshakeTurns
from bmq.proxy.large_requests import LargeRequests
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.listener_socket import ListenerSocket
from bmq.proxy.pending_connections import PendingConnections
from bmq.proxy.refusal_log import RefusalLog
from bmq.proxy.services import Services
from bmq.proxy.stall_watch import StallWatch
from bmq.proxy.stats import ProxyStats
from bmq.proxy.tls_acceptor import TlsAcceptor
from bmq.proxy.traced_requests import traced_handlers
from bmq.tracing.traces import Traces

log = structlog.get_logger("bmq.proxy")

BACKLOG: Final = 1024
_HOUSEKEEPING_S: Final = 0.5
_IDLE_CHECK_S: Final = 10.0


class KafkaServer:
    """A listener on one event loop.

    `apis`: the APIs that it serves; a request of another API closes its connection. `is_ordered`: answers are sent in request
    order, as clients expect; False: each as soon as it is ready. `stats` also counts the bytes in flight, so every listener has
    its own. `stalls`: when it notices a stall of the event loop, all connections are dropped. `turns`: the turns of all long work
    on this event loop. `trim_memory`: gives freed memory back to the operating system, after large requests.
    """

    services: Services

    def __init__(
        self,
        limits: ProxyLimits,
        stats: ProxyStats,
        *,
        is_debug: bool = False,
        apis: Mapping[ApiKey, Api] = APIS,
        is_ordered: bool = True,
        stalls: StallWatch | None = None,
        turns: LoopTurns | None = None,
        trim_memory: Callable[[], object] | None = None,
    ) -> None:
        handlers.load_all()
        self.hot_handlers: Mapping[ApiKey, HotHandler] = HOT_HANDLERS
        self._traces: Traces | None = None
        self.apis = apis
        self.served: Mapping[int, tuple[ApiKey, Api]] = {}
        self.is_ordered = is_ordered
        self.limits = limits
        self.is_debug = is_debug
        self.stats = stats
        self.loop = asyncio.get_running_loop()
        self.stalls = stalls or StallWatch()
        self.stalls.on_stall(self._drop_all)
        self.turns = turns or LoopTurns()
        self.large_requests = LargeRequests(limits.decoded_bytes_max, trim_memory)
        self.receive_buffer = ReceiveBuffer(limits.receive_buffer_bytes)
        self._is_serving = False
        self._connections: ConnectionsByHost[Connection] = ConnectionsByHost()
        self._waiting: dict[Connection, None] = {}
        self._overdrawing: Connection | None = None
        self._overdrawn_s = 0.0  # when that began
        self._servers: dict[str, asyncio.Server | TlsAcceptor] = {}  # by the sockets' names
        self.pending = PendingConnections(limits.pending_connections_max, limits.pending_connections_per_host_max)
        self._handshake_turns = HandshakeTurns(self.loop.call_soon)
        self._listener_sockets: dict[str, ListenerSocket] = {}
        self._is_stopping = False
        self._all_gone: asyncio.Event = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._next_idle_check_s = 0.0
        self._refusals = RefusalLog(self.loop.time)

    def use_traces(self, traces: Traces) -> None:
        """Trace sampled requests; before it serves."""
        self._traces = traces

    async def bind(self, host: str, port: int, listener_socket: ListenerSocket | None = None) -> tuple[str, int]:
        """Take an address for a listener. Returns the address with the real port. Raises OSError."""
        listener_socket = listener_socket or ListenerSocket()
        self._listener_sockets[listener_socket.name] = listener_socket
        make_connection = partial(Connection, self, listener_socket)
        if listener_socket.is_tls:
            acceptor = TlsAcceptor(
                self.loop,
                listener_socket,
                make_connection,
                self.pending,
                self.note_refused,
                turns=self._handshake_turns,
            )
            self._servers[listener_socket.name] = acceptor
            return await acceptor.bind(host, port)
        server = await self.loop.create_server(make_connection, host, port, backlog=BACKLOG, start_serving=False)
        self._servers[listener_socket.name] = server
        name = server.sockets[0].getsockname()
        return str(name[0]), int(name[1])

    @property
    def listener_sockets(self) -> Mapping[str, ListenerSocket]:
        """The bound sockets, by the listener's name."""
        return self._listener_sockets

    async def serve(self, services: Services) -> None:
        """Begin to accept connections. Raises OSError if the port is taken already."""
        assert self._servers
        self.services = services
        # By now every handler is registered, also those of another package for a listener of its own.
        self.served = {int(key): (key, api) for key, api in self.apis.items() if key in HANDLERS or key in HOT_HANDLERS}
        if self._traces is not None:
            self.hot_handlers = traced_handlers(self._traces, is_between_nodes=not self.is_ordered)
        await services.access.prepare(self.turns)
        services.throttles.on_change(self._quotas_changed)
        self._is_serving = True
        for server in self._servers.values():
            if isinstance(server, TlsAcceptor):
                server.start(BACKLOG)
            else:
                await server.start_serving()
        self._timer = self.loop.call_later(_HOUSEKEEPING_S, self._housekeeping)

    async def stop(self, timeout_s: float) -> None:
        """Stop accepting, let requests under way finish for at most `timeout_s`, and then close all connections."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        for server in self._servers.values():
            if isinstance(server, TlsAcceptor):
                await server.close()
            else:
                server.close()
        for connection in self.connections:
            connection.stop()
        if self._connections:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._all_gone.wait()
            except TimeoutError:
                unanswered = Counter(key for connection in self.connections for key in connection.unanswered)
                log.warning(
                    "connections_cut",
                    connections=len(self._connections),
                    unanswered={ApiKey(key).name: count for key, count in unanswered.items()},
                )
                for connection in self.connections:
                    connection.abort()

    # --- connections
    @property
    def connections(self) -> tuple[Connection, ...]:
        """The open connections, oldest first."""
        return tuple(self._connections)

    def admit(self, connection: Connection) -> bool:
        """Whether a new connection is served; if not, the caller closes it."""
        in_force = self.services.connection_limits if self._is_serving else None
        limits = ConnectionLimits(self.limits.connections_max) if in_force is None else in_force()
        total, of_host = len(self._connections), self._connections.of_host(connection.host)
        if self._is_stopping or total >= limits.total:
            self.stats.connections_refused += 1
            if not self._is_stopping:
                self.note_bad(connection, f"there are {total} connections already")
            return False
        if of_host >= limits.of_host(connection.host):
            self.stats.connections_refused += 1
            self.note_bad(connection, f"there are {of_host} connections from its address already")
            return False
        if self.stalls.is_settling:
            return False  # it was made during a stall, so its requests may be as old
        self._connections.add(connection.host, connection)
        self.stats.connections = len(self._connections)
        return True

    def _quotas_changed(self) -> None:
        for connection in self.connections:
            connection.quotas_changed()

    def _drop_all(self, stall_s: float) -> None:
        if self._connections:
            log.warning("connections_dropped", connections=len(self._connections), stalled_s=round(stall_s, 3))
        for connection in self.connections:
            connection.drop()

    def forget(self, connection: Connection) -> None:
        self._connections.remove(connection)
        self._waiting.pop(connection, None)
        self.stats.connections = len(self._connections)
        if self._is_stopping and not self._connections:
            self._all_gone.set()

    def note_bad(self, connection: Connection, reason: str) -> None:
        """Log that a connection is closed because of its client; at most a few lines a second."""
        self.note_refused(connection.host, reason)

    def note_refused(self, host: str, reason: str) -> None:
        """Log that a client is refused before it has a connection; at most a few lines a second."""
        self.stats.connections_closed_bad += 1
        self._refusals.note(host, reason)

    # --- the shared budget
    @property
    def is_full(self) -> bool:
        return self.stats.in_flight_bytes >= self.limits.in_flight_total_bytes_max

    def take(self, size_bytes: int) -> None:
        self.stats.in_flight_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        self.stats.in_flight_bytes -= size_bytes
        if self._waiting and not self.is_full:
            waiting, self._waiting = self._waiting, {}
            for connection in waiting:
                self.loop.call_soon(connection.room)

    def may_overdraw(self, connection: Connection) -> bool:
        """Whether the connection may exceed the limit to complete a frame. One at a time may, else all could wait."""
        if self._overdrawing is None:
            self._overdrawing, self._overdrawn_s = connection, self.loop.time()
        return self._overdrawing is connection

    def end_overdraft(self, connection: Connection) -> None:
        if self._overdrawing is connection:
            self._overdrawing = None
            waiting, self._waiting = self._waiting, {}
            for other in waiting:
                self.loop.call_soon(other.room)

    def wait_for_room(self, connection: Connection) -> None:
        self._waiting[connection] = None

    # --- time
    def _housekeeping(self) -> None:
        now_s = self.loop.time()
        self.services.produce_deadlines.expire(now_s)
        self.services.appender.expire(now_s)
        if self.is_full:
            stalled_before_s = now_s - self.limits.stalled_request_ms / 1000
            for connection in self.connections:
                connection.close_if_stalled(stalled_before_s)
            if self._overdrawing is not None and self._overdrawn_s < stalled_before_s:
                self._overdrawing.close("a request took too long to arrive while the shared budget was full")
        if now_s >= self._next_idle_check_s:
            self._next_idle_check_s = now_s + _IDLE_CHECK_S
            before_s = now_s - self.limits.connections_max_idle_ms / 1000
            for connection in self.connections:
                connection.close_if_idle(before_s)
        self._timer = self.loop.call_later(_HOUSEKEEPING_S, self._housekeeping)
