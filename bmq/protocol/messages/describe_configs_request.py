"""DescribeConfigsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeConfigsResource:
    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: Sequence[str] | None = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeConfigsRequest:
    resources: Sequence[DescribeConfigsResource] = ()
    include_synonyms: bool = False
    include_documentation: bool = False


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
