"""The call that ends an open transaction: read back as it was written, and its refusals as sentences."""

from __future__ import annotations

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode, encode
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.transaction_decisions import TransactionDecideRequest, TransactionDecideResponse, refusal

pytestmark = pytest.mark.unit

ASKED = TransactionDecideRequest(
    transactional_id="shop-é", producer_id=2**50, producer_epoch=32_767, start_ms=1_790_000_000_000, is_commit=True
)


def test_messages_are_read_back() -> None:
    for direction, message in (("request", ASKED), ("response", TransactionDecideResponse(error_code=48))):
        data = encode(direction, ApiKey.TRANSACTION_DECIDE, 0, message)
        assert decode(direction, ApiKey.TRANSACTION_DECIDE, 0, data) == message


def test_refusals_for_good_are_sentences() -> None:
    assert refusal(ErrorCode.INVALID_TXN_STATE, ASKED) == "this transaction was rolled back before"
    assert "shop-é has not opted in" in (refusal(ErrorCode.INVALID_REQUEST, ASKED) or "")
    assert "no such transaction" in (refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING, ASKED) or "")
    for code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS):
        assert refusal(code, ASKED) is None
