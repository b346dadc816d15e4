"""The level that records about security need: raised once every node understands it, refused before."""

from __future__ import annotations

import pytest

from bmq.controller.security_level import security_level_records
from bmq.metadata.features import METADATA_VERSION, SECURITY_LEVEL
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.metadata_records import BrokerFeature, FeatureLevelRecord, RegisterBrokerRecord

pytestmark = pytest.mark.unit


def node(node_id: int, highest: int) -> RegisterBrokerRecord:
    feature = BrokerFeature(name=METADATA_VERSION, min_supported_version=1, max_supported_version=highest)
    return RegisterBrokerRecord(broker_id=node_id, features=(feature,))


def test_the_first_use_raises_the_level_when_all_nodes_understand_it() -> None:
    alone = RegisterBrokerRecord(broker_id=3)  # a server that is its whole cluster registers no features
    raised = security_level_records({METADATA_VERSION: 1}, {1: node(1, SECURITY_LEVEL), 3: alone})
    assert raised == (FeatureLevelRecord(name=METADATA_VERSION, feature_level=SECURITY_LEVEL),)
    assert security_level_records({}, {}) == raised


def test_nothing_is_written_once_it_is_raised() -> None:
    assert security_level_records({METADATA_VERSION: SECURITY_LEVEL}, {1: node(1, 1)}) == ()


def test_a_node_of_an_earlier_release_is_named() -> None:
    with pytest.raises(KafkaError, match="node 2 supports 1 at most") as refused:
        security_level_records({METADATA_VERSION: 1}, {1: node(1, SECURITY_LEVEL), 2: node(2, 1)})
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
