"""BrokerHeartbeatRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class BrokerHeartbeatRequest(Message):
    """The message."""

    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: Sequence[UUID]

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        current_metadata_offset: int = 0,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: Sequence[UUID] = (),
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.current_metadata_offset = current_metadata_offset
        self.want_fence = want_fence
        self.want_shut_down = want_shut_down
        self.offline_log_dirs = offline_log_dirs


FORMAT: Final = Format(
    BrokerHeartbeatRequest,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("broker_id", "int32"),
        FormatField("broker_epoch", "int64"),
        FormatField("current_metadata_offset", "int64"),
        FormatField("want_fence", "bool"),
        FormatField("want_shut_down", "bool"),
        FormatField("offline_log_dirs", "uuid", since=1, is_array=True, tag=0, default=()),
    ),
)
