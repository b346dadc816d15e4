"""The nodes of an election in ZooKeeper, and their content: JSON, so that an operator can read it. Pure.

<root>/cluster_id          the cluster that owns the root
<root>/controller_epoch    the counter: the epoch of the newest controller
<root>/metadata_mark       the metadata log's end, as its controller noted it last
<root>/controller          ephemeral: the active controller
<root>/nodes/<node id>     ephemeral: one for each live process
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from bmq.dataclass import dataclass
from bmq.election.election import ControllerClaim, Member, MetadataMark

EPOCH_MAX: Final = 2**31 - 1  # a controller epoch is an int32 in Kafka's protocol


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below `root`, which is "" or begins with a slash."""

    root: str

    @property
    def top(self) -> str:
        return self.root or "/"

    @property
    def cluster_id(self) -> str:
        return f"{self.root}/cluster_id"

    @property
    def controller_epoch(self) -> str:
        return f"{self.root}/controller_epoch"

    @property
    def metadata_mark(self) -> str:
        return f"{self.root}/metadata_mark"

    @property
    def controller(self) -> str:
        return f"{self.root}/controller"

    @property
    def nodes(self) -> str:
        return f"{self.root}/nodes"

    def node(self, node_id: int) -> str:
        return f"{self.nodes}/{node_id}"


def encoded(value: ControllerClaim | Member | MetadataMark) -> bytes:
    return json.dumps(asdict(value)).encode()


def decode_claim(data: bytes) -> ControllerClaim | None:
    """None when it is something else."""
    found = _decoded(data)
    try:
        return ControllerClaim(
            node_id=_int(found["node_id"]),
            host=_text(found["host"]),
            port=_int(found["port"]),
            epoch=_int(found["epoch"]),
        )
    except (KeyError, TypeError):
        return None


def decode_member(data: bytes) -> Member | None:
    """None when it is something else."""
    found = _decoded(data)
    try:
        return Member(
            node_id=_int(found["node_id"]),
            incarnation=_text(found["incarnation"]),
            host=_text(found["host"]),
            port=_int(found["port"]),
        )
    except (KeyError, TypeError):
        return None


def decode_mark(data: bytes) -> MetadataMark | None:
    """None when it is something else."""
    found = _decoded(data)
    try:
        return MetadataMark(epoch=_int(found["epoch"]), offset=_int(found["offset"]))
    except (KeyError, TypeError):
        return None


def decode_epoch(data: bytes) -> int | None:
    """None when it is no epoch."""
    if not data.isdigit() or len(data) > len(str(EPOCH_MAX)) or int(data) > EPOCH_MAX:
        return None
    return int(data)


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError
    return value
