"""How an HDFS is: what its NameNodes tell about safe mode, space, blocks, quota and DataNodes. Pure."""

from __future__ import annotations

from bmq.dataclass import dataclass
from bmq.hdfs.config import Address


@dataclass(frozen=True, slots=True)
class HdfsSpace:
    """Bytes of all DataNodes, and blocks by what is wrong with them."""

    capacity_bytes: int
    used_bytes: int
    remaining_bytes: int
    under_replicated_blocks: int
    corrupt_blocks: int
    missing_blocks: int


@dataclass(frozen=True, slots=True)
class HdfsQuota:
    """Of one directory. None: no quota. `space_*` count every replica."""

    path: str
    names: int
    names_max: int | None
    space_bytes: int
    space_bytes_max: int | None


@dataclass(frozen=True, slots=True)
class LiveDataNode:
    """`heard_ms`: its last heartbeat, by the NameNode's clock."""

    name: str
    capacity_bytes: int
    remaining_bytes: int
    heard_ms: int


@dataclass(frozen=True, slots=True)
class NameNodeReport:
    """What one NameNode tells. `trouble`: why it tells nothing, a sentence; empty: it answered within `answer_s`.

    `is_active`: it is not a standby; only then there is `space`, and `quota` and `datanodes` if it tells them to this user.
    `refusals`: why not.
    """

    address: Address
    trouble: str = ""
    answer_s: float = 0.0
    is_in_safe_mode: bool = False
    is_active: bool = False
    space: HdfsSpace | None = None
    quota: HdfsQuota | None = None
    datanodes: tuple[LiveDataNode, ...] | None = None
    refusals: tuple[str, ...] = ()
