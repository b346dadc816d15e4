"""Secrets are blanked in each form in which a text may have them, and nothing else is."""

from __future__ import annotations

import json

import pytest

from bmq.server.redaction import HIDDEN, Redactor, secrets_of_settings, secrets_of_variables

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sasl.password=geheim other=1", f"sasl.password={HIDDEN} other=1"),
        ("ssl.key.password = 'ge heim' x", f"ssl.key.password = {HIDDEN} x"),
        ('{"password": "ge\\"heim", "user": "a"}', f'{{"password": "{HIDDEN}", "user": "a"}}'),
        ("authorization: Bearer abc.def-123", f"authorization: Bearer {HIDDEN}"),
        ("'Authorization': 'Basic YWxpY2U6Zm9v'", f"'Authorization': 'Basic {HIDDEN}'"),
        ("sent bearer eyJhbGciOi.J9.x", f"sent bearer {HIDDEN}"),
        ("otlp=https://alice:geheim@host:4318/v1", f"otlp=https://{HIDDEN}@host:4318/v1"),
        ('PlainLoginModule required user_bob="geheim";', f"PlainLoginModule required user_bob={HIDDEN};"),
        ("x\n-----BEGIN PRIVATE KEY-----\nMII\nAA\n-----END PRIVATE KEY-----\ny", f"x\n{HIDDEN}\ny"),
        ("-----BEGIN EC PRIVATE KEY-----\nMII cut off", HIDDEN),
        ("delegation.token.secret.key=abc", f"delegation.token.secret.key={HIDDEN}"),
        ("http://b1:8080/v1/health orders@example.org", "http://b1:8080/v1/health orders@example.org"),
        ("topic passwords-reset has 3 partitions", "topic passwords-reset has 3 partitions"),
        ("the token of the request was refused", "the token of the request was refused"),
    ],
)
def test_what_has_the_form_of_a_secret(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected


def test_known_secrets_are_found_as_they_are_in_json_and_escaped() -> None:
    secret = 'a"b\\c über'
    redactor = Redactor([secret, "", "  "])
    for text in (secret, json.dumps({"x": secret}), json.dumps({"x": secret}, ensure_ascii=False)):
        hidden = redactor.text(text)
        assert HIDDEN in hidden
        assert "b\\c" not in hidden and "über" not in hidden
    assert redactor.text("nothing here") == "nothing here"


def test_json_in_json_keeps_no_secret() -> None:
    settings = {"listener.name.x.ssl.key.password": "geheim", "jaas": 'PlainLoginModule required password="ge heim";'}
    for text in (json.dumps(json.dumps(settings)), json.dumps({"line": json.dumps(json.dumps(settings))})):
        hidden = Redactor().text(text)
        assert HIDDEN in hidden
        assert "geheim" not in hidden and "ge heim" not in hidden, hidden


def test_a_short_secret_is_blanked_as_a_word_alone() -> None:
    assert Redactor(["abc"]).text("abc abcd x=abc") == f"{HIDDEN} abcd x={HIDDEN}"


def test_longer_secrets_are_blanked_before_their_parts() -> None:
    assert Redactor(["geheim", "geheim-und-mehr"]).text("geheim-und-mehr geheim") == f"{HIDDEN} {HIDDEN}"


def test_secrets_of_settings_and_variables() -> None:
    found = secrets_of_settings(
        {
            "listen": "127.0.0.1:9092",
            "kafka.ssl.key.password": "geheim1",
            "kafka.delegation.token.secret.key": "",
            "kafka.listener.name.x.plain.sasl.jaas.config": 'M required user_a="ge\\"heim2" password=geheim3;',
        }
    )
    assert {"geheim1", 'ge"heim2', "geheim3"} <= found
    assert "127.0.0.1:9092" not in found
    given = {"BMQ_REST_TOKEN_FILE": "/etc/t", "MY_API_KEY": "k1", "DB_PASSWORD": "p1", "PATH": "/bin", "X_TOKEN": ""}
    assert secrets_of_variables(given) == {"k1", "p1"}
