"""Levels of features are raised and lowered as in Kafka, all of a request or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.controller.feature_updates import UpgradeType, decide_update_features
from bmq.metadata.features import METADATA_VERSION, METADATA_VERSION_MAX, level_in_force
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from bmq.protocol.messages.update_features_response import UpdateFeaturesResponse
from bmq.protocol.metadata_records import FeatureLevelRecord
from tests.unit.controller.cluster_support import ManyNodes, registered

pytestmark = pytest.mark.unit

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


def update(
    cluster: ManyNodes, *wanted: tuple[str, int, int], version: int = 2, **options: Any
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in wanted
        ],
        **options,
    )
    decision = decide_update_features(cluster.context, request, version, 1)
    cluster.take(decision.records)
    return decision.response


@pytest.fixture
def cluster() -> ManyNodes:
    return ManyNodes(registered(2), registered(3))


def level(cluster: ManyNodes, name: str) -> int:
    return level_in_force(cluster.state.features, name)


def test_a_level_is_lowered_and_raised(cluster: ManyNodes) -> None:
    assert level(cluster, "transaction.version") == 2
    for wanted, kind in ((1, SAFE), (0, UNSAFE), (2, UP)):
        assert update(cluster, ("transaction.version", wanted, kind)).error_code == ErrorCode.NONE
        assert level(cluster, "transaction.version") == wanted
    restarted = ManyNodes()
    restarted.state.replay_snapshot(cluster.state.snapshot())
    assert level(restarted, "transaction.version") == 2


def test_a_level_that_is_in_force_is_not_written_again(cluster: ManyNodes) -> None:
    offset = cluster.offset
    assert update(cluster, ("group.version", 1, UP)).error_code == ErrorCode.NONE
    assert cluster.offset == offset


def test_nothing_is_changed_by_a_dry_run(cluster: ManyNodes) -> None:
    assert update(cluster, ("group.version", 0, SAFE), validate_only=True).error_code == ErrorCode.NONE
    assert level(cluster, "group.version") == 1
    assert update(cluster, ("group.version", 7, UP), validate_only=True).error_code != ErrorCode.NONE


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (("group.version", 0, UP), "Can't downgrade the version of this feature without setting the upgrade type"),
        (("group.version", 2, UP), "Local controller 1 only supports versions 0-1"),
        (("group.version", -1, SAFE), "A feature version cannot be less than 0."),
        (("group.version", 1, 9), "The controller does not support the given upgrade type."),
        (("no.such.feature", 1, UP), "Local controller 1 does not support this feature."),
        (("no.such.feature", 0, SAFE), "Feature no.such.feature not found."),
        ((METADATA_VERSION, METADATA_VERSION_MAX + 1, UP), "Local controller 1 only supports versions"),
    ],
)
def test_refusals_are_kafkas_and_stop_the_whole_request(
    cluster: ManyNodes, wanted: tuple[str, int, int], why: str
) -> None:
    answer = update(cluster, ("streams.version", 0, SAFE), wanted)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.error_message is not None
    assert answer.error_message.startswith(
        "The update failed for all features since the following feature had an error"
    )
    assert why in answer.error_message
    assert level(cluster, "streams.version") == 1, "half of the request was carried out"


def test_raising_is_no_downgrade(cluster: ManyNodes) -> None:
    update(cluster, ("group.version", 0, SAFE))
    answer = update(cluster, ("group.version", 1, SAFE))
    assert "Can't downgrade to a newer version." in (answer.error_message or "")


def test_a_feature_is_named_once(cluster: ManyNodes) -> None:
    answer = update(cluster, ("group.version", 0, SAFE), ("group.version", 1, UP))
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("kind", "why"), [(SAFE, "might delete metadata"), (UNSAFE, "not supported in this version")])
def test_what_servers_write_is_never_lowered(
    cluster: ManyNodes, kind: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(decide_update_features.__globals__["_OWN_RANGES"], METADATA_VERSION, (1, 4))
    cluster.take([FeatureLevelRecord(name=METADATA_VERSION, feature_level=4)])
    answer = update(cluster, (METADATA_VERSION, 1, kind))
    assert why in (answer.error_message or "")
    too_high = METADATA_VERSION_MAX + 1
    answer = update(cluster, (METADATA_VERSION, too_high, kind))
    assert f"Broker 2 only supports versions 1-{METADATA_VERSION_MAX}" in (answer.error_message or "")


def test_the_oldest_version_has_its_own_word_for_a_downgrade_and_a_result_for_each(cluster: ManyNodes) -> None:
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="group.version", max_version_level=0, allow_downgrade=True)]
    )
    decision = decide_update_features(cluster.context, request, 0, 1)
    assert [(result.feature, result.error_message) for result in decision.response.results] == [
        ("group.version", "NONE")
    ]
    assert len(decision.records) == 1
    request.feature_updates[0].allow_downgrade = False
    assert decide_update_features(cluster.context, request, 0, 1).response.error_code
