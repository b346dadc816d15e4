"""What is posted to ask about half messages, and what the answer means. Pure.

The body is a JSON object: `topic`, `partition` and `checks`, a list of objects with `id`, `offset` and `check` (its number). The header
`bmq-signature` is `t=<ms since 1970>,v1=<hex>`: the HMAC-SHA256 of `<ms>.<body>` by the shared secret. An answer with
status 200 is a JSON object whose `commit` and `rollback` are lists of offsets; either may be left out. With 202 or 204 nothing is
decided.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bmq.broker.half_checker import CheckAnswer, CheckRequest
from bmq.metadata.half_configs import BadCheckUrl, CheckUrl, check_url
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

ANSWER_BYTES_MAX: Final = 64 * 1024
SECRET_BYTES_MIN: Final = 16
SIGNATURE: Final = "bmq-signature"
_OK: Final = 200
_WITHOUT_DECISIONS: Final = (202, 204)

Offset = Annotated[int, Field(ge=0, lt=2**63, strict=True)]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    commit: list[Offset] = Field(default_factory=list)
    rollback: list[Offset] = Field(default_factory=list)


class _Check(BaseModel):
    id: str
    offset: int
    check: int


class _Body(BaseModel):
    topic: str
    partition: int
    checks: list[_Check]


class SignedPost(NamedTuple):
    body: bytes
    headers: dict[str, str]


def signed_post(request: CheckRequest, secret: bytes, now_ms: int) -> SignedPost:
    checks = [_Check(id=one.check_id, offset=one.offset, check=one.number) for one in request.checks]
    body = _Body(topic=request.topic, partition=request.partition, checks=checks).model_dump_json().encode()
    signature = hmac.new(secret, b"%d." % now_ms + body, sha256).hexdigest()
    return SignedPost(body, {"content-type": "application/json", SIGNATURE: f"t={now_ms},v1={signature}"})


def answer_of(status: int, body: bytes) -> CheckAnswer:
    """Raises KafkaError for an answer that says nothing: it counts as no answer."""
    if status in _WITHOUT_DECISIONS:
        return CheckAnswer()
    if status != _OK:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"it answers with status {status}")
    if len(body) > ANSWER_BYTES_MAX:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"its answer has more than {ANSWER_BYTES_MAX} bytes")
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"its answer: {error.errors()[0]['msg']}") from error
    both = set(answer.commit) & set(answer.rollback)
    if both:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"its answer commits and rolls back {min(both)}")
    return CheckAnswer(tuple(answer.commit), tuple(answer.rollback))


def allowed_url(text: str, hosts: Sequence[str]) -> CheckUrl:
    """Raises BadCheckUrl with a sentence for a URL that no check goes to. `hosts`: as in the settings."""
    url = check_url(text)
    if not _names(hosts, url):
        raise BadCheckUrl(f"the setting half_checks.hosts of this node does not name {url.host}:{url.port}")
    return url


def _names(hosts: Iterable[str], url: CheckUrl) -> bool:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return any(one.lower() in (url.host, host, f"{host}:{url.port}") for one in hosts)
