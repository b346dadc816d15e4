"""Kafka requests over REST are no way around the logins of the listeners."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.server.rest_requests import NO_LOGIN, why_no_requests
from bmq.server.settings import load_settings

pytestmark = pytest.mark.unit

MECHANISM = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
SASL = {"listeners": "A://127.0.0.1:9092", "listener.security.protocol.map": "A:SASL_PLAINTEXT"} | MECHANISM
BOTH = {
    **MECHANISM,
    "listeners": "A://127.0.0.1:9092,B://127.0.0.1:9094",
    "listener.security.protocol.map": "A:SASL_PLAINTEXT,B:PLAINTEXT",
}


@pytest.mark.parametrize(
    ("changes", "has_authorizer", "expected"),
    [
        ({}, False, ""),
        ({"kafka": SASL}, False, NO_LOGIN),
        ({"kafka": SASL}, True, ""),
        ({"kafka": BOTH}, False, ""),
        ({"kafka": SASL, "rest_security": {"logins": "basic"}}, False, ""),
        ({"kafka": {**SASL, "listener.name.rest.ssl.client.auth": "required"}}, False, NO_LOGIN),
        (
            {
                "kafka": {**SASL, "listener.name.rest.ssl.client.auth": "required"},
                "rest_security": {"protocol": "https"},
            },
            False,
            "",
        ),
    ],
    ids=[
        "nothing asks for a login",
        "Kafka's listeners do",
        "an authorizer decides",
        "one listener is open",
        "REST asks too",
        "a certificate that plain http cannot show",
        "REST asks for a certificate",
    ],
)
def test_where_kafka_asks_for_logins_rest_has_to(changes: dict[str, Any], has_authorizer: bool, expected: str) -> None:
    settings = load_settings(changes, None).settings
    assert why_no_requests(settings, has_authorizer=has_authorizer) == expected
