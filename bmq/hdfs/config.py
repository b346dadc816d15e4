"""How to reach HDFS, and how long to wait for it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from bmq.dataclass import dataclass
from bmq.hdfs.security import BadSecurity, HadoopSecurity
from bmq.log.json_adapter import Field
from bmq.log.padding import UNIT_BYTES

if TYPE_CHECKING:
    from bmq.hdfs.transfer_connector import TransferConnector

BLOCK_BYTES_MIN: Final = 1024 * 1024  # dfs.namenode.fs-limits.min-block-size
NAMENODE_PORT: Final = 8020
REPLICATION_DEFAULT: Final = 3  # dfs.replication


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class WriteMode(StrEnum):
    """`fanout`: one connection to each DataNode, half the latency. `pipeline`: one to the first, a third of the CPU."""

    FANOUT = "fanout"
    PIPELINE = "pipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsSettings:
    """The table `[hdfs]` of a server's settings."""

    user: str = ""
    """The user for HDFS; empty: `HADOOP_USER_NAME`, else the operating system's user."""
    principal: str = ""
    """The principal that logs in to an HDFS with Kerberos, `bmq/host@REALM`; empty: that of the ticket cache (see below)."""
    keytab: str = ""
    """A file with the principal's keys; empty: the ticket cache is used, and an operator has to renew it."""
    replication: int | None = None
    """DataNodes of each segment; `min.insync.replicas` is compared with those that really hold it.

    None: `dfs.replication` of hdfs-site.xml in HADOOP_CONF_DIR, else 3.
    """
    write_mode: WriteMode = WriteMode.FANOUT
    """`fanout`: one connection to each DataNode, lowest latency; `pipeline`: one to the first, a third of the CPU."""
    checksum_chunk_bytes: Annotated[int, Field(ge=UNIT_BYTES, multiple_of=UNIT_BYTES)] = 4096
    """Bytes of one checksum in the DataNodes' files, a multiple of 512."""
    packet_bytes_max: int = 256 * 1024
    """Most bytes in one packet to a DataNode."""
    rpc_timeout_s: float = 5.0
    """One call to a NameNode."""
    connect_timeout_s: float = 1.0
    """To connect to a NameNode or DataNode, and for a DataNode to answer that a block is set up."""
    retry_max_s: float = 10.0
    """How long a NameNode call is retried while none is active, reachable and out of safe mode."""
    retry_first_s: float = 0.05
    """First wait between such tries; doubles."""
    retry_longest_s: float = 1.0
    """Longest such wait."""
    ack_timeout_s: float = 1.5
    """A DataNode that leaves a packet unanswered this long counts as hung."""
    idle_heartbeat_s: float = 20.0
    """How often an idle open block is kept alive; DataNodes drop it after 60 s."""
    lease_renewal_s: float = 20.0
    """How often leases are renewed; they can be taken after 60 s."""
    read_timeout_s: float = 5.0
    """One ranged read, other replicas included."""
    hedge_least_s: float = 0.02
    """A second DataNode is asked no sooner than this."""
    idle_connection_s: float = 3.0
    """How long a connection to a DataNode is kept for the next read; DataNodes close it after 4 s."""
    local_reads: bool = True
    """Closed segments are read from the files of a DataNode on this machine, if it allows that (see below)."""
    local_read_timeout_s: float = 0.25
    """How long a DataNode or disk of this machine may take for a local read."""
    bad_node_expiry_s: float = 15.0
    """How long a DataNode that failed is left out of new segments."""
    lease_recovery_max_s: float = 60.0
    """How long recoverLease may take when the fast takeover of a file fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsConfig(HdfsSettings):
    """The settings, and the cluster's location: all NameNodes of an HA pair in any order, and its directory.

    `root`: absolute path in HDFS. `user` and `replication` are filled in. `security`: None for an open cluster. `connector`: connects to
    DataNodes; None without protection.
    """

    namenodes: tuple[Address, ...]
    root: str
    replication: int = REPLICATION_DEFAULT
    security: HadoopSecurity | None = None
    connector: TransferConnector | None = None

    @property
    def required_connector(self) -> TransferConnector | None:
        """The connector. Raises BadSecurity if a secure cluster has none: nothing is sent to its DataNodes in clear text."""
        if self.security is not None and self.connector is None:
            raise BadSecurity(
                "connections to the DataNodes of a secure HDFS would not be secured: this is a bug of bmq"
            )
        return self.connector
