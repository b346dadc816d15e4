"""AlterClientQuotas: what may be set, the records it takes, and what images and snapshots have of them."""

from __future__ import annotations

import math

import pytest

from bmq.controller import client_quotas
from bmq.controller.client_quotas import decide_alter_client_quotas
from bmq.metadata.features import METADATA_VERSION, SECURITY_LEVEL
from bmq.metadata.state import MetadataState
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from bmq.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from bmq.protocol.metadata_records import (
    BrokerFeature,
    ClientQuotaRecord,
    FeatureLevelRecord,
    RegisterBrokerRecord,
)
from tests.unit.controller.support import Cluster

pytestmark = pytest.mark.unit

Parts = tuple[tuple[str, str | None], ...]
USER: Parts = (("user", "u"),)
BOTH: Parts = (("user", "u"), ("client-id", None))
PRODUCE, CONSUME, REQUEST, MUTATE, CONNECT = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


def change(parts: Parts, **values: float | None) -> EntryData:
    """None removes a key."""
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )


def alter(cluster: Cluster, *changes: EntryData, validate_only: bool = False) -> AlterClientQuotasResponse:
    request = AlterClientQuotasRequest(entries=changes, validate_only=validate_only)
    state = cluster.state
    decision = decide_alter_client_quotas(cluster.image, request, state.features, state.registrations)
    cluster.take(decision.records)
    return decision.response


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_quotas_are_set_changed_and_removed_one_record_for_a_key(cluster: Cluster) -> None:
    answer = alter(cluster, change(USER, **{PRODUCE: 1024.0, REQUEST: 12.5}), change(BOTH, **{CONSUME: 5.0}))
    assert [entry.error_code for entry in answer.entries] == [0, 0]
    assert answer.entries[1].entity[1].entity_name is None
    both = (("client-id", None), ("user", "u"))
    assert cluster.image.client_quotas == {USER: {PRODUCE: 1024.0, REQUEST: 12.5}, both: {CONSUME: 5.0}}
    before = cluster.offset
    assert not alter(cluster, change(USER, **{PRODUCE: 1024.0, CONSUME: None})).entries[0].error_code
    assert cluster.offset == before  # nothing changed, so nothing was written
    alter(cluster, change(USER, **{PRODUCE: 2048.0, REQUEST: None}), change(BOTH, **{CONSUME: None}))
    assert cluster.image.client_quotas == {USER: {PRODUCE: 2048.0}}


def test_the_image_is_another_object_only_when_a_quota_changed(cluster: Cluster) -> None:
    alter(cluster, change(USER, **{PRODUCE: 1024.0}))
    first = cluster.image
    cluster.take([FeatureLevelRecord(name="group.version", feature_level=0)])
    assert cluster.image is not first
    assert cluster.image.client_quotas is first.client_quotas
    alter(cluster, change(USER, **{PRODUCE: 1.0}))
    assert first.client_quotas == {USER: {PRODUCE: 1024.0}}
    assert cluster.image.client_quotas == {USER: {PRODUCE: 1.0}}


def test_a_snapshot_has_them(cluster: Cluster) -> None:
    alter(cluster, change(USER, **{PRODUCE: 1024.0}), change((("ip", None),), **{CONNECT: 3.0}))
    loaded = MetadataState("cluster", 1, {})
    loaded.replay_snapshot(cluster.state.snapshot())
    assert loaded.image_at(1).client_quotas == cluster.image.client_quotas


def test_nothing_is_written_when_it_is_only_validated(cluster: Cluster) -> None:
    answer = alter(cluster, change(USER, **{PRODUCE: 1024.0}), change(USER[:0]), validate_only=True)
    assert [entry.error_code for entry in answer.entries] == [0, ErrorCode.INVALID_REQUEST]
    assert cluster.image.client_quotas == {}


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (change((), **{PRODUCE: 1.0}), "Invalid empty client quota entity"),
        (change((("user", ""),), **{PRODUCE: 1.0}), "Empty user not supported"),
        (change((("group", "g"),), **{PRODUCE: 1.0}), "Unhandled client quota entity type: group"),
        (change((*USER, ("user", "v")), **{PRODUCE: 1.0}), "duplicate entity entry user"),
        (change((*USER, ("ip", "10.0.0.1")), **{CONNECT: 1.0}), "IP entity shouldnot be combined"),
        (change((("ip", "no-such-host"),), **{CONNECT: 1.0}), "no-such-host is not a valid IP"),
        (change((("ip", "10.0.0.1"),), **{PRODUCE: 1.0}), "Invalid configuration key producer_byte_rate"),
        (change(USER, **{CONNECT: 1.0}), "Invalid configuration key connection_creation_rate"),
        (change(USER, nonsense=1.0), "Invalid configuration key nonsense"),
        (change(USER, **{PRODUCE: 0.0}), "Quota producer_byte_rate must be greater than 0"),
        (change(USER, **{REQUEST: -1.0}), "Quota request_percentage must be greater than 0"),
        (change(USER, **{REQUEST: math.nan}), "Quota request_percentage must be greater than 0"),
        (change(USER, **{PRODUCE: 1.5}), "producer_byte_rate cannot be a fractional value."),
        (change(USER, **{PRODUCE: 2.0**64}), "Proposed value for producer_byte_rate is too large for a LONG."),
        (change((("ip", None),), **{CONNECT: 2.0**31}), "connection_creation_rate is too large for an INT."),
        (change((("user", "u" * 1025),), **{PRODUCE: 1.0}), "1024 characters at most"),
    ],
)
def test_bad_quotas_are_refused_for_their_entity_alone(cluster: Cluster, bad: EntryData, why: str) -> None:
    answer = alter(cluster, bad, change((("client-id", "other"),), **{PRODUCE: 1.0}))
    assert [entry.error_code for entry in answer.entries] == [ErrorCode.INVALID_REQUEST, 0]
    assert why in (answer.entries[0].error_message or "")
    assert list(cluster.image.client_quotas) == [(("client-id", "other"),)]


