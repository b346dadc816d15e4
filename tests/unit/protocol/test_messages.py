"""Every API in every version: what is written is read back, and kio (the oracle) reads and writes the same bytes."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import importlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from bmq.coordinator.streams.topology_description import KnownDescription
from bmq.protocol import codec
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.error_codes import RETRIABLE, ErrorCode
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.api_versions_response import ApiVersionsResponse
from bmq.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from bmq.protocol.messages.fetch_response import EpochEndOffset, LeaderIdAndEpoch, PartitionData
from bmq.protocol.messages.join_group_response import JoinGroupResponse
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from bmq.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
from bmq.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from bmq.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from bmq.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.support.gate_share import few_in_gate
from tests.unit.protocol.strategies import api_messages

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

KINDS = [(api_key, kind) for api_key in APIS for kind in ("request", "response")]
# Each example goes through all versions of its message.
FEW = settings(max_examples=max(3, settings.default.max_examples // 20))  # type: ignore[union-attr]


def plain(value: Any) -> Any:
    """A value of a kio message as bmq has it: milliseconds, numbers, tuples."""
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, enum.Enum):
        return value.value
    return value


def assert_same(ours: Any, kios: Any) -> None:
    """Field by field; kio's `timeout` is our `timeout_ms`."""
    for field in dataclasses.fields(kios):
        theirs = getattr(kios, field.name)
        mine = getattr(ours, field.name) if hasattr(ours, field.name) else getattr(ours, field.name + "_ms")
        if dataclasses.is_dataclass(theirs):
            assert_same(mine, theirs)
        elif isinstance(theirs, tuple) and theirs and dataclasses.is_dataclass(theirs[0]):
            assert len(mine) == len(theirs)
            for one, other in zip(mine, theirs, strict=True):
                assert_same(one, other)
        else:
            assert mine == (tuple(map(plain, theirs)) if isinstance(theirs, tuple) else plain(theirs)), field.name


def kio_class(api_key: ApiKey, kind: str, version: int) -> Any:
    package = api_key.name.lower()
    module = importlib.import_module(f"kio.schema.{package}.v{version}.{kind}")
    return getattr(module, "".join(part.capitalize() for part in package.split("_")) + kind.capitalize())


@few_in_gate(("api_key", "kind"), KINDS, every=5, others=in_campaign)
@given(data=st.data())
@FEW
def test_what_is_written_is_read_back_in_every_version(api_key: ApiKey, kind: str, data: st.DataObject) -> None:
    for version in range(APIS[api_key].version_min, APIS[api_key].version_max + 1):
        message = data.draw(api_messages(kind, api_key, version))
        encoded = codec.encode(kind, api_key, version, message)
        assert codec.decode(kind, api_key, version, encoded) == message
        assert codec.decode(kind, api_key, version, memoryview(bytearray(b"head" + encoded + b"tail")), 4) == message


@few_in_gate(("api_key", "kind"), KINDS, every=5, others=in_campaign)
@given(data=st.data())
@FEW
def test_kio_reads_the_same_values_and_writes_the_same_bytes(api_key: ApiKey, kind: str, data: st.DataObject) -> None:
    for version in range(APIS[api_key].version_min, APIS[api_key].schema_max + 1):
        message = data.draw(api_messages(kind, api_key, version))
        encoded = codec.encode(kind, api_key, version, message)
        schema = kio_class(api_key, kind, version)
        parsed, end = entity_reader(schema)(encoded, 0)
        assert end == len(encoded)
        assert_same(message, parsed)
        buffer = io.BytesIO()
        entity_writer(schema)(buffer, parsed)
        assert buffer.getvalue() == encoded


def test_flexible_versions_are_kios() -> None:
    for api_key, api in APIS.items():
        for version in range(api.version_min, api.schema_max + 1):
            for kind in ("request", "response"):
                assert kio_class(api_key, kind, version).__flexible__ == codec.is_flexible(api_key, version)


@given(
    api=st.sampled_from(list(APIS)),
    data=st.data(),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(st.characters(codec="utf-8"), max_size=20),
)
def test_whole_frames(api: ApiKey, data: st.DataObject, correlation_id: int, client_id: str | None) -> None:
    version = data.draw(st.integers(APIS[api].version_min, APIS[api].version_max))
    request = data.draw(api_messages("request", api, version))
    frame = codec.encode_request(api, version, correlation_id, client_id, request)
    header = codec.parse_request_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id) == (api, version, correlation_id)
    assert header.client_id == client_id
    assert codec.decode_request(header, frame) == request
    response = data.draw(api_messages("response", api, version))
    answer = codec.encode_response(api, version, correlation_id, response)
    assert codec.decode_response(api, version, answer) == (correlation_id, response)


