"""ApiVersionsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class ApiVersion:
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class SupportedFeatureKey:
    name: str = ""
    min_version: int = 0
    max_version: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class FinalizedFeatureKey:
    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class ApiVersionsResponse:
    error_code: int = 0
    api_keys: Sequence[ApiVersion] = ()
    throttle_time_ms: int = 0
    supported_features: Sequence[SupportedFeatureKey] = ()
    finalized_features_epoch: int = -1
    finalized_features: Sequence[FinalizedFeatureKey] = ()
    zk_migration_ready: bool = False