@pytest.mark.parametrize("rate", [2.0**53, 2.0**53 + 2, 2.0**62])
def test_rates_that_no_fraction_fits_beside_are_kept_as_they_are(cluster: Cluster, rate: float) -> None:
    (entry,) = alter(cluster, change(USER, **{PRODUCE: rate})).entries
    assert entry.error_code == 0
    assert cluster.image.client_quotas[USER] == {PRODUCE: rate}


def test_an_entity_or_a_key_that_is_named_twice_is_refused(cluster: Cluster) -> None:
    answer = alter(cluster, change(USER, **{PRODUCE: 1.0}), change(USER, **{PRODUCE: 2.0}))
    assert [entry.error_code for entry in answer.entries] == [ErrorCode.INVALID_REQUEST] * 2
    twice = change(USER, **{PRODUCE: 1.0})
    twice.ops = [*twice.ops, *twice.ops]
    assert "Duplicate quota key producer_byte_rate" in (alter(cluster, twice).entries[0].error_message or "")
    assert cluster.image.client_quotas == {}


def test_a_fraction_is_allowed_where_a_rate_is_no_whole_number(cluster: Cluster) -> None:
    alter(cluster, change(USER, **{REQUEST: 0.5, MUTATE: 1.5}))
    assert cluster.image.client_quotas == {USER: {REQUEST: 0.5, MUTATE: 1.5}}


def test_an_address_is_kept_in_one_form(cluster: Cluster) -> None:
    alter(cluster, change((("ip", "0:0:0:0:0:0:0:1"),), **{CONNECT: 1.0}))
    alter(cluster, change((("ip", "::1"),), **{CONNECT: 2.0}))
    assert cluster.image.client_quotas == {(("ip", "::1"),): {CONNECT: 2.0}}


def test_the_first_quota_raises_the_metadata_level(cluster: Cluster) -> None:
    alter(cluster, change(USER, **{PRODUCE: 1.0}))
    assert cluster.state.features == {METADATA_VERSION: SECURITY_LEVEL}


def test_it_is_refused_while_a_node_of_an_earlier_release_is_registered(cluster: Cluster) -> None:
    old = BrokerFeature(name=METADATA_VERSION, min_supported_version=1, max_supported_version=1)
    cluster.take([RegisterBrokerRecord(broker_id=7, features=(old,))])
    answer = alter(cluster, change(USER, **{PRODUCE: 1.0}))
    assert answer.entries[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "node 7 supports 1 at most" in (answer.entries[0].error_message or "")
    assert cluster.image.client_quotas == {}


def test_the_number_of_entities_and_records_is_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "ENTITIES_MAX", 2)
    changes = [change((("user", f"u{number}"),), **{PRODUCE: 1.0}) for number in range(3)]
    answer = alter(cluster, *changes)
    assert [entry.error_code for entry in answer.entries] == [0, 0, ErrorCode.POLICY_VIOLATION]
    monkeypatch.setattr(client_quotas, "RECORDS_PER_REQUEST_MAX", 1)
    answer = alter(cluster, change((("user", "u0"),), **{PRODUCE: 2.0, CONSUME: 2.0}))
    assert answer.entries[0].error_code == ErrorCode.POLICY_VIOLATION


def test_removing_what_is_not_there_is_no_error_in_the_log(cluster: Cluster) -> None:
    cluster.take([ClientQuotaRecord(entity=(), key="nothing", remove=True)])
    assert cluster.image.client_quotas == {}
