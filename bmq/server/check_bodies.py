"""Bodies, signatures and answers of the HTTP posts that ask about half messages and open transactions. Pure.

For half messages the body is a JSON object: `topic`, `partition` and `checks`, a list of objects with `id`, `offset` and
`check` (the check's number). The header `bmq-signature` is `t=<ms since 1970>,v1=<hex>`: the HMAC-SHA256 of `<ms>.<body>` by
the shared secret. An answer with status 200 is a JSON object with the lists of offsets `commit` and `rollback`; either may be
missing. An answer with 202 or 204 decides nothing.

For transactions the body has `transactions`, a list of objects. `commit` and `rollback` are lists of transactional ids. Ids
that a 200 or 204 leaves out are undecided. After a 202 the application may decide later, over REST.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence, Set
from hashlib import sha256
from typing import Annotated, Final, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from bmq.broker.half_checker import CheckAnswer, CheckRequest
from bmq.coordinator.transactions.checker import CheckAnswers, TransactionCheck
from bmq.metadata.half_configs import BadCheckUrl, CheckUrl, check_url
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

ANSWER_BYTES_MAX: Final = 64 * 1024
SECRET_BYTES_MIN: Final = 16
SIGNATURE: Final = "bmq-signature"
_OK: Final = 200
_NOTHING_KNOWN: Final = 204
_WITHOUT_DECISIONS: Final = (202, _NOTHING_KNOWN)
A = TypeVar("A", bound=BaseModel)

Offset = Annotated[int, Field(ge=0, lt=2**63, strict=True)]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    commit: list[Offset] = Field(default_factory=list)
    rollback: list[Offset] = Field(default_factory=list)


class _Transaction(BaseModel):
    transactional_id: str
    id: str | None
    producer_id: int
    producer_epoch: int
    started_ms: int
    timeout_ms: int
    check: int


class _Transactions(BaseModel):
    transactions: list[_Transaction]


class _TransactionsAnswer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    commit: list[str] = Field(default_factory=list)
    rollback: list[str] = Field(default_factory=list)


class SignedPost(NamedTuple):
    body: bytes
    headers: dict[str, str]


def body_of(request: CheckRequest) -> bytes:
    checks = [{"id": one.check_id, "offset": one.offset, "check": one.number} for one in request.checks]
    return to_json({"topic": request.topic, "partition": request.partition, "checks": checks})


def transactions_body(checks: Sequence[tuple[TransactionCheck, str | None]]) -> bytes:
    """The body: each transaction with its check id, if it has one."""
    return (
        _Transactions(
            transactions=[
                _Transaction(
                    transactional_id=one.transactional_id,
                    id=check_id,
                    producer_id=one.name.producer_id,
                    producer_epoch=one.name.producer_epoch,
                    started_ms=one.name.start_ms,
                    timeout_ms=one.timeout_ms,
                    check=one.number,
                )
                for one, check_id in checks
            ]
        )
        .model_dump_json()
        .encode()
    )


def signed(body: bytes, secret: bytes, now_ms: int) -> SignedPost:
    signature = hmac.new(secret, b"%d." % now_ms + body, sha256).hexdigest()
    return SignedPost(body, {"content-type": "application/json", SIGNATURE: f"t={now_ms},v1={signature}"})


def answer_of(status: int, body: bytes) -> CheckAnswer:
    """The decisions in an answer. Raises KafkaError if the answer cannot be understood; it then counts as none."""
    if not _has_decisions(status, body):
        return CheckAnswer()
    answer = _parsed(_Answer, body)
    _refuse_both(set(answer.commit) & set(answer.rollback))
    return CheckAnswer(tuple(answer.commit), tuple(answer.rollback))


def transactions_answer(status: int, body: bytes, asked: Sequence[str]) -> CheckAnswers:
    """As `answer_of`, for transactions. Decisions about other transactional ids are ignored."""
    if not _has_decisions(status, body):
        return CheckAnswers({}, asked if status == _NOTHING_KNOWN else ())
    answer = _parsed(_TransactionsAnswer, body)
    _refuse_both(set(answer.commit) & set(answer.rollback))
    decided = {**dict.fromkeys(answer.commit, True), **dict.fromkeys(answer.rollback, False)}
    return CheckAnswers(
        {one: decided[one] for one in asked if one in decided}, [one for one in asked if one not in decided]
    )


def _has_decisions(status: int, body: bytes) -> bool:
    """Raises KafkaError."""
    if status in _WITHOUT_DECISIONS:
        return False
    if status != _OK:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"it answers with status {status}")
    if len(body) > ANSWER_BYTES_MAX:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"its answer has more than {ANSWER_BYTES_MAX} bytes")
    return True


def _parsed(form: type[A], body: bytes) -> A:
    try:
        return form.model_validate_json(body)
    except ValidationError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"its answer: {error.errors()[0]['msg']}") from error


def _refuse_both(both: Set[int] | Set[str]) -> None:
    if both:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"its answer commits and rolls back {min(both)}")


def allowed_url(text: str, hosts: Sequence[str]) -> CheckUrl:
    """Returns a URL that checks may be posted to. `hosts`: the allowed hosts, as in the settings. Raises BadCheckUrl with one
    sentence.
    """
    url = check_url(text)
    if not _names(hosts, url):
        raise BadCheckUrl(f"the setting half_checks.hosts of this node does not name {url.host}:{url.port}")
    return url


def _names(hosts: Iterable[str], url: CheckUrl) -> bool:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return any(one.lower() in (url.host, host, f"{host}:{url.port}") for one in hosts)
