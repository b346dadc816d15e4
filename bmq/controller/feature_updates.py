"""UpdateFeatures: sets the feature levels in force (KIP-584, KIP-1022). Decisions only.

Checks, codes and words are those of Kafka's FeatureControlManager (4.3). A feature advertised to clients may be lowered
again: its level limits what they may use, and no record of the metadata log depends on it. The format of those records
follows `bmq.metadata.version`, which is never lowered, like Kafka's metadata.version.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from bmq.controller.decision import Decision
from bmq.controller.decision_context import DecisionContext
from bmq.metadata.features import CLIENT_FEATURES, METADATA_VERSION, SUPPORTED_FEATURES, level_in_force
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from bmq.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from bmq.protocol.metadata_records import FeatureLevelRecord

_RESULTS_UNTIL_VERSION: Final = 1
_UPGRADE_TYPES_FROM_VERSION: Final = 1
_NO_ERROR: Final = "NONE"
"""What Kafka writes beside a feature that was updated."""
_OWN_RANGES: Final = {
    **CLIENT_FEATURES,
    **{one.name: (one.min_supported_version, one.max_supported_version) for one in SUPPORTED_FEATURES},
}


FEATURES_MAX: Final = 1_000
"""Most features of one request; there are a handful."""


class UpgradeType(IntEnum):
    """Numbers of FeatureUpdateKey.upgrade_type."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def decide_update_features(
    context: DecisionContext, request: UpdateFeaturesRequest, api_version: int, node_id: int
) -> Decision[UpdateFeaturesResponse]:
    """All updates or none; `node_id` is the controller's. Versions up to 1 have one result for each feature."""
    names = [update.feature for update in request.feature_updates[: FEATURES_MAX + 1]]
    try:
        if len(names) > FEATURES_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"More than {FEATURES_MAX} features are named.")
        if len(set(names)) != len(names):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A feature is named more than once.")
        records = [
            FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
            for update in request.feature_updates
            if _require_allowed(context, update, _upgrade_type(update, api_version), node_id)
        ]
    except KafkaError as error:
        message = f"The update failed for all features since the following feature had an error: {error}"
        return Decision(UpdateFeaturesResponse(error_code=error.code, error_message=message))
    results = (
        [UpdatableFeatureResult(feature=name, error_message=_NO_ERROR) for name in names]
        if api_version <= _RESULTS_UNTIL_VERSION
        else ()
    )
    return Decision(UpdateFeaturesResponse(results=results), () if request.validate_only else records)


def _upgrade_type(update: FeatureUpdateKey, api_version: int) -> UpgradeType | None:
    if api_version < _UPGRADE_TYPES_FROM_VERSION:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    try:
        return UpgradeType(update.upgrade_type)
    except ValueError:
        return None


def _require_allowed(
    context: DecisionContext, update: FeatureUpdateKey, upgrade_type: UpgradeType | None, node_id: int
) -> bool:
    """Whether the update changes anything. Raises KafkaError INVALID_UPDATE_VERSION."""
    name, level = update.feature, update.max_version_level

    def refuse(why: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {why}")

    if upgrade_type is None:
        raise refuse("The controller does not support the given upgrade type.")
    if level < 0:
        raise refuse("A feature version cannot be less than 0.")
    if why := _not_supported(context, name, level, node_id):
        raise refuse(why)
    current = level_in_force(context.features, name)
    if level < current:
        if upgrade_type is UpgradeType.UPGRADE:
            raise refuse(
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
                "unsafe downgrade."
            )
        if name == METADATA_VERSION:
            raise refuse(
                "Refusing to perform the requested downgrade because it might delete metadata information."
                if upgrade_type is UpgradeType.SAFE_DOWNGRADE
                else "Unsafe metadata downgrade is not supported in this version."
            )
    elif level > current and upgrade_type is not UpgradeType.UPGRADE:
        raise refuse("Can't downgrade to a newer version.")
    return level != current


def _not_supported(context: DecisionContext, name: str, level: int, node_id: int) -> str:
    """Why the level is not supported; empty when every node supports it."""
    own = _OWN_RANGES.get(name)
    if own is None and level == 0:
        return f"Feature {name} not found."
    if own is None:
        return f"Local controller {node_id} does not support this feature."
    if not own[0] <= level <= own[1]:
        return f"Local controller {node_id} only supports versions {own[0]}-{own[1]}"
    if name in CLIENT_FEATURES:
        return ""
    for broker_id, registration in sorted(context.registrations.items()):
        ranges: Mapping[str, tuple[int, int]] = {
            one.name: (one.min_supported_version, one.max_supported_version) for one in registration.features
        }
        if not registration.features:
            continue  # the only node of its cluster, which registers no features
        if name not in ranges:
            return f"Broker {broker_id} does not support this feature."
        low, high = ranges[name]
        if not low <= level <= high:
            return f"Broker {broker_id} only supports versions {low}-{high}"
    return ""
