"""ApiVersionsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ApiVersion(Message):
    """A part of ApiVersionsResponse."""

    api_key: int
    min_version: int
    max_version: int

    def __init__(
        self,
        *,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class SupportedFeatureKey(Message):
    """A part of ApiVersionsResponse."""

    name: str
    min_version: int
    max_version: int

    def __init__(
        self,
        *,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class FinalizedFeatureKey(Message):
    """A part of ApiVersionsResponse."""

    name: str
    max_version_level: int
    min_version_level: int

    def __init__(
        self,
        *,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ApiVersionsResponse(Message):
    """The message."""

    error_code: int
    api_keys: Sequence[ApiVersion]
    throttle_time_ms: int
    supported_features: Sequence[SupportedFeatureKey]
    finalized_features_epoch: int
    finalized_features: Sequence[FinalizedFeatureKey]
    zk_migration_ready: bool

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: Sequence[ApiVersion] = (),
        throttle_time_ms: int = 0,
        supported_features: Sequence[SupportedFeatureKey] = (),
        finalized_features_epoch: int = -1,
        finalized_features: Sequence[FinalizedFeatureKey] = (),
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = finalized_features
        self.zk_migration_ready = zk_migration_ready


_API_VERSION: Final = Format(
    ApiVersion,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("api_key", "int16"),
        FormatField("min_version", "int16"),
        FormatField("max_version", "int16"),
    ),
)
_SUPPORTED_FEATURE_KEY: Final = Format(
    SupportedFeatureKey,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("name", "string", since=3),
        FormatField("min_version", "int16", since=3),
        FormatField("max_version", "int16", since=3),
    ),
)
_FINALIZED_FEATURE_KEY: Final = Format(
    FinalizedFeatureKey,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("name", "string", since=3),
        FormatField("max_version_level", "int16", since=3),
        FormatField("min_version_level", "int16", since=3),
    ),
)
FORMAT: Final = Format(
    ApiVersionsResponse,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("api_keys", entity=_API_VERSION, is_array=True),
        FormatField("throttle_time_ms", "int32", since=1),
        FormatField("supported_features", since=3, entity=_SUPPORTED_FEATURE_KEY, is_array=True, tag=0, default=()),
        FormatField("finalized_features_epoch", "int64", since=3, tag=1, default=-1),
        FormatField("finalized_features", since=3, entity=_FINALIZED_FEATURE_KEY, is_array=True, tag=2, default=()),
        FormatField("zk_migration_ready", "bool", since=3, tag=3, default=False),
    ),
)
