"""Internal call to the coordinator of a transactional id: end one of its open transactions, as an application has decided.

It may be sent again when the outcome of the first try is unknown: it names the transaction, and the same decision again changes nothing.
"""

from __future__ import annotations

from typing import Final

from bmq.dataclass import dataclass
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.formats import Format, FormatField

_VERSION_MAX: Final = 0


@dataclass(slots=True, kw_only=True)
class TransactionDecideRequest:
    """`producer_id`, `producer_epoch` and `start_ms` name the transaction, as a check does."""

    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    start_ms: int = -1
    is_commit: bool = False


@dataclass(slots=True, kw_only=True)
class TransactionDecideResponse:
    """NONE: it has this end, durably. INVALID_REQUEST, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING: see `refusal`. Others: not now."""

    error_code: int = 0


def refusal(code: int, asked: TransactionDecideRequest) -> str | None:
    """Why the decision is refused for good, in a sentence; None: it is not."""
    if code == ErrorCode.INVALID_REQUEST:
        return f"transactional id {asked.transactional_id} has not opted in to checks (bmq.transaction.check.ids)"
    if code == ErrorCode.INVALID_TXN_STATE:
        return f"this transaction was {'rolled back' if asked.is_commit else 'committed'} before"
    if code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
        return f"transactional id {asked.transactional_id} has no such transaction, or a later one by now"
    return None


FORMATS: Final[dict[ApiKey, dict[str, Format]]] = {
    ApiKey.TRANSACTION_DECIDE: {
        "request": Format(
            TransactionDecideRequest,
            version_max=_VERSION_MAX,
            flexible_from=0,
            fields=(
                FormatField("transactional_id", "string"),
                FormatField("producer_id", "int64"),
                FormatField("producer_epoch", "int16"),
                FormatField("start_ms", "int64"),
                FormatField("is_commit", "bool"),
            ),
        ),
        "response": Format(
            TransactionDecideResponse,
            version_max=_VERSION_MAX,
            flexible_from=0,
            fields=(FormatField("error_code", "int16"),),
        ),
    },
}
