"""AlterReplicaLogDirsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterReplicaLogDirTopic(Message):
    """A part of AlterReplicaLogDirsRequest."""

    name: str
    partitions: Sequence[int]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterReplicaLogDir(Message):
    """A part of AlterReplicaLogDirsRequest."""

    path: str
    topics: Sequence[AlterReplicaLogDirTopic]

    def __init__(
        self,
        *,
        path: str = "",
        topics: Sequence[AlterReplicaLogDirTopic] = (),
    ) -> None:
        self.path = path
        self.topics = topics


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterReplicaLogDirsRequest(Message):
    """The message."""

    dirs: Sequence[AlterReplicaLogDir]

    def __init__(
        self,
        *,
        dirs: Sequence[AlterReplicaLogDir] = (),
    ) -> None:
        self.dirs = dirs


_ALTER_REPLICA_LOG_DIR_TOPIC: Final = Format(
    AlterReplicaLogDirTopic,
    version_min=1,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", "int32", is_array=True),
    ),
)
_ALTER_REPLICA_LOG_DIR: Final = Format(
    AlterReplicaLogDir,
    version_min=1,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("path", "string"),
        FormatField("topics", entity=_ALTER_REPLICA_LOG_DIR_TOPIC, is_array=True),
    ),
)
FORMAT: Final = Format(
    AlterReplicaLogDirsRequest,
    version_min=1,
    version_max=2,
    flexible_from=2,
    fields=(FormatField("dirs", entity=_ALTER_REPLICA_LOG_DIR, is_array=True),),
)
