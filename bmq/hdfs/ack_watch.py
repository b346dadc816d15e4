"""Tells when each DataNode has acknowledged a traced append. It listens to a stream's connections only while there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bmq.hdfs.datanode_connection import DataNodeConnection, Listener
from bmq.hdfs.packets import Ack

NodesAcked = Callable[[tuple[str, ...]], None]
"""Is given `host:port` of the nodes that an acknowledgement covers."""


class Stream(Listener, Protocol):
    """The part of BlockStream that is used here."""

    def position_of(self, seqno: int) -> int: ...

    def nodes_of(self, connection: DataNodeConnection) -> tuple[str, ...]: ...

    def end_watch(self) -> None: ...


class AckWatch:
    """Listens in place of its stream, and passes everything on to it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._waiting: list[tuple[int, NodesAcked, set[DataNodeConnection]]] = []

    def add(self, position: int, acked: NodesAcked, connections: tuple[DataNodeConnection, ...]) -> None:
        """Call `acked` once for each connection, when everything before `position` is acknowledged over it."""
        self._waiting.append((position, acked, set(connections)))

    def acknowledged(self, connection: DataNodeConnection) -> None:
        """Implements Listener.acknowledged."""
        acked_position = self._stream.position_of(connection.acked_seqno)
        nodes = self._stream.nodes_of(connection)
        for position, acked, silent in self._waiting:
            if position <= acked_position and connection in silent:
                silent.remove(connection)
                acked(nodes)
        self._waiting = [one for one in self._waiting if one[2]]
        if not self._waiting:
            self._stream.end_watch()
        self._stream.acknowledged(connection)

    def heartbeat_acknowledged(self, connection: DataNodeConnection) -> None:
        """Implements Listener.heartbeat_acknowledged."""
        self._stream.heartbeat_acknowledged(connection)

    def refused(self, connection: DataNodeConnection, ack: Ack) -> None:
        """Implements Listener.refused."""
        self._stream.refused(connection, ack)

    def lost(self, connection: DataNodeConnection, reason: str) -> None:
        """Implements Listener.lost."""
        self._stream.lost(connection, reason)
