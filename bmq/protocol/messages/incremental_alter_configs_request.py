"""IncrementalAlterConfigsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterableConfig:
    name: str = ""
    config_operation: int = 0
    value: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterConfigsResource:
    resource_type: int = 0
    resource_name: str = ""
    configs: Sequence[AlterableConfig] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class IncrementalAlterConfigsRequest:
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: bool = False


_ALTERABLE_CONFIG: Final = Format(
    AlterableConfig,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("name", "string"),
        FormatField("config_operation", "int8"),
        FormatField("value", "string", nullable_since=0),
    ),
)
_ALTER_CONFIGS_RESOURCE: Final = Format(
    AlterConfigsResource,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("resource_type", "int8"),
        FormatField("resource_name", "string"),
        FormatField("configs", entity=_ALTERABLE_CONFIG, is_array=True),
    ),
)
FORMAT: Final = Format(
    IncrementalAlterConfigsRequest,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("resources", entity=_ALTER_CONFIGS_RESOURCE, is_array=True),
        FormatField("validate_only", "bool"),
    ),
)
