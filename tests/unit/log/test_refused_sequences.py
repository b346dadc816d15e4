"""What was refused is remembered for as long as its producer may send what rests on it, and no longer."""

from __future__ import annotations

import pytest

from bmq.log.refused_sequences import FORGOTTEN_S, STEP_S_MAX, WAITED_S_MAX, RefusedSequences
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode

pytestmark = pytest.mark.unit


def numbered(producer_id: int, sequence: int) -> memoryview:
    records = [Record(None, b"a")]
    return memoryview(encode_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence))


def refusing(sequence: int = 5) -> RefusedSequences:
    refused = RefusedSequences()
    refused.add("p", numbered(1, sequence), 100.0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return refused


def test_later_batches_of_the_producer_do_not_pass_until_the_refused_one_comes_again() -> None:
    refused = refusing()
    assert refused.is_passed_by("p", numbered(1, 6), 100.1)
    assert not refused.is_passed_by("p", numbered(2, 6), 100.1)
    assert not refused.is_passed_by("q", numbered(1, 6), 100.1)
    assert not refused.is_passed_by("p", numbered(1, 5), 100.2)
    assert not refused.is_passed_by("p", numbered(1, 6), 100.3)


def test_nothing_is_left_of_a_producer_that_does_not_come_again() -> None:
    refused = refusing()
    looks = int(WAITED_S_MAX / STEP_S_MAX)
    for look in range(1, looks):
        now_s = 100 + look * STEP_S_MAX
        assert refused.is_passed_by("p", numbered(1, 6), now_s) == (now_s < 100 + FORGOTTEN_S)
        assert refused.entries
    assert not refused.is_passed_by("q", numbered(2, looks), 100 + WAITED_S_MAX)
    assert not refused.entries


def test_what_has_waited_since_before_the_refusal_never_passes() -> None:
    refused = refusing()
    for now_s in range(100, 100 + int(WAITED_S_MAX)):
        assert refused.is_passed_by("p", numbered(1, 6), now_s, arrived_s=99.0)
    assert not refused.is_passed_by("p", numbered(1, 6), now_s, arrived_s=now_s)
    assert not refused.is_passed_by("p", numbered(1, 5), now_s)
    assert not refused.is_passed_by("p", numbered(1, 6), now_s, arrived_s=99.0)


def test_what_no_client_sends_again_is_not_remembered() -> None:
    refused = RefusedSequences()
    refused.add("p", numbered(1, 5), 100.0, ErrorCode.INVALID_RECORD)
    assert not refused.entries


def test_what_waited_while_the_process_stood_still_does_not_pass() -> None:
    """A proxy that was stopped between a refusal and the next try of the batches behind it, too short to be noticed."""
    refused = RefusedSequences()
    refused.add("p", numbered(1, 0), 100, ErrorCode.KAFKA_STORAGE_ERROR)
    assert refused.is_passed_by("p", numbered(1, 1), 100 + 2 * FORGOTTEN_S)


def test_partitions_that_cannot_exist_are_not_remembered() -> None:
    refused = RefusedSequences(lambda partition: partition != "p")
    refused.add("p", numbered(1, 5), 100.0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not refused.entries
    refused.add("q", numbered(1, 5), 100.0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert refused.entries
