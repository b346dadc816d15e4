"""AlterConfigsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterableConfig:
    name: str = ""
    value: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterConfigsResource:
    resource_type: int = 0
    resource_name: str = ""
    configs: Sequence[AlterableConfig] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterConfigsRequest:
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: bool = False
