"""What is left of an answer when everything of one server and one run is taken out."""

from __future__ import annotations

import uuid

import pytest

from testing.wire import record_batch
from tests.conformance.answers import Aliases, batches, kafka_id, normalized, only

pytestmark = pytest.mark.campaign("unit")

TOPIC_ID = uuid.UUID("11111111-2222-3333-4444-555555555555")


@pytest.fixture
def aliases() -> Aliases:
    known = Aliases(node_id=4)
    known.learn(TOPIC_ID, "id of t")
    known.learn("member-1", "member of g")
    return known


def test_ids_are_named_by_what_they_belong_to(aliases: Aliases) -> None:
    assert normalized(TOPIC_ID, aliases) == "<id of t>"
    assert normalized(uuid.UUID(int=0), aliases) == "<no id>"
    assert normalized(uuid.uuid4(), aliases) == "<id>"
    assert normalized({"key": f"{kafka_id(TOPIC_ID)}:0"}, aliases) == {"key": "<id of t>:0"}
    assert normalized({"member_id": "member-1", "leader": f"x-{uuid.uuid4()}"}, aliases) == {
        "member_id": "<member of g>",
        "leader": "x-<id>",
    }


def test_of_a_servers_own_numbers_only_its_own_stand_for_themselves(aliases: Aliases) -> None:
    answer = {"node_id": 4, "port": 9_999, "replica_nodes": [4, 7], "leader_id": -1, "partition_index": 4}
    assert normalized(answer, aliases) == {
        "node_id": "<node>",
        "port": "<port>",
        "replica_nodes": ["<node>", 7],
        "leader_id": -1,
        "partition_index": 4,
    }


def test_whether_there_is_an_epoch_a_time_or_a_text_stays(aliases: Aliases) -> None:
    said = {"leader_epoch": 3, "log_append_time_ms": -1, "session_id": 0, "error_message": "why", "producer_id": 12}
    assert normalized(said, aliases) == {
        "leader_epoch": "<leader_epoch>",
        "log_append_time_ms": -1,
        "session_id": 0,
        "error_message": "<text>",
        "producer_id": "<producer_id>",
    }
    assert normalized({"error_message": None}, aliases) == {"error_message": None}
    assert normalized({"error_message": ""}, aliases) == {"error_message": ""}


def test_the_order_of_an_array_does_not_count(aliases: Aliases) -> None:
    first = normalized({"topics": [{"name": "b"}, {"name": "a"}]}, aliases)
    assert first == normalized({"topics": [{"name": "a"}, {"name": "b"}]}, aliases)


def test_records_are_their_batches() -> None:
    records = record_batch([b"one", b"two"], producer_id=7, producer_epoch=1, base_sequence=0)
    (found,) = batches(records)
    assert (found["base_offset"], found["last_offset"], found["count"], found["has_producer"]) == (0, 1, 2, True)
    assert batches(records)[0]["body"] != batches(record_batch([b"one", b"2wo"]))[0]["body"]
    assert batches(records + records[:20])[1:] == [{"cut": True}]
    assert batches(b"") == []


def test_elements_that_the_case_did_not_make_are_left_out() -> None:
    answer = {"groups": [{"group_id": "mine-1"}, {"group_id": "other"}], "error_code": 0}
    assert only(answer, ("groups", "group_id"), "mine") == {"groups": [{"group_id": "mine-1"}], "error_code": 0}
    assert only({"groups": None}, ("groups", "group_id"), "mine") == {"groups": None}
