"""UpdateFeaturesRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class FeatureUpdateKey(Message):
    """A part of UpdateFeaturesRequest."""

    feature: str
    max_version_level: int
    upgrade_type: int
    allow_downgrade: bool

    def __init__(
        self,
        *,
        feature: str = "",
        max_version_level: int = 0,
        upgrade_type: int = 1,
        allow_downgrade: bool = False,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.upgrade_type = upgrade_type
        self.allow_downgrade = allow_downgrade


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class UpdateFeaturesRequest(Message):
    """The message."""

    timeout_ms: int
    feature_updates: Sequence[FeatureUpdateKey]
    validate_only: bool

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        feature_updates: Sequence[FeatureUpdateKey] = (),
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = feature_updates
        self.validate_only = validate_only


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
