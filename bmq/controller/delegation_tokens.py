"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, and the removal of expired tokens. Decisions only.

Checks and their order are those of Kafka's DelegationTokenControlManager (4.3). Ours besides: an owner is a user, as a
login by the token gives a user; the bounds below, where Kafka has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from bmq.controller.decision import Decision
from bmq.controller.security_level import security_level_records
from bmq.dataclass import dataclass
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from bmq.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from bmq.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from bmq.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from bmq.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from bmq.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from bmq.protocol.metadata_records import DelegationTokenRecord, RegisterBrokerRecord, RemoveDelegationTokenRecord
from bmq.security.delegation_tokens import (
    USER_TYPE,
    TokenMacs,
    Tokens,
    create_refused,
    is_expired,
    is_owner_or_renewer,
    owner_of,
)

TOKENS_MAX: Final = 10_000
"""Most tokens of a cluster. Every node keeps them all."""
RENEWERS_MAX: Final = 1_000
NAME_CHARS_MAX: Final = 1_024
_TIMESTAMP_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TokenTimes:
    """`delegation.token.max.lifetime.ms`, `delegation.token.expiry.time.ms`, and the wall time of the decision."""

    max_lifetime_ms: int
    expiry_time_ms: int
    now_ms: int

    def after(self, period_ms: int) -> int:
        return min(self.now_ms + period_ms, _TIMESTAMP_MAX)


def decide_create(
    tokens: Tokens,
    request: CreateDelegationTokenRequest,
    requester: str,
    token_id: str,
    macs: TokenMacs,
    times: TokenTimes,
    features: Mapping[str, int],
    registrations: Mapping[int, RegisterBrokerRecord],
) -> Decision[CreateDelegationTokenResponse]:
    """`requester`: TYPE:NAME. Raises KafkaError UNSUPPORTED_VERSION where a node does not understand the record."""
    code = _fault_of(request, requester, len(tokens))
    if code:
        return Decision(create_refused(request, requester, code))
    level = security_level_records(features, registrations)
    wanted_ms = request.max_lifetime_ms
    lifetime_ms = min(times.max_lifetime_ms, wanted_ms) if wanted_ms > 0 else times.max_lifetime_ms
    kind, name = owner_of(request, requester)
    token = DelegationTokenRecord(
        owner=f"{kind}:{name}",
        requester=requester,
        renewers=tuple(f"{one.principal_type}:{one.principal_name}" for one in request.renewers),
        issue_timestamp=times.now_ms,
        max_timestamp=times.after(lifetime_ms),
        expiration_timestamp=times.after(min(lifetime_ms, times.expiry_time_ms)),
        token_id=token_id,
    )
    response = create_refused(request, requester, ErrorCode.NONE)
    response.issue_timestamp_ms = token.issue_timestamp
    response.expiry_timestamp_ms = token.expiration_timestamp
    response.max_timestamp_ms = token.max_timestamp
    response.token_id = token_id
    response.hmac = macs.of(token_id)
    return Decision(response, (*level, token))


def _fault_of(request: CreateDelegationTokenRequest, requester: str, count: int) -> ErrorCode:
    if len(request.renewers) > RENEWERS_MAX:
        return ErrorCode.INVALID_REQUEST
    kind, name = owner_of(request, requester)
    principals = [(kind, name), *((one.principal_type, one.principal_name) for one in request.renewers)]
    if any(kind != USER_TYPE for kind, _ in principals):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    if any(len(name) > NAME_CHARS_MAX for _, name in principals):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.POLICY_VIOLATION if count >= TOKENS_MAX else ErrorCode.NONE


def decide_renew(
    tokens: Tokens, request: RenewDelegationTokenRequest, principal: str, macs: TokenMacs, times: TokenTimes
) -> Decision[RenewDelegationTokenResponse]:
    """`principal`: TYPE:NAME of the sender."""
    try:
        token = _found(tokens, bytes(request.hmac), macs)
        if is_expired(token, times.now_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        _require_right(token, principal)
    except KafkaError as error:
        return Decision(RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=0))
    period_ms = request.renew_period_ms
    longest_ms = min(times.expiry_time_ms, period_ms) if period_ms > 0 else times.expiry_time_ms
    expiry_ms = min(token.max_timestamp, times.after(longest_ms))
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
    return Decision(response, (replace(token, expiration_timestamp=expiry_ms),))


def decide_expire(
    tokens: Tokens, request: ExpireDelegationTokenRequest, principal: str, macs: TokenMacs, times: TokenTimes
) -> Decision[ExpireDelegationTokenResponse]:
    """A negative period removes the token at once, an expired one as well."""
    period_ms = request.expiry_time_period_ms
    try:
        token = _found(tokens, bytes(request.hmac), macs)
        _require_right(token, principal)
        if period_ms < 0:
            return Decision(
                ExpireDelegationTokenResponse(expiry_timestamp_ms=times.now_ms),
                (RemoveDelegationTokenRecord(token_id=token.token_id),),
            )
        if is_expired(token, times.now_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    except KafkaError as error:
        return Decision(ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=0))
    expiry_ms = min(token.max_timestamp, times.after(period_ms))
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
    return Decision(response, (replace(token, expiration_timestamp=expiry_ms),))


def decide_sweep(tokens: Tokens, now_ms: int) -> Decision[int]:
    """Removes every expired token; the answer is their number."""
    gone = [RemoveDelegationTokenRecord(token_id=one.token_id) for one in tokens.values() if is_expired(one, now_ms)]
    return Decision(len(gone), gone)


def _found(tokens: Tokens, mac: bytes, macs: TokenMacs) -> DelegationTokenRecord:
    token = macs.find(tokens, mac)
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _require_right(token: DelegationTokenRecord, principal: str) -> None:
    if not is_owner_or_renewer(token, principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
