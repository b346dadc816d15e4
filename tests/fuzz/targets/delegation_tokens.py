"""Requests about delegation tokens, decided on by the controller and written to the metadata log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from bmq.controller.decision import Decision
from bmq.controller.delegation_tokens import TokenTimes, decide_create, decide_expire, decide_renew
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.metadata_records import (
    DelegationTokenRecord,
    FeatureLevelRecord,
    RemoveDelegationTokenRecord,
    decode_record,
    encode_record,
)
from bmq.security.delegation_tokens import TokenMacs
from tests.fuzz.message_table import Kind, MessageTable, both_kinds
from tests.fuzz.target import Target

_MACS: Final = TokenMacs("secret")
_NOW_MS: Final = 1_700_000_000_000
_LIFETIME_MAX_MS: Final = 7 * 86_400_000
_TIMES: Final = TokenTimes(_LIFETIME_MAX_MS, 86_400_000, _NOW_MS)
_OWNER, _STRANGER = "User:alice", "User:eve"
_KEPT: Final = DelegationTokenRecord(
    owner=_OWNER,
    requester=_OWNER,
    renewers=("User:bob",),
    issue_timestamp=_NOW_MS - 1_000,
    max_timestamp=_NOW_MS + _LIFETIME_MAX_MS,
    expiration_timestamp=_NOW_MS + 1_000,
    token_id="kept",
)
_TOKENS: Final = {"kept": _KEPT}
_APIS: Final = (
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
)


def decided(kind: Kind, body: bytes, message: Any) -> None:
    """Records of any request can be read again, and no token outlives the limit; a stranger changes nothing."""
    if kind.kind != "request" or message is None:
        return
    if kind.api_key is ApiKey.CREATE_DELEGATION_TOKEN:
        made = decide_create(_TOKENS, message, _OWNER, "made", _MACS, _TIMES, {}, {})
        assert bool(made.records) == (made.response.error_code == ErrorCode.NONE)
        _check_records(made)
    elif kind.api_key in (ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN):
        decide = decide_renew if kind.api_key is ApiKey.RENEW_DELEGATION_TOKEN else decide_expire
        right = replace(message, hmac=_MACS.of("kept"))
        for principal in (_OWNER, "User:bob"):
            answer: Decision[Any] = decide(_TOKENS, right, principal, _MACS, _TIMES)
            assert answer.response.error_code == ErrorCode.NONE
            _check_records(answer)
        for request, principal in ((message, _OWNER), (right, _STRANGER)):
            refused: Decision[Any] = decide(_TOKENS, request, principal, _MACS, _TIMES)
            assert (request.hmac == right.hmac and principal == _OWNER) or not refused.records, "a token is changed"


def _check_records(decision: Decision[Any]) -> None:
    for record in decision.records:
        again = decode_record(encode_record(record))
        assert repr(again) == repr(record), "it is not kept"
        if isinstance(record, DelegationTokenRecord):
            assert record.expiration_timestamp <= record.max_timestamp <= _NOW_MS + _LIFETIME_MAX_MS
        else:
            assert isinstance(record, FeatureLevelRecord | RemoveDelegationTokenRecord)


_table: Final = MessageTable(both_kinds(_APIS), decided)
TARGET: Final = Target(
    "delegation_tokens",
    _table.seeds,
    _table.check,
    ("bmq.controller.delegation_tokens", "bmq.security.delegation_tokens"),
    _table.mutate,
)
