"""Posts that ask about half messages, and their answers."""

from __future__ import annotations

import hmac
import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.broker.half_checker import Check, CheckAnswer, CheckRequest
from bmq.coordinator.transactions.check_back import TransactionName
from bmq.coordinator.transactions.checker import CheckAnswers, TransactionCheck
from bmq.metadata.half_configs import BadCheckUrl
from bmq.protocol.errors import KafkaError
from bmq.server.check_bodies import (
    ANSWER_BYTES_MAX,
    allowed_url,
    answer_of,
    body_of,
    signed,
    transactions_answer,
    transactions_body,
)

pytestmark = pytest.mark.unit

REQUEST = CheckRequest("orders", 3, (Check(7, 'a "check" é', 1), Check(9, "b", 15)))


def test_the_body_is_signed_with_its_time() -> None:
    post = signed(body_of(REQUEST), b"a secret of bytes", 1234)
    assert json.loads(post.body) == {
        "topic": "orders",
        "partition": 3,
        "checks": [{"id": 'a "check" é', "offset": 7, "check": 1}, {"id": "b", "offset": 9, "check": 15}],
    }
    signature = hmac.new(b"a secret of bytes", b"1234." + post.body, sha256).hexdigest()
    assert post.headers == {"content-type": "application/json", "bmq-signature": f"t=1234,v1={signature}"}


def test_answers() -> None:
    assert answer_of(200, b'{"commit": [7], "rollback": [9], "other": 1}') == CheckAnswer((7,), (9,))
    assert answer_of(200, b"{}") == answer_of(202, b"anything") == answer_of(204, b"") == CheckAnswer()


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (500, b"{}", "status 500"),
        (302, b"{}", "status 302"),
        (200, b"", "its answer"),
        (200, b"[]", "its answer"),
        (200, b'{"commit": [-1]}', "its answer"),
        (200, b'{"commit": ["7"]}', "its answer"),
        (200, b'{"commit": [9223372036854775808]}', "its answer"),
        (200, b'{"commit": [7], "rollback": [7]}', "commits and rolls back 7"),
        (200, b" " * (ANSWER_BYTES_MAX + 1), "more than"),
    ],
)
def test_answers_that_say_nothing(status: int, body: bytes, words: str) -> None:
    with pytest.raises(KafkaError, match=words):
        answer_of(status, body)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_none(body: bytes) -> None:
    try:
        answer_of(200, body)
    except KafkaError as error:
        assert str(error)


def test_transactions_are_named_as_their_coordinator_knows_them() -> None:
    check = TransactionCheck('pay-"é"', TransactionName(7, 3, 1_700), 60_000, 2, (0,))
    assert json.loads(transactions_body([(check, "order-1"), (check, None)])) == {
        "transactions": [
            {
                "transactional_id": 'pay-"é"',
                "id": check_id,
                "producer_id": 7,
                "producer_epoch": 3,
                "started_ms": 1_700,
                "timeout_ms": 60_000,
                "check": 2,
            }
            for check_id in ("order-1", None)
        ]
    }


def test_answers_about_transactions() -> None:
    asked = ["a", "b", "c"]
    some = transactions_answer(200, b'{"commit": ["a", "other"], "rollback": ["b"], "more": 1}', asked)
    assert some == CheckAnswers({"a": True, "b": False}, ["c"])
    assert transactions_answer(200, b"{}", asked) == transactions_answer(204, b"", asked) == CheckAnswers({}, asked)
    assert transactions_answer(202, b"", asked) == CheckAnswers({}, ()), "somebody decides later"


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (500, b"{}", "status 500"),
        (302, b"{}", "status 302"),
        (200, b"", "its answer"),
        (200, b'{"commit": "a"}', "its answer"),
        (200, b'{"commit": [1]}', "its answer"),
        (200, b'{"commit": ["a"], "rollback": ["a"]}', "commits and rolls back a"),
        (200, b" " * (ANSWER_BYTES_MAX + 1), "more than"),
    ],
)
def test_answers_about_transactions_that_say_nothing(status: int, body: bytes, words: str) -> None:
    with pytest.raises(KafkaError, match=words):
        transactions_answer(status, body, ["a"])


def test_only_hosts_of_the_list_are_asked() -> None:
    hosts = ("Orders.example", "127.0.0.1:8443", "[::1]:80")
    for text in ("http://orders.example/x", "https://ORDERS.example:1/", "https://127.0.0.1:8443/", "http://[::1]/"):
        assert allowed_url(text, hosts)
    for text in ("http://other.example/", "https://127.0.0.1/", "http://orders.example.evil/", "http://[::1]:81/"):
        with pytest.raises(BadCheckUrl, match=r"half_checks\.hosts of this node does not name"):
            allowed_url(text, hosts)
    with pytest.raises(BadCheckUrl, match="does not name"):
        allowed_url("http://orders.example/", ())
    with pytest.raises(BadCheckUrl, match="metadata services"):
        allowed_url("http://169.254.169.254/", ("169.254.169.254",))