def test_null_where_a_version_has_no_null_is_written_as_empty() -> None:
    encoded = codec.encode("response", ApiKey.JOIN_GROUP, 5, JoinGroupResponse(protocol_name=None))
    assert codec.decode("response", ApiKey.JOIN_GROUP, 5, encoded).protocol_name == ""
    all_topics = codec.encode("request", ApiKey.METADATA, 0, MetadataRequest(topics=None))
    assert all_topics == bytes(4)  # in version 0 an empty list asks for all topics
    unnamed = MetadataRequest(topics=(MetadataRequestTopic(name=None),))
    assert codec.decode("request", ApiKey.METADATA, 9, codec.encode("request", ApiKey.METADATA, 9, unnamed)).topics == (
        MetadataRequestTopic(name=""),
    )


def test_fields_of_kafka_4_4() -> None:
    request = ApiVersionsRequest(
        client_software_name="java", client_software_version="4.4.0", cluster_id="abc", node_id=7
    )
    assert codec.encode("request", ApiKey.API_VERSIONS, 5, request) == b"\x05java\x064.4.0\x04abc\0\0\0\x07\0"
    unknown = ApiVersionsRequest(client_software_name="a", client_software_version="b")
    assert codec.encode("request", ApiKey.API_VERSIONS, 5, unknown) == b"\x02a\x02b\0\xff\xff\xff\xff\0"
    refused = DeleteGroupsResponse(results=(DeletableGroupResult(group_id="g", error_code=68, error_message="busy"),))
    assert codec.encode("response", ApiKey.DELETE_GROUPS, 3, refused) == b"\0\0\0\0\x02\x02g\0\x44\x05busy\0\0"
    assert codec.encode("response", ApiKey.DELETE_GROUPS, 2, refused) == b"\0\0\0\0\x02\x02g\0\x44\0\0"
    part = TxnOffsetCommitResponsePartition(partition_index=1, error_code=3)
    answer = TxnOffsetCommitResponse(
        topics=(TxnOffsetCommitResponseTopic(name="t", topic_id=UUID(int=5), partitions=(part,)),)
    )
    partitions = b"\x02\0\0\0\x01\0\x03\0"
    by_name = b"\0\0\0\0\x02\x02t" + partitions + b"\0\0"
    by_id = b"\0\0\0\0\x02" + UUID(int=5).bytes + partitions + b"\0\0"
    assert codec.encode("response", ApiKey.TXN_OFFSET_COMMIT, 5, answer) == by_name
    assert codec.encode("response", ApiKey.TXN_OFFSET_COMMIT, 6, answer) == by_id


