"""How to reach HDFS and how patient to be with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from bmq.log.json_adapter import Field
from bmq.log.padding import UNIT_BYTES

BLOCK_BYTES_MIN: Final = 1024 * 1024  # dfs.namenode.fs-limits.min-block-size
NAMENODE_PORT: Final = 8020


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
    """What an operator may tune. `user` empty: HADOOP_USER_NAME, else the operating system's user.

    `retry_max_s`: how long a NameNode call is tried again (standby, safe mode, unreachable) before StorageUnavailable.
    `ack_timeout_s`: a DataNode that leaves a packet unanswered this long counts as hung. `idle_heartbeat_s` stays well
    below the DataNodes' read timeout (60 s), `lease_renewal_s` below the soft limit of a lease (60 s).
    `local_read_timeout_s`: a disk or DataNode of this machine that takes longer is left alone for a while.
    """

    user: str = ""
    replication: int = 3
    write_mode: WriteMode = WriteMode.FANOUT
    checksum_chunk_bytes: Annotated[int, Field(ge=UNIT_BYTES, multiple_of=UNIT_BYTES)] = 4096
    packet_bytes_max: int = 256 * 1024
    rpc_timeout_s: float = 5.0
    connect_timeout_s: float = 1.0
    retry_max_s: float = 10.0
    retry_first_s: float = 0.05
    retry_longest_s: float = 1.0
    ack_timeout_s: float = 1.5
    idle_heartbeat_s: float = 20.0
    lease_renewal_s: float = 20.0
    read_timeout_s: float = 5.0
    hedge_least_s: float = 0.02
    idle_connection_s: float = 3.0
    local_reads: bool = True
    local_read_timeout_s: float = 0.25
    bad_node_expiry_s: float = 15.0
    lease_recovery_max_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsConfig(HdfsSettings):
    """The settings together with where the cluster lies: all NameNodes of an HA pair in any order, and its directory.

    `root`: absolute path in HDFS. `user` is filled in.
    """

    namenodes: tuple[Address, ...]
    root: str
