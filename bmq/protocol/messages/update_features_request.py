"""UpdateFeaturesRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class FeatureUpdateKey:
    feature: str = ""
    max_version_level: int = 0
    upgrade_type: int = 1
    allow_downgrade: bool = False


@dataclasses.dataclass(slots=True, kw_only=True)
class UpdateFeaturesRequest:
    timeout_ms: int = 60000
    feature_updates: Sequence[FeatureUpdateKey] = ()
    validate_only: bool = False


_FEATURE_UPDATE_KEY: Final = Format(
    FeatureUpdateKey,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("feature", "string"),
        FormatField("max_version_level", "int16"),
        FormatField("upgrade_type", "int8", since=1),
        FormatField("allow_downgrade", "bool", until=0),
    ),
)
FORMAT: Final = Format(
    UpdateFeaturesRequest,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("timeout_ms", "int32"),
        FormatField("feature_updates", entity=_FEATURE_UPDATE_KEY, is_array=True),
        FormatField("validate_only", "bool", since=1),
    ),
)
