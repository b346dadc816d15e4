"""UpdateFeaturesResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class UpdatableFeatureResult(Message):
    """A part of UpdateFeaturesResponse."""

    feature: str
    error_code: int
    error_message: str | None

    def __init__(
        self,
        *,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class UpdateFeaturesResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: Sequence[UpdatableFeatureResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        results: Sequence[UpdatableFeatureResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = results


_UPDATABLE_FEATURE_RESULT: Final = Format(
    UpdatableFeatureResult,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("feature", "string", until=1),
        FormatField("error_code", "int16", until=1),
        FormatField("error_message", "string", until=1, nullable_since=0),
    ),
)
FORMAT: Final = Format(
    UpdateFeaturesResponse,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("results", until=1, entity=_UPDATABLE_FEATURE_RESULT, is_array=True),
    ),
)
