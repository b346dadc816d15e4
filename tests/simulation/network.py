"""TCP between simulated processes: streams in order, cut into random pieces, each with its own delay.

Bytes a paused reader has not taken fill its window; what a sender writes beyond that stays in its transport, which calls
`pause_writing` as asyncio's own does. Faults: `cut(a, b)` holds everything between two hosts back until `mend` or `heal`,
or only what goes from the first to the second; `reset_rate`, `reset_some` and `reset_between` break connections (either side may lose what was under way), a killed process resets its.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.process import PROCESS, Process

if TYPE_CHECKING:
    from tests.simulation.loop import VirtualTimeLoop

Address = tuple[str, int]

WINDOW_BYTES = 64 * 1024
WRITE_HIGH_BYTES = 64 * 1024
CONNECT_TIMEOUT_S = 10.0
OUTSIDE_HOST = "127.0.0.1"  # of what runs in no process: the test itself


class SimulatedSocket:
    """As much of a socket as `Server.sockets` and `get_extra_info` are asked for."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        return self._address

    def setsockopt(self, *_: Any) -> None:
        """Nothing here waits for more data (TCP_NODELAY) or has kernel buffers."""


class SimulatedServer(asyncio.AbstractServer):
    def __init__(self, network: Network, factory: Callable[[], Any], address: Address, process: Process | None) -> None:
        self.sockets = (SimulatedSocket(address),)
        self.factory = factory
        self.process = process
        self.context = contextvars.copy_context()
        self._network = network
        self._address = address

    def close(self) -> None:
        self._network.unlisten(self._address, self)

    def is_serving(self) -> bool:
        return self._network.listener(self._address) is self

    async def start_serving(self) -> None:
        """It serves from the beginning."""

    async def wait_closed(self) -> None:
        """Connections go on by themselves, as they do before Python 3.12."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop


class Network:
    """All hosts of one simulation. Delays in seconds."""

    def __init__(
        self, loop: VirtualTimeLoop, random: Random, *, delay_s: tuple[float, float] = (0.0001, 0.002)
    ) -> None:
        self.loop = loop
        self.random = random
        self.delay_s = delay_s
        self.reset_rate = 0.0  # chance that a piece of data finds its connection broken
        self.reset_count = 0
        self.connection_count = 0
        self._listeners: dict[Address, SimulatedServer] = {}
        self._ports = 40_000
        self._cuts: set[tuple[str, str]] = set()  # (from, to)
        self._connections: dict[Connection, None] = {}
        loop.network = self

    # --- faults

    def cut(self, host: str, other: str, *, is_one_way: bool = False) -> None:
        self._cuts.add((host, other))
        if not is_one_way:
            self._cuts.add((other, host))

    def mend(self, host: str, other: str) -> None:
        self._cuts -= {(host, other), (other, host)}
        self._pump_all()

    def heal(self) -> None:
        self._cuts.clear()
        self._pump_all()

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def _pump_all(self) -> None:
        for connection in tuple(self._connections):
            connection.heal()

    def reset_between(self, host: str, other: str | None = None) -> None:
        """Break every connection of a host (with another one)."""
        for connection in tuple(self._connections):
            hosts = {end.host for end in connection.ends}
            if host in hosts and (other is None or other in hosts):
                connection.reset()

    def reset_some(self, count: int) -> int:
        """Break this many connections at random, or all if there are fewer; how many."""
        chosen = self.random.sample(tuple(self._connections), min(count, len(self._connections)))
        for connection in chosen:
            connection.reset()
        return len(chosen)

    def kill(self, process: Process) -> None:
        """The kernel closes a dead process's sockets: its peers hear a reset."""
        for address, server in tuple(self._listeners.items()):
            if server.process is process:
                del self._listeners[address]
        for connection in tuple(self._connections):
            if any(end.process is process for end in connection.ends):
                connection.reset()

    # --- for the loop

    def discard(self) -> None:
        """The run is over: nothing is left open."""
        for connection in tuple(self._connections):
            for end in connection.ends:
                end.lose(None)
        self._connections.clear()
        self._listeners.clear()

    def listen(self, factory: Callable[[], Any], host: str | None, port: int | None) -> SimulatedServer:
        process = PROCESS.get()
        address = (host or (process.host if process else OUTSIDE_HOST), port or self._new_port())
        if address in self._listeners:
            raise OSError(98, f"address {address} already in use")
        server = SimulatedServer(self, factory, address, process)  # type: ignore[abstract]
        self._listeners[address] = server
        return server

    def listener(self, address: Address) -> SimulatedServer | None:
        return self._listeners.get(address)

    def unlisten(self, address: Address, server: SimulatedServer) -> None:
        if self._listeners.get(address) is server:
            del self._listeners[address]

    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> tuple[SimulatedTransport, Any]:
        process = PROCESS.get()
        own_host = process.host if process else OUTSIDE_HOST
        waited_s = 0.0
        await asyncio.sleep(self.delay())
        while self.is_cut(own_host, host) or self.is_cut(host, own_host):
            await asyncio.sleep(0.25)
            waited_s += 0.25
            if waited_s >= CONNECT_TIMEOUT_S:
                raise TimeoutError(f"no answer from {host}:{port}")
        server = self._listeners.get((host, port))
        if server is None:
            await asyncio.sleep(self.delay())
            raise ConnectionRefusedError(111, f"nobody listens on {host}:{port}")
        connection = Connection(self)
        near = SimulatedTransport(connection, process, (own_host, self._new_port()), (host, port))
        far = SimulatedTransport(connection, server.process, (host, port), near.address, server.context)
        connection.ends = (near, far)
        near.peer, far.peer = far, near
        self._connections[connection] = None
        self.connection_count += 1
        self.loop.call_soon(far.start, server.factory, context=far.context)
        await asyncio.sleep(self.delay())
        if near.is_closing():
            raise ConnectionResetError(104, "connection reset by peer")
        protocol = factory()
        near.begin(protocol)
        return near, protocol

    def delay(self) -> float:
        low, high = self.delay_s
        return low + (high - low) * self.random.random() ** 2

    def gone(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    def _new_port(self) -> int:
        self._ports += 1
        return self._ports


class Connection:
    """Two ends. Broken at most once."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.ends: tuple[SimulatedTransport, ...] = ()

    def reset(self) -> None:
        self.network.reset_count += 1
        self.network.gone(self)
        for end in self.ends:
            end.lose(ConnectionResetError(104, "connection reset by peer"))

    def heal(self) -> None:
        for end in self.ends:
            end.pump()


class SimulatedTransport(asyncio.Transport):
    """One end. Everything its protocol hears is called in the context of its own process."""

    peer: SimulatedTransport

    def __init__(
        self,
        connection: Connection,
        process: Process | None,
        address: Address,
        peer_address: Address,
        context: contextvars.Context | None = None,
    ) -> None:
        super().__init__(
            {"peername": peer_address, "sockname": address, "socket": SimulatedSocket(address), "compression": None}
        )
        self.process = process
        self.address = address
        self.host = address[0]
        # One context for each end: a context cannot be entered twice, and the listener's belongs to all its connections.
        self.context = (context or contextvars.copy_context()).copy()
        self._connection = connection
        self._network = connection.network
        self._loop = connection.network.loop
        self._protocol: Any = None
        self._is_closing = False
        self._is_lost = False
        self._has_sent_end = False
        self._is_reading = True
        self._is_writing_paused = False
        self._high_bytes = WRITE_HIGH_BYTES
        self._low_bytes = WRITE_HIGH_BYTES // 4
        self._unsent: deque[bytes] = deque()  # written by our protocol, beyond the peer's window
        self._unsent_bytes = 0
        self._arriving: deque[tuple[float, bytes | None]] = deque()  # on the way to us, with due times; None: end
        self._arriving_bytes = 0
        self._last_due_s = 0.0
        self._is_delivery_set = False

    # --- life

    def start(self, factory: Callable[[], Any]) -> None:
        if not self._is_lost:
            self.begin(factory())

    def begin(self, protocol: Any) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        self.pump()

    def close(self) -> None:
        """What was written still leaves; then the peer reads an end."""
        if self._is_closing:
            return
        self._is_closing = True
        self._flush()

    def abort(self) -> None:
        self._is_closing = True
        self._connection.reset()

    def is_closing(self) -> bool:
        return self._is_closing

    def lose(self, error: Exception | None) -> None:
        """The connection is gone for this end; its protocol hears so once."""
        if self._is_lost:
            return
        self._is_lost = True
        self._is_closing = True
        self._unsent.clear()
        self._unsent_bytes = 0
        self._arriving.clear()
        self._arriving_bytes = 0
        self._loop.call_soon(self._tell_lost, error, context=self.context)

    def _tell_lost(self, error: Exception | None) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    # --- protocol and reading

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self.pump()

    # --- writing

    def write(self, data: Any) -> None:
        if self._is_closing or not data:
            return
        self._unsent.append(bytes(data))
        self._unsent_bytes += len(data)
        self._flush()
        if self._unsent_bytes > self._high_bytes and not self._is_writing_paused and not self._is_lost:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._has_sent_end and not self._is_lost and not self._unsent:
            self._has_sent_end = True
            self.peer.arrive(None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = WRITE_HIGH_BYTES if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def _flush(self) -> None:
        """Put on the wire what the peer has room for, in pieces."""
        while self._unsent and self.peer._arriving_bytes < WINDOW_BYTES and not self._is_lost:
            data = self._unsent.popleft()
            self._unsent_bytes -= len(data)
            if self._network.reset_rate and self._network.random.random() < self._network.reset_rate:
                self._connection.reset()
                return
            cut = len(data)
            if len(data) > 1 and self._network.random.random() < 0.3:
                cut = self._network.random.randint(1, len(data) - 1)
            cut = min(cut, WINDOW_BYTES)
            if cut < len(data):
                self._unsent.appendleft(data[cut:])
                self._unsent_bytes += len(data) - cut
            self.peer.arrive(data[:cut])
        if self._is_closing and not self._unsent:
            self.write_eof()
            if not self._is_lost:
                self.lose(None)

    def _window_opened(self) -> None:
        if self._is_lost:
            return
        self._flush()
        if self._is_writing_paused and self._unsent_bytes <= self._low_bytes and not self._is_lost:
            self._is_writing_paused = False
            self._protocol.resume_writing()

    # --- arriving

    def arrive(self, data: bytes | None) -> None:
        """The peer has put this on the wire; `None` is the end of its stream."""
        if self._is_lost:
            return
        self._last_due_s = max(self._last_due_s, self._loop.time() + self._network.delay())
        self._arriving.append((self._last_due_s, data))
        self._arriving_bytes += len(data or b"")
        self.pump()

    def pump(self) -> None:
        """Make sure the next piece will be delivered when it is due, read, and not held up by a partition."""
        if self._is_delivery_set or not self._arriving or self._protocol is None or not self._is_reading:
            return
        if self._network.is_cut(self.peer.host, self.host):
            return
        self._is_delivery_set = True
        self._loop.call_at(self._arriving[0][0], self._deliver, context=self.context)

    def _deliver(self) -> None:
        self._is_delivery_set = False
        if self._is_lost or not self._arriving or not self._is_reading:
            return
        if self._network.is_cut(self.peer.host, self.host):
            return
        _, data = self._arriving.popleft()
        if data is None:
            self._end()
            return
        self._arriving_bytes -= len(data)
        self._loop.call_soon(self.peer._window_opened, context=self.peer.context)
        self._hand_over(data)
        self.pump()

    def _hand_over(self, data: bytes) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(data)
            return
        position = 0
        while position < len(data) and not self._is_lost:
            buffer = memoryview(self._protocol.get_buffer(len(data) - position)).cast("B")
            taken = min(len(buffer), len(data) - position)
            buffer[:taken] = data[position : position + taken]
            position += taken
            self._protocol.buffer_updated(taken)

    def _end(self) -> None:
        stays_open = self._protocol.eof_received()
        if not stays_open:
            self._is_closing = True
            self._network.gone(self._connection)
            self.lose(None)
