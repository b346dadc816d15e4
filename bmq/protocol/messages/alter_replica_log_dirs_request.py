"""AlterReplicaLogDirsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterReplicaLogDirTopic:
    name: str = ""
    partitions: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterReplicaLogDir:
    path: str = ""
    topics: Sequence[AlterReplicaLogDirTopic] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterReplicaLogDirsRequest:
    dirs: Sequence[AlterReplicaLogDir] = ()


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
