"""Acknowledgements of a partition: what Kafka refuses is refused, the rest reaches the shard as it is."""

from __future__ import annotations

import pytest

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.share_acknowledge_request import AcknowledgementBatch
from bmq.protocol.turns import at_once
from bmq.proxy.share.acknowledgements import acknowledged_batches

pytestmark = pytest.mark.unit

Given = tuple[int, int, list[int]]


def batches(*given: Given) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
        for first, last, types in given
    ]


@pytest.mark.parametrize(
    "given",
    [
        [(5, 4, [1])],
        [(5, 9, [1]), (4, 9, [1])],
        [(5, 9, [])],
        [(5, 9, [1, 1])],
        [(5, 9, [1] * 6)],
        [(5, 5, [5])],
        [(5, 5, [-1])],
        [(-3, 5, [1])],
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_malformed_acknowledgements_are_invalid(given: list[Given], version: int) -> None:
    with pytest.raises(KafkaError) as raised:
        at_once(acknowledged_batches(batches(*given), version, is_renew_ack=True))
    assert raised.value.code == ErrorCode.INVALID_REQUEST


def test_equal_neighbours_pass_as_in_kafka() -> None:
    checked = at_once(acknowledged_batches(batches((5, 9, [1]), (9, 11, [0, 2, 3])), 1, is_renew_ack=False))
    assert [(one.first, one.last, list(one.types)) for one in checked] == [(5, 9, [1]), (9, 11, [0, 2, 3])]


@pytest.mark.parametrize(
    ("version", "is_renew_ack", "is_renew_enabled", "code"),
    [
        (1, True, True, ErrorCode.INVALID_REQUEST),
        (2, False, True, ErrorCode.INVALID_REQUEST),
        (2, True, False, ErrorCode.INVALID_RECORD_STATE),
        (2, True, True, None),
    ],
)
def test_renewals_need_version_flag_and_group(
    version: int, is_renew_ack: bool, is_renew_enabled: bool, code: ErrorCode | None
) -> None:
    asked = batches((0, 1, [1, 4]))
    if code is None:
        assert len(at_once(acknowledged_batches(asked, version, is_renew_ack=is_renew_ack))) == 1
        return
    with pytest.raises(KafkaError) as raised:
        at_once(acknowledged_batches(asked, version, is_renew_ack=is_renew_ack, is_renew_enabled=is_renew_enabled))
    assert raised.value.code == code
