"""DescribeConfigsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeConfigsSynonym:
    name: str = ""
    value: str | None = None
    source: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeConfigsResourceResult:
    name: str = ""
    value: str | None = None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: Sequence[DescribeConfigsSynonym] = ()
    config_type: int = 0
    documentation: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeConfigsResult:
    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""
    configs: Sequence[DescribeConfigsResourceResult] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeConfigsResponse:
    throttle_time_ms: int = 0
    results: Sequence[DescribeConfigsResult] = ()
