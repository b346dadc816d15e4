"""DescribeConfigsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeConfigsResource(Message):
    """A part of DescribeConfigsRequest."""

    resource_type: int
    resource_name: str
    configuration_keys: Sequence[str] | None

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: Sequence[str] | None = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = configuration_keys


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeConfigsRequest(Message):
    """The message."""

    resources: Sequence[DescribeConfigsResource]
    include_synonyms: bool
    include_documentation: bool

    def __init__(
        self,
        *,
        resources: Sequence[DescribeConfigsResource] = (),
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


_DESCRIBE_CONFIGS_RESOURCE: Final = Format(
    DescribeConfigsResource,
    version_min=1,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("resource_type", "int8"),
        FormatField("resource_name", "string"),
        FormatField("configuration_keys", "string", is_array=True, nullable_since=0),
    ),
)
FORMAT: Final = Format(
    DescribeConfigsRequest,
    version_min=1,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("resources", entity=_DESCRIBE_CONFIGS_RESOURCE, is_array=True),
        FormatField("include_synonyms", "bool"),
        FormatField("include_documentation", "bool", since=3),
    ),
)
