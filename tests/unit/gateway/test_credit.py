"""What a subscriber may get, and what it holds."""

from __future__ import annotations

import pytest

from bmq.gateway.credit import Credit, Deliveries
from bmq.gateway.failure import GatewayFailed
from tests.unit.gateway.records import held

pytestmark = pytest.mark.unit


def test_credit_is_spent_and_bounded() -> None:
    credit = Credit(10)
    credit.add(7)
    credit.spend(5)
    credit.add(8)
    assert credit.records == 10
    with pytest.raises(GatewayFailed, match="11 records of credit are more than 10") as failed:
        credit.add(1)
    assert failed.value.status == "RESOURCE_EXHAUSTED"
    assert credit.records == 10
    with pytest.raises(ValueError, match="for a credit of 10"):
        credit.spend(11)


def test_deliveries_are_settled_once_and_nothing_of_a_wrong_request_counts() -> None:
    deliveries = Deliveries(5)
    records = [held(offset) for offset in range(3)]
    assert [deliveries.deliver(record) for record in records] == [1, 2, 3]
    with pytest.raises(GatewayFailed, match="delivery 4 was never made"):
        deliveries.settle([1, 4])
    with pytest.raises(GatewayFailed, match="stands twice"):
        deliveries.settle([1, 1])
    assert len(deliveries) == 3
    assert deliveries.settle([1, 3]) == ([(1, records[0]), (3, records[2])], [])
    assert deliveries.settle([2, 3]) == ([(2, records[1])], [3])
    assert deliveries.room == 5


def test_what_went_to_others_is_no_longer_held() -> None:
    deliveries = Deliveries(5)
    for offset in range(3):
        deliveries.deliver(held(offset))
    deliveries.withdraw([held(1)])
    assert deliveries.settle([1, 2])[1] == [2]
    assert deliveries.clear() == [held(2)]
    assert len(deliveries) == 0