def test_streams_groups_of_kafka_4_4() -> None:
    """KIP-1331, KIP-1357."""
    beat = StreamsGroupHeartbeatResponse(
        member_id="m",
        member_epoch=1,
        heartbeat_interval_ms=2,
        acceptable_recovery_lag=1000,
        task_offset_interval_ms=3,
        status=None,
        active_tasks=None,
        standby_tasks=None,
        warmup_tasks=None,
        topology_description_required=True,
        endpoint_information_epoch=4,
        partitions_by_user_endpoint=None,
    )
    head = b"\0\0\0\0\0\0\0\x02m\0\0\0\x01\0\0\0\x02"
    tasks, tail = b"\0\0\0\0", b"\0\0\0\x04\0\0"
    assert codec.encode("response", ApiKey.STREAMS_GROUP_HEARTBEAT, 0, beat) == (
        head + b"\0\0\x03\xe8" + b"\0\0\0\x03" + tasks + tail
    )
    assert codec.encode("response", ApiKey.STREAMS_GROUP_HEARTBEAT, 1, beat) == (
        head + b"\0\0\0\x03" + b"\0\0\0\0\0\0\x03\xe8" + tasks + b"\x01" + tail
    )
    asked = StreamsGroupDescribeRequest(
        group_ids=("g",), include_authorized_operations=True, include_topology_description=True
    )
    assert codec.encode("request", ApiKey.STREAMS_GROUP_DESCRIBE, 0, asked) == b"\x02\x02g\x01\0"
    assert codec.encode("request", ApiKey.STREAMS_GROUP_DESCRIBE, 1, asked) == b"\x02\x02g\x01\x01\0"
    node = b"\x02n\x03\x01\x02t\x01\x01\0"  # name, sink, no sources, topic, no stores, no successors
    description = b"\x02\x02s\x02" + node + b"\0\x01\0"
    update = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id="g",
        member_id="m",
        topology_epoch=5,
        topology_description=TopologyDescription(
            subtopologies=(
                TopologyDescriptionSubtopology(
                    subtopology_id="s", nodes=(TopologyDescriptionNode(name="n", node_type=3, sink_topic="t"),)
                ),
            )
        ),
    )
    encoded = codec.encode("request", ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0, update)
    assert encoded == b"\x02g\x02m\0\0\0\x05" + description + b"\0"
    group = DescribedGroup(
        group_id="g",
        topology_description=KnownDescription(encoded=encoded).described(),
        topology_description_status=3,
        assignor_name="sticky",
    )
    shown = StreamsGroupDescribeResponse(groups=(group,))
    common = b"\0\0\0\0\x02" + b"\0\0\0\x02g\x01" + bytes(8) + b"\xff\x01\x80\0\0\0"
    assert codec.encode("response", ApiKey.STREAMS_GROUP_DESCRIBE, 0, shown) == common + b"\0\0"
    assert codec.encode("response", ApiKey.STREAMS_GROUP_DESCRIBE, 1, shown) == (
        common + b"\x01" + description + b"\x03\x07sticky\0\0"
    )


def test_an_unknown_version_of_api_versions_is_answered_in_the_shape_of_version_0() -> None:
    answer = codec.unsupported_api_versions_response(77)
    correlation_id, response = codec.decode_response(ApiKey.API_VERSIONS, 0, answer)
    assert correlation_id == 77
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(a.api_key, a.min_version, a.max_version) for a in response.api_keys] == [(ApiKey.API_VERSIONS, 0, 5)]


def test_error_codes_are_kios_and_those_of_kafka_4_4() -> None:
    kios = {code.value: code.name.upper() for code in KioErrorCode}
    ours = {code.value: code.name for code in ErrorCode}
    assert {value: ours[value] for value in kios} == kios
    assert sorted(ours.keys() - kios.keys()) == [134, 135, 136]
    assert {code.value for code in KioErrorCode if code.retriable} == {code.value for code in RETRIABLE}


@in_campaign
def test_the_message_modules_are_what_the_generator_writes() -> None:
    generator = Path(__file__).parents[3] / "tools" / "generate_messages.py"
    result = subprocess.run([sys.executable, str(generator), "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@dataclasses.dataclass(slots=True, kw_only=True)
class AsDataclassWrites:
    """What `LeaderIdAndEpoch` would be, had `dataclass` written its methods."""

    leader_id: int = -1
    leader_epoch: int = -1


def test_messages_compare_print_and_are_replaced_as_other_dataclasses() -> None:
    message = LeaderIdAndEpoch(leader_id=3)
    plain = AsDataclassWrites(leader_id=3)
    assert repr(message) == repr(plain).replace("AsDataclassWrites", "LeaderIdAndEpoch")
    assert dataclasses.asdict(message) == dataclasses.asdict(plain)
    assert message == LeaderIdAndEpoch(leader_id=3, leader_epoch=-1)
    assert message != LeaderIdAndEpoch(leader_id=3, leader_epoch=0)
    assert message not in (plain, EpochEndOffset(), None)
    assert dataclasses.replace(message, leader_epoch=5) == LeaderIdAndEpoch(leader_id=3, leader_epoch=5)
    with pytest.raises(TypeError):
        hash(message)
    with pytest.raises(TypeError):
        LeaderIdAndEpoch(leader=3)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        message.leader = 3  # type: ignore[attr-defined]


def test_each_message_has_its_own_nested_default() -> None:
    first, second = PartitionData(), PartitionData()
    assert first == second
    first.current_leader.leader_id = 7
    assert second.current_leader == LeaderIdAndEpoch()
    assert first != second
    assert PartitionData(current_leader=first.current_leader).current_leader is first.current_leader


def test_the_server_does_not_load_kio() -> None:
    script = "import sys, bmq.protocol.codec as c; c.decode('request', 3, 13, bytes(5)); sys.exit('kio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
