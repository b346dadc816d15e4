"""IncrementalAlterConfigsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterableConfig(Message):
    """A part of IncrementalAlterConfigsRequest."""

    name: str
    config_operation: int
    value: str | None

    def __init__(
        self,
        *,
        name: str = "",
        config_operation: int = 0,
        value: str | None = None,
    ) -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterConfigsResource(Message):
    """A part of IncrementalAlterConfigsRequest."""

    resource_type: int
    resource_name: str
    configs: Sequence[AlterableConfig]

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configs: Sequence[AlterableConfig] = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = configs


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class IncrementalAlterConfigsRequest(Message):
    """The message."""

    resources: Sequence[AlterConfigsResource]
    validate_only: bool

    def __init__(
        self,
        *,
        resources: Sequence[AlterConfigsResource] = (),
        validate_only: bool = False,
    ) -> None:
        self.resources = resources
        self.validate_only = validate_only


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
