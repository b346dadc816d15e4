"""The port through which connections to DataNodes are made, where blocks are written and read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.log.store import Buffer

PROTECTION_ADVICE: Final = (
    "is dfs.data.transfer.protection the same in its hdfs-site.xml and in the one of HADOOP_CONF_DIR?"
)


class TransferConnector(Protocol):
    """Connects to DataNodes that want a login or encryption first."""

    async def connect(self, protocol: Any, host: str, port: int, token: Token) -> None:
        """Connect, log in by `token` (of the block at hand), and hand the connection to `protocol`, an asyncio protocol.

        Raises OSError, HandshakeFailed.
        """

    def write_to_all(self, transports: Sequence[Any], pieces: Sequence[Buffer]) -> None:
        """Write the same bytes to several connections that were made here. `transports`: asyncio's."""
