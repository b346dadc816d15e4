"""What came back for a request, without what differs from server to server and from run to run. Pure.

What is not compared as it stands, and what stands for it:
- ids that a server makes: those of topics and members by what they belong to, all others by `<id>`, zero by `<no id>`;
- the server's own node id; ports, the cluster's id and paths;
- leader epochs, producer ids, fetch sessions, points in time, sizes on disk: whether there is one;
- the words of an error message: whether there are any;
- the order of an array's elements.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from testing import wire

CLOSED: Final = {"outcome": "closes the connection"}
SILENT: Final = {"outcome": "does not answer"}
NOTHING: Final = {"outcome": "answers nothing, as it should"}
"""Of a request that has no answer: the next request of the connection is answered."""

_NODES: Final = frozenset(
    [
        "node_id",
        "leader_id",
        "controller_id",
        "broker_id",
        "coordinator_id",
        "replica_id",
        "voter_id",
        "leader",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
        "eligible_leader_replicas",
        "last_known_elr",
        "replicas",
        "adding_replicas",
        "removing_replicas",
    ]
)
_PRESENT: Final = frozenset(
    [
        "leader_epoch",
        "current_leader_epoch",
        "partition_leader_epoch",
        "committed_leader_epoch",
        "coordinator_epoch",
        "producer_id",
        "session_id",
        "log_append_time_ms",
        "transaction_start_time_ms",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
        "issue_timestamp_ms",
        "expiry_timestamp_ms",
        "max_timestamp_ms",
        "issue_timestamp",
        "expiry_timestamp",
        "max_timestamp",
        "total_bytes",
        "usable_bytes",
        "partition_size",
        "finalized_features_epoch",
        "subscription_id",
        "high_watermark_of_quorum",
    ]
)
_TOKENS: Final = frozenset({"token_id", "hmac"})
_SERVERS_TIME_MS: Final = wire.TIMESTAMP_MS + 86_400_000
"""Later times are not of records of the cases: a server has written them."""
_MESSAGES: Final = frozenset({"error_message", "batch_index_error_message", "status_detail"})
_PATHS: Final = frozenset({"log_dir", "path"})
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_BASE64_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_MEMBERS: Final = frozenset({"member_id", "leader"})
_BATCH: Final = struct.Struct(">qiibIhiqqqhii")
_CONTROL: Final = 1 << 5


@dataclass(slots=True)
class Aliases:
    """What one server calls the things of the cases. `ids`: a topic's id or a member's, to the same name on both servers."""

    node_id: int
    ids: dict[str, str] = field(default_factory=dict)

    def learn(self, value: uuid.UUID | str, alias: str) -> None:
        self.ids[str(value)] = f"<{alias}>"
        if isinstance(value, uuid.UUID):
            self.ids[kafka_id(value)] = f"<{alias}>"


def kafka_id(value: uuid.UUID) -> str:
    """As Kafka writes an id in text: base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def normalized(value: Any, aliases: Aliases, name: str = "") -> Any:
    """JSON-ready; `name`: of the field that has this value."""
    if isinstance(value, Mapping):
        return {key: normalized(one, aliases, key) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return sorted((normalized(one, aliases, name) for one in value), key=_order)
    if isinstance(value, uuid.UUID):
        return "<no id>" if not value.int else aliases.ids.get(str(value), "<id>")
    if name in _TOKENS:
        return "<token>" if value else value
    if isinstance(value, bytes):
        return batches(value) if name == "records" else _short(value)
    if isinstance(value, str):
        return _text(value, aliases, name)
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return value
    if name in _NODES:
        return "<node>" if value == aliases.node_id else value
    if name == "port":
        return "<port>" if value > 0 else value
    if name == "timestamp" and value > _SERVERS_TIME_MS:
        return "<now>"
    if name in _PRESENT and value >= 0 and not (name == "session_id" and value == 0):
        return f"<{name}>"
    return value


def batches(records: bytes) -> list[dict[str, Any]]:
    """The batches of a records field; of a control batch (written by the server) only what it is."""
    found, position = [], 0
    while position + _BATCH.size <= len(records):
        fields = _BATCH.unpack_from(records, position)
        base, length, _, magic, _, attributes, last_delta, _, _, producer_id, epoch, sequence, count = fields
        body = records[position + _BATCH.size : position + 12 + length]
        is_control = bool(attributes & _CONTROL)
        found.append(
            {
                "base_offset": base,
                "last_offset": base + last_delta,
                "magic": magic,
                "attributes": attributes,
                "has_producer": producer_id >= 0,
                "producer_epoch": epoch,
                "base_sequence": sequence,
                "count": count,
                "body": "control" if is_control else hashlib.sha256(body).hexdigest()[:12],
            }
        )
        position += 12 + max(length, 0)
    if position < len(records):
        found.append({"cut": True})
    return found


def only(value: Any, path: Iterable[str], prefix: str) -> Any:
    """Without the elements of an array whose names do not begin with `prefix`: `path` leads to array and name."""
    first, *rest = path
    if not isinstance(value, Mapping) or first not in value or value[first] is None:
        return value
    if len(rest) == 1:
        kept = [one for one in value[first] if str(one[rest[0]]).startswith(prefix)]
        return {**value, first: kept}
    return {**value, first: only(value[first], rest, prefix)}


def _text(value: str, aliases: Aliases, name: str) -> str:
    if name in _MESSAGES:
        return "<text>" if value else value
    if name in _PATHS:
        return "<path>"
    if name == "cluster_id":
        return "<cluster>"
    for known, alias in aliases.ids.items():
        if known in value:
            value = value.replace(known, alias)
    value = _UUID.sub("<id>", value)
    if name in _MEMBERS and _BASE64_ID.fullmatch(value):
        return "<id>"
    return value


def _short(value: bytes) -> str:
    return value.hex() if len(value) <= 64 else f"{len(value)} bytes {hashlib.sha256(value).hexdigest()[:12]}"


def _order(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
