"""DescribeConfigsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeConfigsSynonym(Message):
    """A part of DescribeConfigsResponse."""

    name: str
    value: str | None
    source: int

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = None,
        source: int = 0,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeConfigsResourceResult(Message):
    """A part of DescribeConfigsResponse."""

    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: Sequence[DescribeConfigsSynonym]
    config_type: int
    documentation: str | None

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = None,
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: Sequence[DescribeConfigsSynonym] = (),
        config_type: int = 0,
        documentation: str | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = synonyms
        self.config_type = config_type
        self.documentation = documentation


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeConfigsResult(Message):
    """A part of DescribeConfigsResponse."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: Sequence[DescribeConfigsResourceResult]

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
        configs: Sequence[DescribeConfigsResourceResult] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = configs


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeConfigsResponse(Message):
    """The message."""

    throttle_time_ms: int
    results: Sequence[DescribeConfigsResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: Sequence[DescribeConfigsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


_DESCRIBE_CONFIGS_SYNONYM: Final = Format(
    DescribeConfigsSynonym,
    version_min=1,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("name", "string"),
        FormatField("value", "string", nullable_since=0),
        FormatField("source", "int8"),
    ),
)
_DESCRIBE_CONFIGS_RESOURCE_RESULT: Final = Format(
    DescribeConfigsResourceResult,
    version_min=1,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("name", "string"),
        FormatField("value", "string", nullable_since=0),
        FormatField("read_only", "bool"),
        FormatField("config_source", "int8"),
        FormatField("is_sensitive", "bool"),
        FormatField("synonyms", entity=_DESCRIBE_CONFIGS_SYNONYM, is_array=True),
        FormatField("config_type", "int8", since=3),
        FormatField("documentation", "string", since=3, nullable_since=0),
    ),
)
_DESCRIBE_CONFIGS_RESULT: Final = Format(
    DescribeConfigsResult,
    version_min=1,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("resource_type", "int8"),
        FormatField("resource_name", "string"),
        FormatField("configs", entity=_DESCRIBE_CONFIGS_RESOURCE_RESULT, is_array=True),
    ),
)
FORMAT: Final = Format(
    DescribeConfigsResponse,
    version_min=1,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("results", entity=_DESCRIBE_CONFIGS_RESULT, is_array=True),
    ),
)
